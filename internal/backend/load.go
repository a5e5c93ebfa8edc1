package backend

import (
	"math/bits"
	"sync/atomic"
	"time"

	"mcmw/internal/stats"
)

// work measures the load of a server, for least-busy reads. Any goroutine may use it.
type work struct {
	// outstanding is the number of calls that workers have planned for the server and that are not answered yet.
	outstanding atomic.Int64
	// cost is a moving average of the duration of one call, ns; 0: unknown. Writers may overwrite each other's samples.
	cost atomic.Int64
	// costAt is when cost was last measured, ns as stats.Now.
	costAt atomic.Int64
	// progress is when the server last answered a call, or was sent one while no other was under way, ns as stats.Now.
	progress atomic.Int64
}

// costHalves is the half-life, in ns, of a cost that is not measured again. With it a server that is avoided because it
// was slow is tried again.
const costHalves = int64(time.Second)

// Begin counts calls that are sent at now, ns as stats.Now.
func (w *work) Begin(calls int, now int64) {
	if n := int64(calls); w.outstanding.Add(n) == n {
		w.progress.Store(now)
	}
}

// End counts a call that was answered, or given up, at now, ns as stats.Now.
func (w *work) End(now int64) {
	w.outstanding.Add(-1)
	w.progress.Store(now)
}

// Took records that a call took ns. atMost: it took that or less, because the reply may have been waiting to be read.
func (w *work) Took(ns int64, atMost bool) {
	cost := w.cost.Load()
	if atMost && cost != 0 && ns >= cost {
		return
	}
	switch {
	case cost == 0:
		cost = ns
	case ns > 4*cost:
		cost += (ns - cost) / 2 // a sudden slowdown counts at once
	default:
		cost += (ns - cost) / 8
	}
	w.cost.Store(max(cost, 1))
	w.costAt.Store(stats.Now())
}

// Load returns an estimate, in ns, of how long the server takes for the calls under way, for waiting further ones, and
// for one more. Costs are rounded down to powers of two, so that servers of similar speed differ only in their number
// of calls.
func (w *work) Load(waiting int) int64 {
	calls := w.outstanding.Load() + int64(waiting)
	cost := w.cost.Load()
	if calls == 0 {
		// A server that was slow gets only one call at a time.
		cost >>= min(max(stats.Now()-w.costAt.Load(), 0)/costHalves, 62)
	} else {
		// A call takes at least as long as the server has now owed a reply.
		cost = max(cost, stats.Now()-w.progress.Load())
	}
	return (calls + 1) << max(bits.Len64(uint64(cost))-1, 0)
}
