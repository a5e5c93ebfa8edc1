package stats

import "sync/atomic"

// clock measures how long a worker has been busy, including the current round. It has a single writer and any number of
// readers. A value read while the worker records the end of a round may be too large by the time that this recording
// takes.
type clock struct {
	// state holds a time in ns, shifted left by one bit, and the lowest bit. While the worker is idle, the bit is 0 and
	// the time is the total busy time. While it is busy, the bit is 1 and the time is that total minus the time at
	// which it became busy.
	state atomic.Int64
}

func (c *clock) begin(now int64) { c.state.Store((c.state.Load()>>1-now)<<1 | 1) }
func (c *clock) end(now int64)   { c.state.Store((c.state.Load()>>1 + now) << 1) }

// read returns the busy time so far in ns, and whether the worker is busy.
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

// monotonic makes a sequence of values never decrease.
type monotonic struct{ highest atomic.Uint64 }

// of returns the maximum of v and all values before it.
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
