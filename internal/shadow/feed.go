package shadow

import (
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/stats"
)

// Options are what is copied to a shadow.
type Options struct {
	// Share is the part of the keys whose requests are copied, above 0 to 1.
	Share float64
	// All: writes are copied, too.
	All bool
	// Compare: the answers to reads are compared with the clients'.
	Compare bool
	// Within is how long the pool takes at most for a request, from when the first server has done it.
	Within time.Duration
}

const (
	// feedLength is how many parcels may wait.
	feedLength = 256
	// feedBytes is how large the requests may be that workers gather, that wait, and that are under way.
	feedBytes = 16 << 20
	// maxParcel is how many copies a parcel has at most.
	maxParcel = 128
	// keepParcel is the largest text that a parcel keeps for its next use, bytes.
	keepParcel = 64 << 10
)

// Feed takes the copies for a shadow from the workers. Its methods may be called from any goroutine, but for Run.
type Feed struct {
	options atomic.Pointer[limits]
	counts  *stats.Shadow
	doubts  doubts
	// parcels: workers -> Run. Capacity in parcels; never closed.
	parcels chan *parcel
	bytes   atomic.Int64 // of the copies that there are
}

// limits are Options as they are used.
type limits struct {
	share        uint64
	all, compare bool
	within       int64 // ns
}

// NewFeed returns a feed that counts in counts.
func NewFeed(o Options, counts *stats.Shadow) *Feed {
	f := &Feed{counts: counts, parcels: make(chan *parcel, feedLength)}
	f.Change(o)
	return f
}

// Change changes what is copied.
func (f *Feed) Change(o Options) {
	f.options.Store(&limits{share: limit(o.Share), all: o.All, compare: o.Compare, within: int64(o.Within)})
}

// parcel is what a worker hands over at a time. It belongs to the worker, then to Run.
type parcel struct {
	text   []byte // of the requests, one behind the other
	copies []copied
	taken  int64 // of Feed.bytes
}

// copied is a request for the shadow.
type copied struct {
	end int // of it in the parcel's text
	key uint64
	// write: it is one; otherwise a read. flush: it is a flush_all. plain: what the key holds then doesn't depend on what it held.
	write, flush, plain bool
	// compare: told, what the client was told, is compared.
	compare bool
	told    answer
	order   Order
}

// Order says when a request was served.
type Order struct {
	// Worker is the number of the worker that served it in the round that began at Dequeued, as the Index-th request of that.
	Worker, Index int32
	// Dequeued is before anything of it was sent to a server, Received not before they were done with it, ns as stats.Now.
	Dequeued, Received int64
	// Locked: no other worker wrote the key until it was handed over.
	Locked bool
}

// before reports whether the write with that order is known to have taken effect before the one with o.
func (was *Order) before(o *Order) bool {
	if was.Worker == o.Worker && was.Dequeued == o.Dequeued {
		return was.Index < o.Index
	}
	return was.Received <= o.Dequeued || was.Locked && o.Locked
}

var parcels = sync.Pool{New: func() any { return new(parcel) }}

// release returns p to its pool.
func (p *parcel) release() {
	if cap(p.text) > keepParcel {
		p.text = nil
	}
	*p = parcel{text: p.text[:0], copies: p.copies[:0]}
	parcels.Put(p)
}

// outbox is what a worker has for a feed.
type outbox struct {
	*Feed
	parcel *parcel // nil: nothing
}

// room returns the parcel that takes a request of at most n bytes, c; nil if it is dropped. add follows.
func (b *outbox) room(n int, c *copied) *parcel {
	if b.parcel != nil && len(b.parcel.copies) == maxParcel {
		b.handOver()
	}
	if b.bytes.Add(int64(n)) > feedBytes {
		b.bytes.Add(-int64(n))
		b.dropped(stats.ShadowNoMemory, c)
		return nil
	}
	if b.parcel == nil {
		b.parcel = parcels.Get().(*parcel)
	}
	b.parcel.taken += int64(n)
	return b.parcel
}

// dropped counts a request that is not copied.
func (b *outbox) dropped(why stats.ShadowDrop, c *copied) {
	b.counts.Dropped(why, 1)
	switch {
	case c.flush:
		b.doubts.flush.Store(c.order.Received)
	case c.write:
		b.doubts.add(c.key, c.order.Received)
	}
}

// add adds a request whose text was put at the end of p's.
func (p *parcel) add(c copied) {
	c.end = len(p.text)
	p.copies = append(p.copies, c)
}

// handOver hands the parcel over, or drops it.
func (b *outbox) handOver() {
	p := b.parcel
	if p == nil {
		return
	}
	b.parcel = nil
	n := len(p.copies)
	select {
	case b.parcels <- p: // it is Run's from here on
		b.counts.Copied(n)
	default:
		b.bytes.Add(-p.taken)
		for i := range p.copies {
			b.dropped(stats.ShadowQueueFull, &p.copies[i])
		}
		p.release()
	}
}
