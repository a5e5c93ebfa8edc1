package worker

import (
	"mcmw/internal/keylock"
	"mcmw/internal/protocol"
)

// stripe is what a worker notes of a key lock it holds.
type stripe struct {
	writes int // of this round
	// exclusive: a write of several steps is among them; no other write may be planned behind it.
	exclusive bool
}

// admit takes the key locks that requests[i], the last of the round, needs: a replicated write holds its key's stripe until
// the round ends; a replicated read only waits until no other worker does. It waits only if nothing else is in the
// round; otherwise false means that the request has to be served in the next.
func (w *Worker) admit(i int32) bool {
	r := &w.requests[i]
	if r.Command == protocol.Meta && r.NumKeys > 0 {
		r.meta = protocol.ParseMeta(&r.Request.Request, nil)
	}
	if w.options.Router.N() == 1 || (r.Answer != "" && !r.HasEffect()) {
		return true
	}
	if kind := w.readKind(r); kind != readNone && !w.reads.admit(kind) {
		return false
	}
	switch {
	case r.Command == protocol.FlushAll:
		return w.admitFlush(i)
	case r.Command == protocol.Get || r.Command == protocol.Gets:
		return w.admitRead(i, r.Keys)
	case r.Command == protocol.Gat || r.Command == protocol.Gats:
		return w.admitTouches(i)
	case r.Command.IsKeyed():
		return w.admitWrite(i, r.Keys)
	case r.Command == protocol.Meta && r.NumKeys > 0 && r.meta.Writes():
		return w.admitWrite(i, r.meta.Key)
	case r.Command == protocol.Meta && r.NumKeys > 0:
		return w.admitStripe(i, w.options.Locks.Stripe(r.meta.Key))
	}
	return true
}

// conditional reports whether the write depends on a cas that only the key's first server knows: it takes two steps.
func (r *pending) conditional() bool {
	return r.Command == protocol.Cas || (r.Command == protocol.Meta && r.meta.Compare && r.meta.Writes())
}

func (w *Worker) admitWrite(i int32, key []byte) bool {
	r := &w.requests[i]
	r.stripe = w.options.Locks.Stripe(key)
	s, mine := w.locks[r.stripe]
	switch {
	case mine && s.exclusive:
		return false
	case mine:
	case i == 0:
		w.options.Locks.LockAll(append(w.stripes[:0], r.stripe), w.owner)
	default:
		if held, _ := w.options.Locks.Try(r.stripe, w.owner); !held {
			return false
		}
	}
	w.locks[r.stripe] = stripe{writes: s.writes + 1, exclusive: r.conditional()}
	return true
}

// admitRead waits for the writes of all keys that are under way when it looks.
func (w *Worker) admitRead(i int32, keys []byte) bool {
	for rest := keys; len(rest) > 0; {
		var key []byte
		key, rest = nextWord(rest)
		if len(key) > 0 && !w.admitStripe(i, w.options.Locks.Stripe(key)) {
			return false
		}
	}
	return true
}

func (w *Worker) admitStripe(i int32, s uint32) bool {
	if !w.options.Locks.Held(s, w.owner) {
		// A write of several steps of this round is on some of the servers only.
		return !w.locks[s].exclusive
	}
	if i > 0 {
		return false
	}
	w.options.Locks.Await(s, w.owner)
	return true
}

// admitTouches takes the stripes of all keys of a gat.
func (w *Worker) admitTouches(i int32) bool {
	w.stripes = w.stripes[:0]
	for rest := w.requests[i].Keys; len(rest) > 0; {
		var key []byte
		key, rest = nextWord(rest)
		if len(key) > 0 {
			w.stripes = append(w.stripes, w.options.Locks.Stripe(key))
		}
	}
	return w.admitAll(i, w.stripes)
}

// admitFlush takes every stripe: no write may reach one server before a flush_all and another after it.
func (w *Worker) admitFlush(i int32) bool {
	if i > 0 {
		return false
	}
	w.stripes = w.stripes[:0]
	for s := range uint32(keylock.Stripes) {
		w.stripes = append(w.stripes, s)
	}
	return w.admitAll(i, w.stripes)
}

// admitAll takes several stripes, or none.
func (w *Worker) admitAll(i int32, stripes []uint32) bool {
	if i == 0 {
		for _, s := range w.options.Locks.LockAll(stripes, w.owner) {
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
