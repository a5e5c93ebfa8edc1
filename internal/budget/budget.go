// Package budget bounds the total amount of something that many goroutines hold. Unlike a weighted semaphore
// (golang.org/x/sync/semaphore), a budget may be exceeded where the holders would deadlock otherwise, and goroutines
// that already hold a part are served first.
package budget

import (
	"container/list"
	"sync"
	"time"
)

// Budget is an amount that is taken in parts and given back. Any goroutine may call its methods.
type Budget struct {
	limit int64 // static

	// mu guards the fields below. Its holder never waits for anything else.
	mu      sync.Mutex
	used    int64
	waiting list.List // of *waiter: those with the largest part first, then in order of arrival
	granted time.Time // when a waiter was last granted
}

type waiter struct {
	n       int64
	part    int64         // the amount that it already holds
	granted chan struct{} // closed when n is taken
}

// New returns a Budget of limit.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns how much is taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Wanted reports whether a goroutine is waiting.
func (b *Budget) Wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.Len() > 0
}

// fits reports whether n can be taken. An n larger than the whole budget fits when nothing is taken.
func (b *Budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.limit }

// TryTake takes n if that much is left and no goroutine is waiting.
func (b *Budget) TryTake(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Len() > 0 || !b.fits(n) {
		return false
	}
	b.used += n
	return true
}

// Force takes n, even if that exceeds the budget.
func (b *Budget) Force(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
}

// Overdrawn reports whether more is taken than the budget allows.
func (b *Budget) Overdrawn() bool { return b.Used() > b.limit }

// Take takes n, and waits if necessary. It gives up and returns false when stop is closed, or when no waiter has been
// granted anything for as long as patience.
func (b *Budget) Take(n int64, patience time.Duration, stop <-chan struct{}) bool {
	return b.Grow(0, n, patience, stop)
}

// Grow is Take for a caller that holds part, and gives part back only once it has n. If such callers hold the whole
// budget, they would deadlock. Therefore one of them may exceed the budget, also in several steps, until it gives
// everything back.
func (b *Budget) Grow(part, n int64, patience time.Duration, stop <-chan struct{}) bool {
	if b.TryTake(n) {
		return true
	}
	w := &waiter{n: n, part: part, granted: make(chan struct{})}
	b.mu.Lock()
	before := b.waiting.Back()
	for before != nil && before.Value.(*waiter).part < part {
		before = before.Prev()
	}
	e := b.waiting.PushFront(w)
	if before != nil {
		b.waiting.MoveAfter(e, before)
	}
	b.grant()
	b.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for waits := true; waits; {
		select {
		case <-w.granted:
			return true
		case <-stop:
			waits = false
		case <-timer.C:
			rest := patience - b.sinceGrant()
			waits = rest > 0
			timer.Reset(rest)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted:
		return true
	default:
	}
	b.waiting.Remove(e)
	b.grant()
	return false
}

// sinceGrant returns how long ago a waiter was last granted.
func (b *Budget) sinceGrant() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.granted)
}

// Give gives back n of the amount taken.
func (b *Budget) Give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.grant()
}

// grant gives the remaining amount to the waiters, in their order; mu is held.
func (b *Budget) grant() {
	for e := b.waiting.Front(); e != nil; e = b.waiting.Front() {
		w := e.Value.(*waiter)
		if !b.allows(w) {
			return
		}
		b.waiting.Remove(e)
		b.used += w.n
		b.granted = time.Now()
		close(w.granted)
	}
}

// allows reports whether w may be granted. A waiter that has exceeded the limit may take more if the others are within
// it.
func (b *Budget) allows(w *waiter) bool {
	if w.part > 0 {
		return b.used-w.part <= b.limit
	}
	return b.fits(w.n)
}
