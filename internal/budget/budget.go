// Package budget bounds what many goroutines hold of something together.
package budget

import (
	"container/list"
	"sync"
	"time"
)

// Budget is an amount that is taken in parts and given back. Its methods may be called from any goroutine.
type Budget struct {
	limit int64 // static

	// mu guards the fields below; nothing is waited for while it is held.
	mu      sync.Mutex
	used    int64
	waiting list.List // of *waiter, first come, first served
}

type waiter struct {
	n       int64
	granted chan struct{} // closed when n is taken
}

// New returns a budget of limit.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns how much is taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// fits reports whether n can be taken. What is larger than the whole budget can when nothing else is taken.
func (b *Budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.limit }

// TryTake takes n if that much is left and nobody waits for it.
func (b *Budget) TryTake(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Len() > 0 || !b.fits(n) {
		return false
	}
	b.used += n
	return true
}

// Take takes n, and waits for it until patience is over or stop is closed. It reports whether it took it.
func (b *Budget) Take(n int64, patience time.Duration, stop <-chan struct{}) bool {
	if b.TryTake(n) {
		return true
	}
	w := &waiter{n: n, granted: make(chan struct{})}
	b.mu.Lock()
	e := b.waiting.PushBack(w)
	b.grant()
	b.mu.Unlock()
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-w.granted:
		return true
	case <-over.C:
	case <-stop:
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

// Give gives back n of what was taken.
func (b *Budget) Give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.grant()
}

// grant lets those who wait have what is left, in their order; mu is held.
func (b *Budget) grant() {
	for e := b.waiting.Front(); e != nil; e = b.waiting.Front() {
		w := e.Value.(*waiter)
		if !b.fits(w.n) {
			return
		}
		b.used += w.n
		b.waiting.Remove(e)
		close(w.granted)
	}
}
