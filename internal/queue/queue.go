// Package queue is the bounded queue between the net stage and the worker pool.
package queue

import (
	"time"

	"mcmw/internal/request"
)

// Queue holds batches that wait for a worker, first in, first out. Netstage readers, and goroutines that wrote to a
// slow client -> workers. Its capacity is in batches. A reader that waits because it is full reads nothing from its
// client: this is the back-pressure. Closed by Lanes.Close.
type Queue chan *request.Batch

// TryPut appends b unless the queue is full.
func (q Queue) TryPut(b *request.Batch) bool {
	select {
	case q <- b:
		return true
	default:
		return false
	}
}

// TakeUntil waits for a batch; false means that the queue is closed and empty. It returns nil and true if no batch has
// come when late is ready.
func (q Queue) TakeUntil(late <-chan time.Time) (b *request.Batch, open bool) {
	select {
	case b, open = <-q:
		return b, open
	case <-late:
		return nil, true
	}
}

// TryTake returns a batch if one waits.
func (q Queue) TryTake() (*request.Batch, bool) {
	select {
	case b, ok := <-q:
		return b, ok
	default:
		return nil, false
	}
}

// Len returns the number of batches that wait.
func (q Queue) Len() int { return len(q) }

// Lanes are the queues in front of the workers: one that all workers share, or several, each with workers of its own. A
// batch waits in the queue of its next request. A batch whose requests belong to several queues moves from one to the
// next, which keeps the order within a connection.
type Lanes struct {
	queues []Queue
	// choose sets the lane of every request of a batch; called by the goroutine that puts it. nil: all are lane 0.
	choose func(b *request.Batch)
}

// NewLanes returns n queues for at most capacity batches each. choose sets the lane of each request of a batch, from 0
// to n-1; nil means lane 0.
func NewLanes(n, capacity int, choose func(b *request.Batch)) *Lanes {
	l := &Lanes{choose: choose}
	for range n {
		l.queues = append(l.queues, make(Queue, capacity))
	}
	return l
}

// Queue returns the queue of lane i.
func (l *Lanes) Queue(i int) Queue { return l.queues[i] }

// Put appends a batch from the net stage to the queue of its next request, waiting while that queue is full. The batch
// then belongs to the worker that takes it.
func (l *Lanes) Put(b *request.Batch) { l.enter(b) <- b }

// TryPut is Put, unless the queue is full: then the batch stays the caller's.
func (l *Lanes) TryPut(b *request.Batch) bool { return l.enter(b).TryPut(b) }

// enter sets the lanes of b's requests and returns the queue of its next one.
func (l *Lanes) enter(b *request.Batch) Queue {
	switch {
	case l.choose != nil:
		l.choose(b)
	case b.Next > 0:
		// The batch is back from a slow client. An earlier worker, perhaps of other lanes, may have set other lanes for
		// the rest.
		for i := b.Next; i < len(b.Requests); i++ {
			b.Requests[i].Lane = 0
		}
	}
	return l.next(b)
}

// Pass moves a batch from one worker to the queue of its next request, without waiting: workers that wait for each
// other's queues could deadlock.
func (l *Lanes) Pass(b *request.Batch) {
	if q := l.next(b); !q.TryPut(b) {
		go func() { q <- b }()
	}
}

func (l *Lanes) next(b *request.Batch) Queue { return l.queues[b.Requests[b.Next].Lane] }

// Close lets the workers end once their queues are empty. It is called when no reader is left: Put and Pass must not be
// called afterwards.
func (l *Lanes) Close() {
	for _, q := range l.queues {
		close(q)
	}
}
