// Package request defines what travels from the net stage through the queue to a worker: batches of requests.
//
// # Who owns which bytes
//
//   - Bytes read from a client are in a pooled buffer. A reader gets one only when there are bytes to read, so that an
//     idle connection holds none, and of the size that the client's recent reads have filled. Above 16 KiB it counts
//     against the clients' memory. The reader owns it until the batch is queued.
//   - From then on the batch owns it, and the worker that took the batch owns both: the requests point into the buffer.
//     When the batch has been answered, both return to the pool.
//   - The beginning of an incomplete request at the end of the buffer stays with the reader, which copies it to a new
//     buffer (of 1 KiB if that is enough) when it passes the old one on.
//   - Requests to a server are valid until the end of the round: large pieces are written from the client's buffer,
//     small ones (up to 256 bytes) are copied next to each other.
//   - A server's replies are in the connection's read buffer, which the worker owns until the end of the round. They
//     are written to clients from there.
//   - Replies that a slow client did not take are copied. A goroutine of that client's connection owns the copy until
//     it has been written. Then the batch returns to the queue or is answered.
package request

import (
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// Request is one request with its times.
type Request struct {
	protocol.Request
	stats.Times
	// Lane is the queue that serves the request; always 0 if all workers share one queue.
	Lane int32
	// Needs is the size in bytes of a value of the reply that is known to be large; 0: none is.
	Needs int32
	// Wanted, if not 0, says that the reply should be kept, so that readers can answer with it; see hotkeys.Values.
	Wanted uint64
	// Settled: the servers are done with the request, Answer is their reply and Result is its outcome, but earlier
	// requests of the connection are not answered in full yet.
	Settled bool
	Result  stats.Result
	// Unmarked are the marks that a settled request still waits for; nil: none.
	Unmarked *Unmarked

	// These describe a retrieval whose reply is so large that it is fetched in portions. Resumed is when the last
	// portion was answered, ns as stats.Now; 0: none was. SentKeys is the number of keys requested in portions so far,
	// and SentHits the number of them that were found. Keys and NumKeys are the remaining ones.
	Resumed            int64
	SentKeys, SentHits int32
}

// HasEffect is that of protocol.Request, but false once the servers are done with the request.
func (r *Request) HasEffect() bool { return !r.Settled && r.Request.HasEffect() }

// Batch is one element of the queue: up to MaxBatch complete requests of one read of a connection, in the client's
// order.
//
// Ownership: the reader of the connection fills a batch and gives it up by putting it on the queue; the worker that
// takes it owns it, its requests and its buffer until Release. A connection has at most one batch between Put and Done.
// That alone keeps its replies in order and lets a request see the effects of earlier ones, whatever the number of
// workers.
type Batch struct {
	Client   Client
	Buffer   *Buffer // the requests' slices point into it; b is part of it
	Requests []Request
	// Next is the first request that no worker has taken yet; a batch longer than a worker's depth takes several
	// rounds.
	Next int
}

// Client is the connection that a batch came from, as a worker sees it. Only the owner of the connection's batch calls
// its methods.
type Client interface {
	// Crowded reports whether a reply of n bytes must wait, because clients that do not read use all of the memory for
	// replies, and the client's socket would not take the reply at once. It is also true if the client is gone.
	Crowded(n int) bool
	// User is the name of the user who has logged in; "": there is no login.
	User() string
	// Values is the size of the values that the client has asked for.
	Values() *ValueSize
	// Reply writes one round's replies without waiting. It returns how many bytes the socket took.
	Reply(g *wire.Gather) int
	// Finish reports that the batch has been answered: the connection may queue the next one.
	Finish()
	// Stall hands over rest, the bytes that the socket did not take because the client reads slowly; rest is empty if
	// Crowded was true. When rest has been written and there is memory, the connection puts unanswered, the remainder
	// of the batch, back on the queue; nil: the batch has been answered. Meanwhile the worker serves other clients.
	Stall(rest []byte, unanswered *Batch)
}

// ValueSize is a moving average of the size of values in replies. Its zero value has seen no value.
type ValueSize int // bytes, times valueWeight

const valueWeight = 16

// Add counts a value of n bytes.
func (s *ValueSize) Add(n int) {
	if *s == 0 {
		*s = ValueSize(n) * valueWeight
		return
	}
	*s += ValueSize(n) - *s/valueWeight
}

// Mean returns the average, bytes.
func (s *ValueSize) Mean() int { return int(*s / valueWeight) }

// MaxBatch is the maximum number of requests in a batch. Decoded requests take up to a hundred times the memory of
// their bytes, so this bounds the memory that a client can use with one read.
const MaxBatch = 256

// Answered reports whether workers have taken every request of b.
func (b *Batch) Answered() bool { return b.Next == len(b.Requests) }

// Add adds a request, which is zero, as are all elements between the length of Requests and its capacity.
func (b *Batch) Add() *Request {
	n := len(b.Requests)
	if n == cap(b.Requests) {
		b.Requests = slices.Grow(b.Requests, 1)
	}
	b.Requests = b.Requests[:n+1]
	return &b.Requests[n]
}

// DropLast removes the request that was added last.
func (b *Batch) DropLast() {
	last := len(b.Requests) - 1
	b.Requests[last] = Request{}
	b.Requests = b.Requests[:last]
}

// Release returns b's buffer, and b with it, to its pool.
func (b *Batch) Release() {
	buffer := b.Buffer
	clear(b.Requests)
	*b = Batch{Requests: b.Requests[:0]}
	if buffer != nil {
		buffer.Release()
	}
}
