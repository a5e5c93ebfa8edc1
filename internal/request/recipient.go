package request

import (
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// Recipient is told by a worker what the requests of a pool have done, so that another pool gets it later. No client
// waits for it.
type Recipient interface {
	// Wrote says that the write r was answered with result. key is the key as servers know it; Wrote is called for each
	// of r's keys, or once with nil if it has none. r and key belong to the worker.
	Wrote(r *protocol.Request, key []byte, result stats.Result, o Order)
}

// Order says when a request was served.
type Order struct {
	// Worker is the number of the worker that served it. It is the Index-th request of the worker's round that began at
	// Dequeued.
	Worker, Index int32
	// Dequeued is before anything of it was sent to a server, Received after the servers have executed it, ns as
	// stats.Now.
	Dequeued, Received int64
	// Locked: no other worker wrote the key before the recipients were told.
	Locked bool
}

// Before reports whether a write with order o is known to have taken effect before a write with order next of which
// the recipients were told later.
func (o *Order) Before(next *Order) bool {
	if o.Worker == next.Worker && o.Dequeued == next.Dequeued {
		return o.Index < next.Index
	}
	return o.Received <= next.Dequeued || o.Locked && next.Locked
}
