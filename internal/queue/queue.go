// Package queue is the bounded queue between the net stage and the worker pool.
package queue

import (
	"time"

	"mcmw/internal/request"
)

// Queue holds batches that wait for a worker, first in, first out.
type Queue struct {
	// netstage readers (and goroutines that wrote to a slow client) -> workers. Capacity in batches. Closed by Close,
	// which the middleware calls when no reader is left.
	ch chan *request.Batch
}

// New returns a queue for at most capacity batches.
func New(capacity int) *Queue { return &Queue{ch: make(chan *request.Batch, capacity)} }

// TryPut appends b unless the queue is full.
func (q *Queue) TryPut(b *request.Batch) bool {
	select {
	case q.ch <- b:
		return true
	default:
		return false
	}
}

// Put appends b, which then belongs to the worker that takes it. While the queue is full it blocks. A blocked reader
// reads nothing from its client: this is the back-pressure.
func (q *Queue) Put(b *request.Batch) { q.ch <- b }

// Take waits for a batch; false means that the queue is closed and empty.
func (q *Queue) Take() (*request.Batch, bool) {
	b, ok := <-q.ch
	return b, ok
}

// TakeUntil is Take, but returns nil and true if no batch has come when late is ready.
func (q *Queue) TakeUntil(late <-chan time.Time) (b *request.Batch, open bool) {
	select {
	case b, open = <-q.ch:
		return b, open
	case <-late:
		return nil, true
	}
}

// TryTake returns a batch if one waits.
func (q *Queue) TryTake() (*request.Batch, bool) {
	select {
	case b, ok := <-q.ch:
		return b, ok
	default:
		return nil, false
	}
}

// Close lets Take return false once the queue is empty. Put must not be called afterwards.
func (q *Queue) Close() { close(q.ch) }

// Len returns the number of batches that wait.
func (q *Queue) Len() int { return len(q.ch) }
