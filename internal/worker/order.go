package worker

import (
	"mcmw/internal/keylock"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
)

// stripe is what a worker notes of a key lock it holds.
type stripe struct {
	writes int // of this round
	// exclusive: a write of several steps is among them; no other write may be planned behind it.
	exclusive bool
}

// admit takes the key locks that requests[i], the last of the round, needs: a replicated write holds its key's stripe until
// the round ends; a replicated read only waits until no other worker does. It waits only if nothing else is in the
// round; otherwise false means that the request has to be served in the next, or on the detour of the server that the
// lock's holder waits for.
func (w *Worker) admit(b *request.Burst, i int32) bool {
	r := &w.requests[i]
	if w.options.Router.N() == 1 || (r.Answer != "" && !r.HasEffect()) {
		return true
	}
	if kind := w.readKind(r); kind != readNone && !w.reads.admit(kind) {
		return false
	}
	switch {
	case r.Command == protocol.FlushAll:
		return w.admitFlush(b, i)
	case r.Command == protocol.Get || r.Command == protocol.Gets:
		return w.admitRead(b, i, r.Keys)
	case r.Command == protocol.Gat || r.Command == protocol.Gats:
		return w.admitTouches(b, i)
	case r.Command.IsKeyed():
		return w.admitWrite(b, i, r.Keys)
	case r.Command == protocol.Meta && r.NumKeys > 0 && r.meta.Writes():
		return w.admitWrite(b, i, r.meta.Key)
	case r.Command == protocol.Meta && r.NumKeys > 0:
		return w.admitStripe(b, i, w.options.Locks.Stripe(r.meta.Key))
	}
	return true
}

// conditional reports whether the write depends on a cas that only the key's first server knows: it takes two steps.
func (r *pending) conditional() bool {
	return r.Command == protocol.Cas || (r.Command == protocol.Meta && r.meta.Compare && r.meta.Writes())
}

func (w *Worker) admitWrite(b *request.Burst, i int32, key []byte) bool {
	r := &w.requests[i]
	r.stripe = w.options.Locks.Stripe(key)
	s, mine := w.locks[r.stripe]
	switch {
	case mine && s.exclusive:
		return false
	case mine:
	case i == 0:
		if _, server := w.options.Locks.LockAll(append(w.stripes[:0], r.stripe), w.owner, w.patient); server != keylock.Free {
			w.redirect(b, server)
			return false
		}
	default:
		if held, _ := w.options.Locks.Try(r.stripe, w.owner); !held {
			return false
		}
	}
	r.locked = true
	w.locks[r.stripe] = stripe{writes: s.writes + 1, exclusive: r.conditional()}
	return true
}

// admitRead waits for the writes of all keys that are under way when it looks.
func (w *Worker) admitRead(b *request.Burst, i int32, keys []byte) bool {
	for rest := keys; len(rest) > 0; {
		var key []byte
		key, rest = nextWord(rest)
		if len(key) > 0 && !w.admitStripe(b, i, w.options.Locks.Stripe(key)) {
			return false
		}
	}
	return true
}

func (w *Worker) admitStripe(b *request.Burst, i int32, s uint32) bool {
	if !w.options.Locks.Held(s, w.owner) {
		// A write of several steps of this round is on some of the servers only.
		return !w.locks[s].exclusive
	}
	if i > 0 {
		return false
	}
	if server := w.options.Locks.Await(s, w.owner, w.patient); server != keylock.Free {
		w.redirect(b, server)
		return false
	}
	return true
}

// admitTouches takes the stripes of all keys of a gat.
func (w *Worker) admitTouches(b *request.Burst, i int32) bool {
	w.stripes = w.stripes[:0]
	for rest := w.requests[i].Keys; len(rest) > 0; {
		var key []byte
		key, rest = nextWord(rest)
		if len(key) > 0 {
			w.stripes = append(w.stripes, w.options.Locks.Stripe(key))
		}
	}
	return w.admitAll(b, i, w.stripes)
}

// admitFlush takes every stripe: no write may reach one server before a flush_all and another after it.
func (w *Worker) admitFlush(b *request.Burst, i int32) bool {
	if i > 0 {
		return false
	}
	w.stripes = w.stripes[:0]
	for s := range uint32(keylock.Stripes) {
		w.stripes = append(w.stripes, s)
	}
	return w.admitAll(b, i, w.stripes)
}

// admitAll takes several stripes, or none.
func (w *Worker) admitAll(b *request.Burst, i int32, stripes []uint32) bool {
	if i == 0 {
		taken, server := w.options.Locks.LockAll(stripes, w.owner, w.patient)
		if server != keylock.Free {
			w.redirect(b, server)
			return false
		}
		for _, s := range taken {
			w.locks[s] = stripe{writes: 1}
		}
		return true
	}
	for n, s := range stripes {
		held, taken := w.options.Locks.Try(s, w.owner)
		if held && !w.locks[s].exclusive {
			w.locks[s] = stripe{writes: w.locks[s].writes + 1}
			continue
		}
		if taken {
			w.options.Locks.Unlock(s)
		}
		for _, undo := range stripes[:n] {
			w.release(undo)
		}
		return false
	}
	return true
}

// release takes back one write's claim on stripe s.
func (w *Worker) release(s uint32) {
	held := w.locks[s]
	held.writes--
	if held.writes > 0 {
		w.locks[s] = held
		return
	}
	delete(w.locks, s)
	w.options.Locks.Unlock(s)
}

// unlock gives all stripes back at the end of the round.
func (w *Worker) unlock() {
	for s := range w.locks {
		w.options.Locks.Unlock(s)
	}
	clear(w.locks)
}
