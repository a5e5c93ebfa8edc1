package request

import (
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// Caller is a Client that is no connection: mcmw itself asks, and waits for the answers.
type Caller struct {
	// answered: the worker -> Call; one token, capacity 1, never closed.
	answered chan struct{}
	values   ValueSize

	// Of one Call. They belong to the worker until Finish.
	element func(r *protocol.Reply, element []byte)
	partial []byte // the beginning of an element
}

// NewCaller returns a Caller.
func NewCaller() Caller { return Caller{answered: make(chan struct{}, 1)} }

// Call makes a batch of the requests in texts, one after the other, passes it to put, and waits until all requests have
// been answered. It calls element for each element of the answers, which is valid during the call; after one that
// cannot be decoded there are no more. It returns false, and has called nothing, if a request cannot be decoded.
func (c *Caller) Call(texts [][]byte, l *protocol.Limits, put func(*Batch),
	element func(r *protocol.Reply, element []byte),
) bool {
	c.element, c.partial = element, c.partial[:0]
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	b := GetBuffer(size).Batch(c)
	text := b.Buffer.B[:0]
	for _, t := range texts {
		text = append(text, t...)
	}
	now := stats.Now()
	for len(text) > 0 {
		r := b.Add()
		n, _, err := l.Decode(text, &r.Request)
		if n == 0 || err != nil {
			b.Release()
			return false
		}
		r.Created, r.Enqueued = now, now
		text = text[n:]
	}
	put(b)
	<-c.answered
	return true
}

// Crowded implements Client.
func (c *Caller) Crowded(int) bool { return false }

// User implements Client.
func (c *Caller) User() string { return "" }

// Values implements Client.
func (c *Caller) Values() *ValueSize { return &c.values }

// Finish implements Client.
func (c *Caller) Finish() { c.answered <- struct{}{} }

// Reply implements Client. It takes everything.
func (c *Caller) Reply(g *wire.Gather) int {
	for _, piece := range g.Pieces() {
		if len(c.partial) > 0 {
			piece = append(c.partial, piece...)
		}
		for len(piece) > 0 {
			var r protocol.Reply
			n, _, err := protocol.DecodeReply(piece, &r)
			if err != nil {
				c.element = func(*protocol.Reply, []byte) {}
			}
			if n == 0 {
				break
			}
			c.element(&r, piece[:n])
			piece = piece[n:]
		}
		c.partial = append(c.partial[:0], piece...)
	}
	return g.Len()
}

// Stall implements Client. It is not called, because Reply takes everything.
func (c *Caller) Stall([]byte, *Batch) {
	panic("request: Stall was called, although Reply takes everything")
}
