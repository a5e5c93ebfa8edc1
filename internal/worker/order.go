package worker

import (
	"context"

	"mcmw/internal/keylock"
	"mcmw/internal/plan"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// heldLock is a key lock that the worker holds.
type heldLock struct {
	writes int // number of writes of this round
	// exclusive: one of them takes several steps, so no other write may be planned after it.
	exclusive bool
}

// admit reports whether requests[i], the last of the round and the next of b, can be planned now: no server that it
// needs is in trouble, and the worker has the key locks that it needs. Otherwise it is served in the next round, or in
// the lane that it then has: the detour of a server that it needs, or of a server for which the holder of a key lock
// waits.
func (w *Worker) admit(ctx context.Context, b *request.Batch, i int32) bool {
	if w.requests[i].Unmarked != nil && !w.awaitMarked(ctx, b, i) {
		return false
	}
	for _, lease := range w.leases {
		lease.Lapsed(startedAt(w.requests[i].Request))
	}
	w.updateStates()
	w.expire(i)
	if w.states.trouble && w.member.Patient {
		if !w.awaitReadable(ctx, i) {
			return false
		}
		w.waited(i)
	} else if w.states.trouble {
		if s := w.planner.Troubled(i); s >= 0 {
			w.redirect(b, s)
			return false
		}
	}
	return w.lock(b, i)
}

// lock takes the key locks that requests[i] needs. A replicated write holds its key's stripe until the round ends. A
// replicated read only waits until no other worker holds the stripe. The worker waits only if nothing else is in the
// round.
func (w *Worker) lock(b *request.Batch, i int32) bool {
	l, ok := w.planner.Locks(i, int(b.Next)+1 < len(b.Requests))
	if !ok {
		return false
	}
	switch l.Kind {
	case plan.LockNone:
		return true
	case plan.LockWait:
		return w.awaitWrites(b, i, l.Stripes)
	case plan.LockAll:
		// No write may reach one server before a flush_all and another server after it.
		if i > 0 {
			return false
		}
		for s := range uint32(keylock.Stripes) {
			l.Stripes = append(l.Stripes, s)
		}
	}
	alone := l.Kind == plan.LockAlone
	one := len(l.Stripes) == 1
	if one {
		w.requests[i].stripe = l.Stripes[0]
	}
	if i == 0 {
		taken, server := w.options.Locks.LockAll(l.Stripes, w.owner(), w.member.Patient)
		w.waited(i)
		if server != keylock.Free {
			w.redirect(b, server)
			return false
		}
		for _, s := range taken {
			w.locks[s] = heldLock{writes: 1, exclusive: alone}
		}
	} else if !w.tryAll(l.Stripes, alone) {
		return false
	}
	w.requests[i].locked = one
	return true
}

// awaitWrites waits for other workers' writes of the keys of requests[i].
func (w *Worker) awaitWrites(b *request.Batch, i int32, stripes []uint32) bool {
	for _, s := range stripes {
		if !w.options.Locks.Held(s, w.owner()) {
			// A write of this round that takes several steps may have reached only some of the servers.
			if w.locks[s].exclusive {
				return false
			}
			continue
		}
		if i > 0 {
			return false
		}
		if server := w.options.Locks.Await(s, w.owner(), w.member.Patient); server != keylock.Free {
			w.redirect(b, server)
			return false
		}
		w.waited(i)
	}
	return true
}

// waited restarts the round's clock if requests[i], its first, may have waited for another worker's writes.
func (w *Worker) waited(i int32) {
	if i == 0 && w.planner.Locking() {
		w.began = stats.Now()
		w.flushed = w.began
		w.expire(i)
	}
}

// tryAll takes all stripes, or none, without waiting.
func (w *Worker) tryAll(stripes []uint32, alone bool) bool {
	for n, s := range stripes {
		mine, taken := w.options.Locks.Try(s, w.owner())
		if mine && !w.locks[s].exclusive {
			w.locks[s] = heldLock{writes: w.locks[s].writes + 1, exclusive: alone}
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

// release ends one write's use of stripe s, and unlocks the stripe after the last use.
func (w *Worker) release(s uint32) {
	h := w.locks[s]
	h.writes--
	if h.writes > 0 {
		w.locks[s] = h
		return
	}
	delete(w.locks, s)
	w.options.Locks.Unlock(s)
}

// releaseDone releases the key lock of a write that has ended before the round has.
func (w *Worker) releaseDone(r *pending) {
	if r.done && r.locked {
		r.locked = false
		w.release(r.stripe)
	}
}

// unlock unlocks all stripes at the end of the round.
func (w *Worker) unlock() {
	if len(w.locks) == 0 {
		return
	}
	for s := range w.locks {
		w.options.Locks.Unlock(s)
	}
	clear(w.locks)
}

// startedAt returns when the time that r may take began, ns as stats.Now.
func startedAt(r *request.Request) int64 { return max(r.Created, r.Resumed) }
