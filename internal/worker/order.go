package worker

import (
	"slices"

	"mcmw/internal/keylock"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
)

// stripe is a key lock that the worker holds.
type stripe struct {
	writes int // of this round
	// exclusive: one of them takes several steps, so no other write may be planned behind it.
	exclusive bool
}

// admit takes the key locks that requests[i], the last of the round, needs: a replicated write holds its key's stripe until
// the round ends; a replicated read only waits until no other worker does. It waits only if nothing else is in the
// round; otherwise false means that the request has to be served in the next, or on the detour of the server that the
// lock's holder waits for.
//
// A request that names a key which an earlier request of the part reads waits for the next round, too. A read may have to be asked of another
// server (planRetry), and would then come behind what follows it in the round: a later read could miss a write of
// another client that it has seen, and it could see what a later write of its own client has done.
func (w *Worker) admit(b *request.Batch, i int32) bool {
	r := &w.requests[i]
	if w.options.Router.N() == 1 || (r.Answer != "" && !r.HasEffect()) {
		return true
	}
	if r.Has(protocol.Everywhere | protocol.Writes) {
		return w.admitFlush(b, i)
	}
	w.stripes = w.stripesOf(r, w.stripes[:0])
	if slices.ContainsFunc(w.stripes, w.partRead.has) || !w.admitKeys(b, i) {
		return false
	}
	if r.reads() && int(b.Next)+1 < len(b.Requests) {
		for _, s := range w.stripes {
			w.partRead.add(s)
		}
	}
	return true
}

// admitKeys takes the key locks in stripes, those of the keys of requests[i], or waits for them.
func (w *Worker) admitKeys(b *request.Batch, i int32) bool {
	r := &w.requests[i]
	switch {
	case len(w.stripes) == 0:
		return true
	case r.reads():
		return w.admitRead(b, i)
	case r.touches():
		return w.admitAll(b, i, w.stripes)
	}
	return w.admitWrite(b, i)
}

// stripesOf appends the stripes of r's keys to stripes.
func (w *Worker) stripesOf(r *pending, stripes []uint32) []uint32 {
	switch {
	case r.NumKeys > 1 || r.Command.IsRetrieval():
		for rest := r.Keys; len(rest) > 0; {
			var key []byte
			key, rest = nextWord(rest)
			if len(key) > 0 {
				stripes = append(stripes, w.options.Locks.Stripe(key))
			}
		}
	case r.NumKeys == 1:
		stripes = append(stripes, w.options.Locks.Stripe(r.key))
	}
	return stripes
}

// admitWrite takes the key lock of a write.
func (w *Worker) admitWrite(b *request.Batch, i int32) bool {
	r := &w.requests[i]
	r.stripe = w.stripes[0]
	s, mine := w.locks[r.stripe]
	switch {
	case mine && s.exclusive:
		return false
	case mine:
	case i == 0:
		if _, server := w.options.Locks.LockAll(w.stripes, w.owner, w.patient); server != keylock.Free {
			w.redirect(b, server)
			return false
		}
	default:
		if held, _ := w.options.Locks.Try(r.stripe, w.owner); !held {
			return false
		}
	}
	r.locked = true
	w.locks[r.stripe] = stripe{writes: s.writes + 1, exclusive: r.Has(protocol.Conditional)}
	return true
}

// admitRead waits for the writes of all keys that are under way when it looks.
func (w *Worker) admitRead(b *request.Batch, i int32) bool {
	for _, s := range w.stripes {
		if !w.options.Locks.Held(s, w.owner) {
			// A write of this round that takes several steps has reached only some of the servers.
			if w.locks[s].exclusive {
				return false
			}
			continue
		}
		if i > 0 {
			return false
		}
		if server := w.options.Locks.Await(s, w.owner, w.patient); server != keylock.Free {
			w.redirect(b, server)
			return false
		}
	}
	return true
}

// admitFlush takes every stripe: no write may reach one server before a flush_all and another after it.
func (w *Worker) admitFlush(b *request.Batch, i int32) bool {
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
func (w *Worker) admitAll(b *request.Batch, i int32, stripes []uint32) bool {
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

// release ends one write's use of stripe s, and unlocks it after the last.
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

// unlock unlocks all stripes at the end of the round.
func (w *Worker) unlock() {
	for s := range w.locks {
		w.options.Locks.Unlock(s)
	}
	clear(w.locks)
}
