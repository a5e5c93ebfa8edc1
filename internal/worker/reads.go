package worker

import (
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// readKind is how the servers of a replicated read are chosen.
type readKind uint8

const (
	readNone  readKind = iota
	readAny            // any of a key's servers: within a part always the same
	readFirst          // a key's first server
	readSplit          // keys are dealt out by their position
)

// partReads are the reads of the part that is being planned. Two reads of one key in a burst must not go to different
// servers in one round: the second could miss a write of another client that the first has seen. So the reads of a part
// are all of one kind, for which a key has one server; a read of another kind waits for the next round.
type partReads struct {
	kind   readKind
	chosen bool
	turn   int // of the part, once chosen
	server int // for reads that every server can answer, once chosen
}

// admit reports whether a read of kind k may join the part.
func (p *partReads) admit(k readKind) bool {
	if p.kind != readNone && (p.kind != k || k == readSplit) {
		return false
	}
	p.kind = k
	return true
}

// readKind returns how the servers of r are chosen, readNone if it is no read.
func (w *Worker) readKind(r *pending) readKind {
	router := w.options.Router
	switch {
	case r.readsFirst():
		return readFirst
	case r.Command != protocol.Get && (r.Command != protocol.Meta || !r.readsOnly()):
		return readNone
	case router.Read() == route.ReadPrimary:
		return readFirst
	case r.Command == protocol.Get && r.NumKeys > 1 && w.options.Sharded && router.N() == len(w.conns):
		return readSplit
	}
	return readAny
}

// readsFirst reports whether r reads what only a key's first server knows: its cas, or what me shows.
func (r *pending) readsFirst() bool {
	return r.Command == protocol.Gets || (r.Command == protocol.Meta && r.readsOnly() && (r.meta.Token || r.meta.Verb == 'e'))
}

// choose fixes the part's turn and server at its first read.
func (w *Worker) choose() *partReads {
	p := &w.reads
	if p.chosen && w.exclude == nil {
		return p
	}
	w.turn++
	*p = partReads{kind: p.kind, chosen: true, turn: w.turn}
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
