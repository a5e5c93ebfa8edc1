// Package queue is the bounded queue between the net stage and the worker pool.
package queue

import "mcmw/internal/request"

// Queue holds bursts that wait for a worker, first in, first out.
type Queue struct {
	// netstage readers (and connections whose client was slow) -> workers. Capacity in bursts. Closed by Close, which the
	// middleware calls when no reader is left.
	ch chan *request.Burst
}

// New returns a queue for at most capacity bursts.
func New(capacity int) *Queue { return &Queue{ch: make(chan *request.Burst, capacity)} }

// TryPut appends b unless the queue is full.
func (q *Queue) TryPut(b *request.Burst) bool {
	select {
	case q.ch <- b:
		return true
	default:
		return false
	}
}

// Put appends b, which then belongs to the worker that takes it. While the queue is full it waits: the reader that waits
// reads nothing from its client, which is the back-pressure.
func (q *Queue) Put(b *request.Burst) { q.ch <- b }

// Take waits for a burst; false means that the queue is closed and empty.
func (q *Queue) Take() (*request.Burst, bool) {
	b, ok := <-q.ch
	return b, ok
}

// TryTake returns a burst if one waits.
func (q *Queue) TryTake() (*request.Burst, bool) {
	select {
	case b, ok := <-q.ch:
		return b, ok
	default:
		return nil, false
	}
}

// Close lets Take return false once the queue is empty. No Put may follow.
func (q *Queue) Close() { close(q.ch) }

// Len returns the number of bursts that wait.
func (q *Queue) Len() int { return len(q.ch) }

// Cap returns the capacity, bursts.
func (q *Queue) Cap() int { return cap(q.ch) }
