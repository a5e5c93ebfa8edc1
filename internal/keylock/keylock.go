// Package keylock orders the writes of each key across the workers of a pool.
//
// Keys are divided into stripes. A worker that writes a key to several servers holds its stripe from before the first
// write until every server has answered. So no other worker writes or reads that key meanwhile. Two keys rarely share a
// stripe (one pair in Stripes); then they only wait for each other.
//
// A worker that holds a stripe must not wait for another one, except in ascending order (LockAll). It tries to lock a
// stripe; if that fails, it serves the request in its next round, when it holds nothing. This rules out deadlock.
package keylock

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// Stripes is the number of stripes. With 64 writes in progress, one of them shares a stripe with a given key with a
// probability of 0.4 %. This matters when they wait for a server that stalls.
const Stripes = 16384

// Table has the stripes of one middleware.
type Table struct {
	seed   maphash.Seed
	owners [Stripes]atomic.Int32 // 0: free, otherwise the holder
	// waiting is the number of waiters. A waiter counts itself before its last look at the owner, and Unlock
	// reads the count after it has cleared the owner. So one of the two sees the other.
	waiting atomic.Int32

	// mu guards parked, and the time between a waiter's last look and its sleep. Nothing else happens while it is held.
	mu     sync.Mutex
	freed  *sync.Cond    // a stripe that has waiters was released, or its holder was parked
	parked map[int32]int // holders that keep their stripes for long -> the servers that they wait for
}

// Free is what Await and LockAll return if no other owner holds the stripes.
const Free = -1

// New returns a table of free stripes.
func New() *Table {
	t := &Table{seed: maphash.MakeSeed(), parked: map[int32]int{}}
	t.freed = sync.NewCond(&t.mu)
	return t
}

// Stripe returns the stripe of key.
func (t *Table) Stripe(key []byte) uint32 { return uint32(maphash.Bytes(t.seed, key) % Stripes) }

// Held reports whether an owner other than this one holds stripe.
func (t *Table) Held(stripe uint32, owner int32) bool {
	o := t.owners[stripe].Load()
	return o != 0 && o != owner
}

// Try locks stripe for owner, a number above 0, without waiting. held: owner holds it now. taken: owner did not hold it
// before, and must Unlock it.
func (t *Table) Try(stripe uint32, owner int32) (held, taken bool) {
	if t.owners[stripe].CompareAndSwap(0, owner) {
		return true, true
	}
	return t.owners[stripe].Load() == owner, false
}

// Unlock releases stripe and wakes its waiters.
func (t *Table) Unlock(stripe uint32) {
	t.owners[stripe].Store(0)
	if t.waiting.Load() == 0 {
		return
	}
	t.mu.Lock()
	t.freed.Broadcast()
	t.mu.Unlock()
}

// Park says that owner will hold its stripes for long, because server does not answer. From then on only patient
// callers wait for them.
func (t *Table) Park(owner int32, server int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parked[owner] = server
	t.freed.Broadcast()
}

// Unpark undoes Park. owner must hold no stripe any more.
func (t *Table) Unpark(owner int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.parked, owner)
}

// Await waits until no other owner holds stripe, and returns Free; another owner may have locked it again by then. A
// caller that is not patient does not wait for a parked holder: Await returns the server that the holder waits for.
func (t *Table) Await(stripe uint32, owner int32, patient bool) (server int) {
	if !t.Held(stripe, owner) {
		return Free
	}
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.Held(stripe, owner) {
		if server, parked := t.parked[t.owners[stripe].Load()]; parked && !patient {
			return server
		}
		t.freed.Wait()
	}
	return Free
}

// LockAll locks the stripes, which it sorts, and waits for each like Await. The caller must hold none. It returns the
// stripes to unlock, each once, and Free. If it does not wait for a parked holder it returns no stripes, and the server
// that the holder waits for.
func (t *Table) LockAll(stripes []uint32, owner int32, patient bool) (taken []uint32, server int) {
	slices.Sort(stripes)
	stripes = slices.Compact(stripes)
	for n, s := range stripes {
		for {
			if held, _ := t.Try(s, owner); held {
				break
			}
			if server := t.Await(s, owner, patient); server != Free {
				for _, back := range stripes[:n] {
					t.Unlock(back)
				}
				return nil, server
			}
		}
	}
	return stripes, Free
}
