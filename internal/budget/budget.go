// Package budget bounds the total amount of something that many goroutines hold.
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
	growing list.List // of *waiter that hold a part already; served first
	waiting list.List // the others; in each list first come, first served
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

// Wanted reports whether somebody is waiting.
func (b *Budget) Wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.growing.Len()+b.waiting.Len() > 0
}

// fits reports whether n can be taken. An n larger than the whole budget fits when nothing is taken.
func (b *Budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.limit }

// TryTake takes n if that much is left and nobody is waiting.
func (b *Budget) TryTake(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.growing.Len()+b.waiting.Len() > 0 || !b.fits(n) {
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

// Take takes n, waiting until patience is over or stop is closed. It reports whether it took it.
func (b *Budget) Take(n int64, patience time.Duration, stop <-chan struct{}) bool {
	return b.TryTake(n) || b.await(&b.waiting, n, patience, stop)
}

// Grow is Take for a caller that holds a smaller part, and gives it back only once it has n. If such callers hold the whole
// budget, one at a time may exceed it: otherwise they would deadlock.
func (b *Budget) Grow(n int64, patience time.Duration, stop <-chan struct{}) bool {
	return b.TryTake(n) || b.await(&b.growing, n, patience, stop)
}

// await waits in list, one of b's, until n has been taken.
func (b *Budget) await(list *list.List, n int64, patience time.Duration, stop <-chan struct{}) bool {
	w := &waiter{n: n, granted: make(chan struct{})}
	b.mu.Lock()
	e := list.PushBack(w)
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
	list.Remove(e)
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

// grant gives what is left to those who wait, in their order; mu is held.
func (b *Budget) grant() {
	for e := b.growing.Front(); e != nil; e = b.growing.Front() {
		if b.used > b.limit {
			return
		}
		b.let(&b.growing, e)
	}
	for e := b.waiting.Front(); e != nil; e = b.waiting.Front() {
		if !b.fits(e.Value.(*waiter).n) {
			return
		}
		b.let(&b.waiting, e)
	}
}

// let grants e of list its amount; mu is held.
func (b *Budget) let(list *list.List, e *list.Element) {
	w := list.Remove(e).(*waiter)
	b.used += w.n
	close(w.granted)
}
