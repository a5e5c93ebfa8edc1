package worker

import (
	"math"

	"mcmw/internal/backend"
	"mcmw/internal/plan"
)

// states is what the worker knows of the servers' states.
type states struct {
	seen    uint32 // value of Options.Changes when the planner was told the states
	trouble bool   // some server recovers or is suspect
	closes  int64  // when the first of the open gutters is empty, ns as stats.Now; 0: none is open, or none has an end
}

// updateStates tells the planner the servers' states, if they have changed. It must be called after keys were locked:
// the previous holder of a lock may have found a server to be stale.
func (w *Worker) updateStates() {
	changes := w.options.Changes.Load()
	if changes != w.states.seen || w.states.closes != 0 && w.dequeued >= w.states.closes {
		w.tellStates(changes)
	}
}

// tellStates is updateStates at that value of Options.Changes.
func (w *Worker) tellStates(changes uint32) {
	w.states.seen, w.states.trouble, w.states.closes = changes, false, 0
	for i, s := range w.options.Servers {
		state := &w.planner.Servers[i]
		state.Readable, state.Stale, state.Suspect = s.Readable(), s.Stale(), s.Suspected()
		state.Recovers = s.Recovers()
		state.Marked = w.barring(i) && s.Marked()
		w.updateRole(i, s, state)
		w.states.trouble = w.states.trouble || state.Recovers || state.Suspect || state.RoleDue
		w.updateGutter(s, state)
	}
}

// updateRole tells the planner the role of server s; see package plan. Without marks no other server can take its
// place.
func (w *Worker) updateRole(s int, server *backend.Server, state *plan.Server) {
	switch p := &w.options.Pools[w.options.Router.Of(s).Number()]; {
	case !p.Agreed:
	case p.Lease == nil:
		state.Decides = true
	default:
		state.Decides, state.Replaced, state.RoleDue = server.Decides(), server.Replaced(), server.Settles()
		state.Turn, state.Since = server.Turn(), 0
		switch {
		case w.options.Router.Of(s).Gutter() != nil:
			state.RoleDue, state.Since = state.RoleDue && !server.HadRole(), server.RoleSince()
		case state.Decides:
			state.Since = server.DecidesSince()
		}
	}
}

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

// updateLoads tells the planner the servers' loads, if reads depend on these.
func (w *Worker) updateLoads() {
	if !w.measures() {
		return
	}
	for i, s := range w.options.Servers {
		w.planner.Servers[i].Load = s.Load(0)
	}
}

// measures reports whether the duration of calls to each server has to be measured.
func (w *Worker) measures() bool { return w.options.Router.Measures() }
