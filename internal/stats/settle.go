package stats

// settleRequests adds entries of the journal to the counters.
func (w *Worker) settleRequests(entries []entry) {
	var chunk [journalRequests]answered
	for len(entries) > 0 {
		n := min(len(entries), len(chunk))
		for i := range n {
			chunk[i] = entries[i].load()
		}
		w.countAll(chunk[:n])
		entries = entries[n:]
	}
}

// count counts a request that does not fit into the journal.
func (w *Worker) count(a *answered) { w.countAll([]answered{*a}) }

// countAll counts requests, at least one, counter by counter.
func (w *Worker) countAll(all []answered) {
	var keys, misses uint64
	var sums [NumClasses][NumStages]uint64
	var squares [NumClasses]uint128
	for i := range all {
		a := &all[i]
		response := a.response()
		w.requests[a.command][a.result].Add(a.n)
		w.response[a.class].count(response, a.n)
		squares[a.class] = squares[a.class].plus(square(response, a.n))
		keys += a.keys
		misses += a.misses
	}
	for c := range squares {
		w.response[c].squares.add(squares[c])
	}
	for s := range NumStages {
		stage := &w.stages[s]
		var squares uint128
		// Requests of one round may have equal times even if they differ otherwise.
		ns, n := all[0].stages[s], uint64(0)
		for i := range all {
			a := &all[i]
			if a.stages[s] != ns {
				stage.count(ns, n)
				squares = squares.plus(square(ns, n))
				ns, n = a.stages[s], 0
			}
			n += a.n
			sums[a.class][s] += uint64(ns) * a.n
		}
		stage.count(ns, n)
		stage.squares.add(squares.plus(square(ns, n)))
	}
	for c := range sums {
		for s, sum := range sums[c] {
			if sum > 0 {
				w.stageSums[c][s].Add(sum)
			}
		}
	}
	if keys > 0 {
		w.keys.Add(keys)
	}
	if misses > 0 {
		w.misses.Add(misses)
	}
}
