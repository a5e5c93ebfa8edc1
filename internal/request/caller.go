package request

import (
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// Caller is what Clients have in common that are no connections: mcmw itself asks, and waits for the answers. They have
// a Reply that takes everything.
type Caller struct {
	// answered: the worker -> Call; one token, capacity 1, never closed.
	answered chan struct{}
	values   ValueSize
}

// NewCaller returns the Caller of a Client, which embeds it.
func NewCaller() Caller { return Caller{answered: make(chan struct{}, 1)} }

// Call makes a batch of the requests in texts, one after the other, passes it to put, and waits until all requests have
// been answered to client. It returns false, and has called nothing, if one cannot be decoded.
func (c *Caller) Call(client Client, texts [][]byte, l *protocol.Limits, put func(*Batch)) bool {
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	b := GetBuffer(size).Batch(client)
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

// Stall implements Client. It is not called, because Reply takes everything.
func (c *Caller) Stall([]byte, *Batch) {
	panic("request: Stall was called, although Reply takes everything")
}
