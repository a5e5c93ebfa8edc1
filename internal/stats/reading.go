package stats

import (
	"runtime"
	"sync/atomic"
)

// reading holds values read from a worker, until they are known to be consistent.
type reading struct {
	buckets []bucketCount
	sums    []sumCount
	squares []squareCount
}

type bucketCount struct {
	h      *Histogram
	bucket int
	n      uint64
}

type sumCount struct {
	to *uint64
	n  uint64
}

type squareCount struct {
	h  *Histogram
	of uint128
}

func (r *reading) reset() { r.buckets, r.sums, r.squares = r.buckets[:0], r.sums[:0], r.squares[:0] }

func (r *reading) sum(to *uint64, n uint64) {
	if n > 0 {
		r.sums = append(r.sums, sumCount{to, n})
	}
}

// times adds n times of ns each, but not their sum.
func (r *reading) times(h *Histogram, ns int64, n uint64) {
	r.buckets = append(r.buckets, bucketCount{h, bucketOf(ns), n})
	r.squares = append(r.squares, squareCount{h, square(ns, n)})
}

// recorder adds the contents of from.
func (r *reading) recorder(h *Histogram, from *recorder) {
	for i := range from.pages {
		p := from.pages[i].Load()
		if p == nil {
			continue
		}
		first := i * pageBuckets
		for j := range min(pageBuckets, NumBuckets-first) {
			if n := p[j].Load(); n > 0 {
				r.buckets = append(r.buckets, bucketCount{h, first + j, n})
			}
		}
	}
	r.squares = append(r.squares, squareCount{h, from.squares.load()})
}

// add adds the values to their destinations.
func (r *reading) add() {
	for _, b := range r.buckets {
		if b.h.counts == nil {
			b.h.counts = make([]uint64, NumBuckets)
		}
		b.h.counts[b.bucket] += b.n
		b.h.count += b.n
	}
	for _, s := range r.sums {
		*s.to += s.n
	}
	for _, s := range r.squares {
		s.h.squares = s.h.squares.plus(s.of)
	}
}

// addTo adds the records of w to s. r is scratch memory. It reads again if w has emptied its journal meanwhile. While
// there is a reader, a worker empties its journal only after some hundred entries, which takes much longer than
// reading.
func (w *Worker) addTo(s *Snapshot, r *reading) {
	w.journal.readers.Add(1)
	for whole := false; !whole; {
		version := w.journal.version.Load()
		if version%2 == 0 {
			r.reset()
			w.readCounts(s, r)
			w.readJournal(s, r)
			whole = w.journal.version.Load() == version
		}
		if !whole {
			runtime.Gosched()
		}
	}
	w.journal.readers.Add(-1)
	r.add()
	s.Taken += w.taken.Load()
	s.Answered += w.answered.Load()
	busyTime, busy := w.clock.read()
	s.BusyTime += busyTime
	if busy {
		s.WorkersBusy++
	}
	for i := range w.roundSizes {
		n := w.roundSizes[i].Load()
		s.RoundSizes[i] += n
		s.Rounds += n
	}
	s.RoundRequests += w.roundRequests.Load()
	a := &w.agreement
	s.Agreement.plus(Agreement{a.checks.Load(), a.disagreements.Load(), a.cuts.Load()})
	s.Joined += w.joined.Load()
	for i := range w.counted {
		s.Counted[i] += w.counted[i].Load()
	}
	l := &w.large
	s.Large.plus(Large{l.stored.Load(), l.read.Load(), l.incomplete.Load()})
	s.FromClients += w.fromClients.Load()
	s.ToClients += w.toClients.Load()
	for i := range w.servers {
		from, to := w.servers[i], &s.Servers[i]
		to.Repairs += from.repairs.Load()
		for r := range from.errors {
			to.Errors[r] += from.errors[r].Load()
		}
	}
}

func (w *Worker) readCounts(s *Snapshot, r *reading) {
	load := func(to *uint64, from *atomic.Uint64) { r.sum(to, from.Load()) }
	for c := range w.requests {
		for i := range w.requests[c] {
			load(&s.Requests[c][i], &w.requests[c][i])
		}
	}
	for c := range w.response {
		r.recorder(&s.Response[c], &w.response[c])
		for i := range w.stageSums[c] {
			r.stageSum(s, Class(c), Stage(i), w.stageSums[c][i].Load())
		}
	}
	for i := range w.stages {
		r.recorder(&s.Stages[i], &w.stages[i])
	}
	for i := range w.servers {
		from, to := w.servers[i], &s.Servers[i]
		r.recorder(&to.Times, &from.times)
		load(&to.Times.sum, &from.sum)
		load(&to.Waited, &from.waited)
	}
	load(&s.Keys, &w.keys)
	load(&s.Misses, &w.misses)
}

func (r *reading) stageSum(s *Snapshot, c Class, i Stage, ns uint64) {
	r.sum(&s.ClassStages[c][i], ns)
	r.sum(&s.Stages[i].sum, ns)
	r.sum(&s.Response[c].sum, ns)
}

func (w *Worker) readJournal(s *Snapshot, r *reading) {
	j := &w.journal
	for i := range j.numRequests.Load() {
		a := j.requests[i].load()
		r.sum(&s.Requests[a.command][a.result], a.n)
		r.times(&s.Response[a.class], a.response(), a.n)
		for i, ns := range a.stages {
			r.times(&s.Stages[i], ns, a.n)
			r.stageSum(s, a.class, Stage(i), uint64(ns)*a.n)
		}
		r.sum(&s.Keys, a.keys)
		r.sum(&s.Misses, a.misses)
	}
	for i := range j.numServers.Load() {
		e := serverEntry(j.servers[i].Load())
		to := &s.Servers[e.server()]
		if e.waited() {
			r.sum(&to.Waited, uint64(e.ns()))
			continue
		}
		r.times(&to.Times, e.ns(), e.n())
		r.sum(&to.Times.sum, uint64(e.ns())*e.n())
	}
}
