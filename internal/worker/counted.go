package worker

import (
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// countAs counts what memcached counts about requests[i], a meta command, gat or cas, that its command and result do
// not say.
func (w *Worker) countAs(i int32, result stats.Result, hits int) {
	r := &w.planner.Requests[i]
	if result >= stats.ResultClientError {
		return
	}
	switch {
	case r.Command.IsMeta():
		if what, ok := w.countMeta(i, r, result); ok {
			w.record.Counted(what, 1)
		}
	case r.Command.IsRetrieval():
		w.record.Counted(stats.CountGats, r.KeysAsked())
		w.record.Counted(stats.CountGatMisses, r.KeysAsked()-hits)
		w.record.Counted(stats.CountTouchHits, hits)
		w.record.Counted(stats.CountTouchMisses, r.KeysAsked()-hits)
	case result == stats.ResultNotStored:
		w.record.Counted(w.casFailure(i), 1)
	}
}

// casFailure says how requests[i] failed, whose cas did not match.
func (w *Worker) casFailure(i int32) stats.Counted {
	if w.planner.NotFound(i) {
		return stats.CountCasMisses
	}
	return stats.CountCasBad
}

// countMeta returns what memcached counts for a meta command. ok is false if it counts nothing.
func (w *Worker) countMeta(i int32, r *plan.Request, result stats.Result) (what stats.Counted, ok bool) {
	done := result == stats.ResultOK
	// either returns hit or miss.
	either := func(hit, miss stats.Counted) (stats.Counted, bool) {
		if done {
			return hit, true
		}
		return miss, true
	}
	switch r.Verb {
	case 'g':
		done = done && !w.planner.NotFound(i)
		if done && r.HasFlag('T') {
			return stats.CountTouchHits, true
		}
		return either(stats.CountGetHits, stats.CountGetMisses)
	case 's':
		w.record.Counted(stats.CountSets, 1)
		switch {
		case !r.Has(protocol.Conditional):
			return 0, false
		case done:
			return stats.CountCasHits, true
		}
		return w.casFailure(i), true
	case 'd':
		if done && r.Has(protocol.Marks) {
			return 0, false
		}
		return either(stats.CountDeleteHits, stats.CountDeleteMisses)
	case 'a':
		if r.Decrements() {
			return either(stats.CountDecrHits, stats.CountDecrMisses)
		}
		return either(stats.CountIncrHits, stats.CountIncrMisses)
	case 'e':
		return stats.CountMeta, true
	}
	return 0, false
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
