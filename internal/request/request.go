// Package request is what travels from the net stage over the queue to a worker: batches of requests.
//
// # Who owns which bytes
//
//   - What a read of a client brought is in a pooled buffer, lent to the socket only when there is something to read, so that an
//     idle connection holds none. Above 16 KiB it counts against the clients' memory. The reader owns it until the batch is queued.
//   - Then the batch owns it, hence the worker that took the batch: its requests point into the buffer. When the batch is answered, both
//     go back to their pools.
//   - The beginning of a request behind the last complete one is the reader's, which copies it to a fresh buffer (of 1 KiB if that is
//     enough) when it gives the other away.
//   - Requests to a server are the round's, until its end: large pieces are written from the client's buffer, small ones (up to 256
//     bytes) are copied next to each other.
//   - Replies of a server are in the connection's read buffer, which the worker owns until the end of the round; it writes them to clients
//     from there.
//   - A reply that a slow client did not take is a goroutine's of that connection, with a copy of the rest, until it is written. Then the
//     batch goes back on the queue or is answered.
package request

import (
	"sync"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// Request is one request with its moments.
type Request struct {
	protocol.Request
	stats.Times
	// Lane is the queue that serves the request; always 0 where all workers share one.
	Lane int32
	// Settled: the servers have done what they had to do, and Answer is what they said, Result how it ended; what comes before it on
	// its connection is not answered in full yet.
	Settled bool
	Result  stats.Result

	// Of a retrieval whose reply is so large that it is asked for in portions: when the last of them was answered, ns as
	// stats.Now, 0 if none was; and how many keys were asked for in them, and how many of these found. Keys and NumKeys are those
	// that follow.
	Resumed            int64
	SentKeys, SentHits int32
}

// HasEffect is that of protocol.Request, for what is still to be done.
func (r *Request) HasEffect() bool { return !r.Settled && r.Request.HasEffect() }

// Batch is one element of the queue: the complete requests that a read of one connection brought, in the client's order, up
// to MaxBatch of them.
//
// Ownership: the reader of the connection fills a batch and gives it up by putting it on the queue; the worker that takes
// it owns it, its requests and its buffer until Release. A connection has at most one batch between Put and Done. That
// alone keeps its replies in order and lets a request see the effects of earlier ones, whatever the number of workers.
type Batch struct {
	Client   Client
	Buffer   *Buffer // what the requests' slices point into
	Requests []Request
	// Next is the first request that no worker has taken yet; a batch longer than a worker's depth is served in rounds.
	Next int
}

// Client is the connection that a batch came from, as a worker sees it. All calls come from the batch's owner.
type Client interface {
	// Crowded reports whether clients that do not read hold all of the memory there is for replies: a large one has to wait.
	Crowded() bool
	// Reply writes one round's replies without waiting. It returns how much the socket took.
	Reply(g *wire.Gather) int
	// Finish says that the batch is answered: the connection may put the next one on the queue.
	Finish()
	// Stall hands over the bytes that the socket did not take, because the client is slow to read; none means that it is crowded. Once
	// rest is written, and there is memory, the connection puts unanswered, the remainder of the batch, back on the queue; nil
	// means that the batch is answered. The worker goes on with others meanwhile.
	Stall(rest []byte, unanswered *Batch)
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// GetBatch returns an empty batch.
func GetBatch() *Batch { return batches.Get().(*Batch) }

// MaxBatch is how many requests a batch holds. They take up to a hundred times the memory of their bytes, which bounds what a
// client can make of one read.
const MaxBatch = 256

// Answered reports whether every request of b was taken by a worker.
func (b *Batch) Answered() bool { return b.Next == len(b.Requests) }

// Release gives b and its buffer back.
func (b *Batch) Release() {
	if b.Buffer != nil {
		b.Buffer.Release()
	}
	clear(b.Requests)
	*b = Batch{Requests: b.Requests[:0]}
	batches.Put(b)
}
