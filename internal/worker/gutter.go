package worker

import (
	"math"

	"mcmw/internal/backend"
	"mcmw/internal/plan"
	"mcmw/internal/stats"
)

// updateGutter tells the planner whether the gutter of server's pool is away or open; see package plan.
func (w *Worker) updateGutter(server *backend.Server, state *plan.Server) {
	state.Away, state.Open = server.Away(), false
	until := server.OpenUntil()
	if until <= w.dequeued {
		return
	}
	state.Open = true
	if until != math.MaxInt64 && (w.states.closes == 0 || until < w.states.closes) {
		w.states.closes = until
	}
}

// noteWarming reports the lookups in pools that are warmed up.
func (w *Worker) noteWarming() {
	for pool := range w.planner.Warming {
		if n := &w.planner.Warming[pool]; *n != (stats.Warming{}) {
			w.options.Pools[pool].Warming.Add(*n)
			*n = stats.Warming{}
		}
	}
	for _, l := range w.planner.Lacking {
		w.options.Pools[l.Pool].Lacks(l.Key)
	}
	clear(w.planner.Lacking)
	w.planner.Lacking = w.planner.Lacking[:0]
}
