package worker

import (
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
		w.countMeta(i, result)
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

// countMeta counts what memcached counts for the meta command requests[i].
func (w *Worker) countMeta(i int32, result stats.Result) {
	r, done := &w.planner.Requests[i], result == stats.ResultOK
	var hit, miss stats.Counted
	switch r.Verb {
	case 'g':
		done = done && !w.planner.NotFound(i)
		if hit, miss = stats.CountGetHits, stats.CountGetMisses; r.HasFlag('T') {
			hit = stats.CountTouchHits
		}
	case 's':
		w.record.Counted(stats.CountSets, 1)
		if !r.Has(protocol.Conditional) {
			return
		}
		if hit = stats.CountCasHits; !done {
			miss = w.casFailure(i)
		}
	case 'd':
		if done && r.Has(protocol.Marks) {
			return
		}
		hit, miss = stats.CountDeleteHits, stats.CountDeleteMisses
	case 'a':
		if hit, miss = stats.CountIncrHits, stats.CountIncrMisses; r.Decrements() {
			hit, miss = stats.CountDecrHits, stats.CountDecrMisses
		}
	case 'e':
		hit, miss = stats.CountMeta, stats.CountMeta
	default:
		return
	}
	if !done {
		hit = miss
	}
	w.record.Counted(hit, 1)
}

// countPools reports what went to gutters and to pools that are warmed up.
func (w *Worker) countPools() {
	for k := range w.options.Pools {
		pool := &w.options.Pools[k]
		if n := &w.planner.Diverted[k]; *n != (stats.Diverted{}) {
			pool.Diverted.Add(*n)
			*n = stats.Diverted{}
		}
		if n := &w.planner.Warming[k]; *n != (stats.Warming{}) {
			pool.Warming.Add(*n)
			*n = stats.Warming{}
		}
	}
	for _, l := range w.planner.Lacking {
		w.options.Pools[l.Pool].Lacks(l.Key)
	}
	clear(w.planner.Lacking)
	w.planner.Lacking = w.planner.Lacking[:0]
}
