package worker

import (
	"errors"

	"mcmw/internal/backend"
	"mcmw/internal/stats"
)

// confirm brings the roles up to date, before a step of a request ends that a server has decided.
func (w *Worker) confirm() {
	for _, lease := range w.leases {
		lease.Lapsed(stats.Now())
	}
	w.updateStates()
}

// errDeposed: another server decides now, and does not know what this one has decided.
var errDeposed = errors.New("it ceased to decide while it carried out a write")

// noteUndone makes the server that has decided requests[i], and was deposed before the others got the result, lose the
// result.
func (w *Worker) noteUndone(i int32) {
	n := w.planner.Undone(i)
	if n < 0 {
		return
	}
	server := w.options.Servers[w.planner.Calls[n].Server]
	w.planner.Missed(n, func(key []byte) { server.Missed(key, errDeposed) })
}

// deposed returns the server that has decided requests[i], and a function that reports whether it ceased to decide
// since now; nil: none has decided it.
func (w *Worker) deposed(i int32) (decider int, was func() bool) {
	electors := w.planner.Electors(i)
	if len(electors) == 0 {
		return 0, nil
	}
	var servers []*backend.Server
	var turns []uint32
	for _, s := range electors {
		servers, turns = append(servers, w.options.Servers[s]), append(turns, w.options.Servers[s].Turn())
	}
	leases := w.leases
	return electors[len(electors)-1], func() bool {
		for _, lease := range leases {
			lease.Lapsed(stats.Now())
		}
		for k, s := range servers {
			if s.Turn() != turns[k] {
				return true
			}
		}
		return false
	}
}
