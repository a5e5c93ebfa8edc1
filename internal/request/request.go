// Package request is what travels from the net stage over the queue to a worker: batches of requests.
//
// # Who owns which bytes
//
//   - What was read from a client is in a pooled buffer, which the socket gets only when there is something to read, so that an
//     idle connection holds none. Above 16 KiB it counts against the clients' memory. The reader owns it until the batch is queued.
//   - From then on the batch owns it, and with the batch the worker that took it: the requests point into the buffer. When the
//     batch has been answered, both return to their pools.
//   - The beginning of an incomplete request at the end of the buffer stays with the reader, which copies it to a new buffer (of
//     1 KiB if that is enough) when it passes the old one on.
//   - Requests to a server are valid until the end of the round: large pieces are written from the client's buffer, small ones
//     (up to 256 bytes) are copied next to each other.
//   - A server's replies are in the connection's read buffer, which the worker owns until the end of the round; they are written
//     to clients from there.
//   - What a slow client did not take of a reply is copied, and owned by a goroutine of that connection until it has been
//     written. Then the batch returns to the queue or is answered.
package request

import (
	"sync"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// Request is one request with its times.
type Request struct {
	protocol.Request
	stats.Times
	// Lane is the queue that serves the request; always 0 where all workers share one.
	Lane int32
	// Needs is the size of a value of the reply that is known to be large, bytes; 0: none is.
	Needs int32
	// Wanted, if not 0, says that readers want to answer with the reply; see hotkeys.Values.
	Wanted uint64
	// Settled: the servers are done with it, Answer is what they said and Result how it ended; earlier requests of the
	// connection have not been answered in full yet.
	Settled bool
	Result  stats.Result
	// Unmarked, of a settled request, is what it waits for besides; nil: nothing.
	Unmarked *Unmarked

	// These describe a retrieval whose reply is so large that it is fetched in portions: when the last portion was answered,
	// ns as stats.Now, 0 if none was; how many keys were requested in portions so far, and how many of them were found. Keys
	// and NumKeys are the remaining ones.
	Resumed            int64
	SentKeys, SentHits int32
}

// HasEffect is that of protocol.Request, for the part that has not been done yet.
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
	// Next is the first request that no worker has taken yet; a batch longer than a worker's depth takes several rounds.
	Next int
}

// Client is the connection that a batch came from, as a worker sees it. Only the batch's owner calls it.
type Client interface {
	// Crowded reports whether clients that do not read take all of the memory for replies, so that a large reply has to wait, or
	// the client is gone.
	Crowded() bool
	// Reply writes one round's replies without waiting. It returns how many bytes the socket took.
	Reply(g *wire.Gather) int
	// Finish says that the batch has been answered: the connection may queue the next one.
	Finish()
	// Stall hands over the bytes that the socket did not take, because the client reads slowly; none means that Crowded
	// holds. When rest has been written, and there is memory, the connection puts unanswered, the remainder of the batch,
	// back on the queue; nil means that the batch has been answered. The worker goes on with other clients meanwhile.
	Stall(rest []byte, unanswered *Batch)
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// GetBatch returns an empty batch.
func GetBatch() *Batch { return batches.Get().(*Batch) }

// MaxBatch is the most requests a batch holds. In memory they take up to a hundred times their bytes, so this bounds what a
// client can cause with one read.
const MaxBatch = 256

// Answered reports whether workers have taken every request of b.
func (b *Batch) Answered() bool { return b.Next == len(b.Requests) }

// Release returns b and its buffer to their pools.
func (b *Batch) Release() {
	if b.Buffer != nil {
		b.Buffer.Release()
	}
	clear(b.Requests)
	*b = Batch{Requests: b.Requests[:0]}
	batches.Put(b)
}
