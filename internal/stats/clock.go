package stats

import "sync/atomic"

// clock is how long a worker has been busy, including the current round. Single writer, any number of readers. A reading
// taken while the worker records the end of a round may be too long by the duration of that.
type clock struct {
	// state is, times two, the total busy time while the worker is idle, and that total minus the time it became busy while
	// it is busy, ns; the lowest bit tells which.
	state atomic.Int64
}

func (c *clock) begin(now int64) { c.state.Store((c.state.Load()>>1-now)<<1 | 1) }
func (c *clock) end(now int64)   { c.state.Store((c.state.Load()>>1 + now) << 1) }

// read returns the busy time up to now, ns, and whether the worker is busy.
func (c *clock) read() (ns uint64, busy bool) {
	for {
		state := c.state.Load()
		if state&1 == 0 {
			return uint64(state >> 1), false
		}
		now := Now()
		if c.state.Load() == state {
			return uint64(max(state>>1+now, 0)), true
		}
	}
}

// monotonic is a value that never decreases: a reading below the highest before it returns that one.
type monotonic struct{ highest atomic.Uint64 }

// of returns v, or the highest value so far if that is more.
func (r *monotonic) of(v uint64) uint64 {
	for {
		highest := r.highest.Load()
		if v <= highest {
			return highest
		}
		if r.highest.CompareAndSwap(highest, v) {
			return v
		}
	}
}
