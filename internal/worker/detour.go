package worker

import (
	"context"
	"fmt"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// A server that stalls must not hold up requests that don't need it. A worker that waits for one longer than
// Options.StallAfter declares it suspect, passes the requests it has not begun to other workers, and releases its slot of Options.Active to another
// (stalled). From then on requests that need the server are passed on to its detour (detour), a lane with one patient
// worker of its own, until the server answers or is down. Reads that wait for a server to be clean of what it missed go
// the same way.

// detour redirects the rest of b, which begins with requests[i], if that request needs a server in trouble; false means that the
// request can be planned here.
func (w *Worker) detour(b *request.Batch, i int32) bool {
	if w.patient || w.options.Troubled.Load() == 0 {
		return false
	}
	s := w.troubled(&w.requests[i])
	if s < 0 {
		return false
	}
	w.redirect(b, s)
	return true
}

// redirect sets the lane of b's next request to the detour of server s.
func (w *Worker) redirect(b *request.Batch, s int) {
	b.Requests[b.Next].Lane = w.options.Detours + int32(s)
}

// troubled returns a server in trouble without which r can't be served, -1 if there is none.
func (w *Worker) troubled(r *pending) int {
	switch {
	case r.Answer != "" && !r.HasEffect():
		return -1
	case r.Has(protocol.Everywhere):
		return w.suspectOf(w.all)
	case r.Has(protocol.Local):
		return -1
	case r.NumKeys == 0:
		return w.suspectOf(w.all[:1])
	case r.Command.IsRetrieval():
		for rest := r.Keys; len(rest) > 0; {
			var key []byte
			key, rest = nextWord(rest)
			if len(key) == 0 {
				break
			}
			if s := w.troubledKey(r, key); s >= 0 {
				return s
			}
		}
	default:
		return w.troubledKey(r, r.key)
	}
	return -1
}

// troubledKey returns a server in trouble without which key can't be served as r wants it, -1 if there is none.
func (w *Worker) troubledKey(r *pending, key []byte) int {
	w.holders = w.options.Router.Replicas(key, w.holders[:0])
	if !r.readsOnly() || r.touches() {
		if s := w.suspectOf(w.holders); s >= 0 {
			return s
		}
	}
	if !w.mustRead(r) {
		return -1
	}
	first, stale := -1, -1
	for _, s := range w.holders {
		server := w.options.Servers[s]
		switch {
		case server.Readable():
			if !server.Suspected() && (first < 0 || w.readsAny(r)) {
				return -1
			}
			if first < 0 {
				first = s
			}
		case stale < 0 && server.Stale():
			stale = s
		}
	}
	if first >= 0 {
		return first
	}
	return stale
}

// mustRead reports whether r depends on what a server holds: a read, or what compares a cas.
func (w *Worker) mustRead(r *pending) bool {
	return r.Has(protocol.Reads) || r.Has(protocol.Conditional)
}

// suspectOf returns the first of servers that is suspect, -1 if none is.
func (w *Worker) suspectOf(servers []int) int {
	for _, s := range servers {
		if w.options.Servers[s].Suspected() {
			return s
		}
	}
	return -1
}

// awaitReadable waits, on a detour, until the servers that requests[i] has to be read from are clean of what they missed.
func (w *Worker) awaitReadable(ctx context.Context, i int32) {
	r := &w.requests[i]
	if !w.mustRead(r) || w.options.Troubled.Load() == 0 {
		return
	}
	// One after the other: the keys of a retrieval may be on several.
	for s := w.troubled(r); s >= 0 && w.options.Servers[s].Stale() && w.untilExpiry(r) > 0 && ctx.Err() == nil; s = w.troubled(r) {
		w.options.Servers[s].AwaitReadable(ctx, time.Now().Add(w.untilExpiry(r)))
	}
}

// untilExpiry returns for how long r may go on waiting until there is too little left of its time to ask a server in trouble.
func (w *Worker) untilExpiry(r *pending) time.Duration {
	return w.options.Timeout - 2*w.options.Timeout/reserve - time.Duration(stats.Now()-r.waitsSince())
}

// expire looks at a request of a detour whose time is over. Where its keys have other servers it is planned, and only its calls to
// suspects fail; otherwise it is answered here, and expire returns true.
func (w *Worker) expire(i int32) (answered bool) {
	r := &w.requests[i]
	if !w.patient || w.untilExpiry(r) > 0 || (r.Answer != "" && !r.HasEffect()) {
		return false
	}
	if w.options.Router.N() > 1 && r.NumKeys > 0 {
		r.expired = true
		return false
	}
	r.text = fmt.Sprintf("SERVER_ERROR %s: no reply in time\r\n", w.options.Servers[w.home].Name)
	if miss, ok := r.Miss(); ok && w.options.GetErrorMiss {
		r.text = miss
	}
	return true
}

// stalled is called when the worker has waited too long for server s. It declares the server suspect, so that requests which can use
// another server do; passes the requests that the round has not begun to other workers; and releases the worker's slot.
func (w *Worker) stalled(s int) {
	w.options.Servers[s].Suspect()
	w.passOn()
	if w.parked {
		return
	}
	w.parked = true
	w.options.Locks.Park(w.owner, s)
	for i := range w.requests {
		w.releaseDone(&w.requests[i])
	}
	if !w.patient {
		w.active = false
		w.options.Active.release()
	}
}

// passOn gives other workers what this one would serve in its next round.
func (w *Worker) passOn() {
	for _, b := range w.later {
		w.options.Lanes.Pass(b)
	}
	clear(w.later)
	w.later = w.later[:0]
}

// releaseDone releases the key lock of a write that is done before the end of the round.
func (w *Worker) releaseDone(r *pending) {
	if r.left > 0 || !r.done || !r.locked {
		return
	}
	r.locked = false
	w.release(r.stripe)
}

// unpark ends, with the round, the waiting that stalled began.
func (w *Worker) unpark() {
	if w.parked {
		w.parked = false
		w.options.Locks.Unpark(w.owner)
	}
}
