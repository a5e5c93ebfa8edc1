package worker

import (
	"math"

	"mcmw/internal/backend"
	"mcmw/internal/plan"
)

// updateGutter tells the planner what is in the gutter of server's pool; see package plan.
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
