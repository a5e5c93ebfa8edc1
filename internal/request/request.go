// Package request is what travels from the net stage over the queue to a worker: bursts of requests.
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
}

// Burst is one element of the queue: the complete requests that a read of one connection brought, in the client's order, up
// to MaxBurst of them.
//
// Ownership: the reader of the connection fills a burst and gives it up by putting it on the queue; the worker that takes
// it owns it, its requests and its buffer until Release. A connection has at most one burst between Put and Done. That
// alone keeps its replies in order and lets a request see the effects of earlier ones, whatever the number of workers.
type Burst struct {
	Client   Client
	Buffer   *Buffer // what the requests' slices point into
	Requests []Request
	// Next is the first request that no worker has taken yet; a burst longer than a worker's depth is served in rounds.
	Next int
}

// Client is the connection that a burst came from, as a worker sees it. All calls come from the burst's owner.
type Client interface {
	// Reply writes one round's replies without waiting. It returns how much the socket took.
	Reply(g *wire.Gather) int
	// Finish says that the burst is answered: the connection may put the next one on the queue.
	Finish()
	// Stall hands over the bytes that the socket did not take, because the client is slow to read. Once rest is written the
	// connection puts unanswered, the remainder of the burst, back on the queue; nil means that the burst is answered. The
	// worker goes on with others meanwhile.
	Stall(rest []byte, unanswered *Burst)
}

var bursts = sync.Pool{New: func() any { return new(Burst) }}

// GetBurst returns an empty burst.
func GetBurst() *Burst { return bursts.Get().(*Burst) }

// MaxBurst is how many requests a burst holds. They take up to a hundred times the memory of their bytes, which bounds what a
// client can make of one read.
const MaxBurst = 256

// Answered reports whether every request of b was taken by a worker.
func (b *Burst) Answered() bool { return b.Next == len(b.Requests) }

// Release gives b and its buffer back.
func (b *Burst) Release() {
	if b.Buffer != nil {
		b.Buffer.Release()
	}
	clear(b.Requests)
	*b = Burst{Requests: b.Requests[:0]}
	bursts.Put(b)
}
