package worker

import (
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// partReads is how the servers of the part's reads are chosen.
type partReads struct {
	chosen bool
	turn   int // of the part, once chosen
	server int // for reads that every server can answer, once chosen
}

// readsAny reports whether any of a key's servers may answer the read r.
func (w *Worker) readsAny(r *pending) bool {
	return r.reads() && !r.readsFirst() && w.options.Router.Read() != route.ReadPrimary
}

// readsFirst reports whether r reads what only a key's first server knows: its cas, or what me shows.
func (r *pending) readsFirst() bool { return r.Has(protocol.Reads | protocol.First) }

// choose fixes the part's turn and server at its first read.
func (w *Worker) choose() *partReads {
	p := &w.reads
	if p.chosen && w.exclude == nil {
		return p
	}
	w.turn++
	*p = partReads{chosen: true, turn: w.turn}
	if w.measures() {
		for s := range w.loads {
			w.loads[s] = w.options.Servers[s].Load(0)
		}
	}
	p.server = w.best(w.all, p.turn)
	return p
}

// best returns which of servers a read goes to: the worker's own, where it has one; else, of those that are readable, the
// one in turn, or the least busy, in turn among equals; of all of them if none is.
func (w *Worker) best(servers []int, turn int) int {
	if !w.patient && slices.Contains(servers, w.home) && w.mayRead(w.home) && !w.options.Servers[w.home].Suspected() {
		return w.home
	}
	if len(w.readable(servers)) == 0 {
		return servers[turn%len(servers)]
	}
	best := w.servers[turn%len(w.servers)]
	if !w.measures() {
		return best
	}
	for k := range w.servers {
		if s := w.servers[(turn+k)%len(w.servers)]; w.loads[s] < w.loads[best] {
			best = s
		}
	}
	return best
}
