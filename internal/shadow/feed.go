package shadow

import (
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// Options say what is copied to a shadow.
type Options struct {
	// Share is the part of the keys whose requests are copied, above 0, up to 1.
	Share float64
	// All: writes are copied as well as reads.
	All bool
	// Compare: the shadow's answers to reads are compared with the clients'.
	Compare bool
	// Within is the longest time between the moment when the first server of the pool has executed a request and its
	// answer.
	Within time.Duration
}

const (
	// feedLength is how many parcels may wait.
	feedLength = 256
	// feedBytes bounds the size of the requests that workers gather, that wait, and that are in progress, bytes.
	feedBytes = 16 << 20
	// maxParcel is the maximum number of copies in a parcel.
	maxParcel = 128
	// keepParcel is the largest text that a parcel keeps for its next use, bytes.
	keepParcel = 64 << 10
)

// Feed takes the copies for a shadow from the workers. Any goroutine may call its methods, except Run.
type Feed struct {
	options atomic.Pointer[chosen]
	counts  *stats.Shadow
	doubts  doubts
	// parcels: workers -> Run. Capacity in parcels; never closed.
	parcels chan *parcel
	bytes   atomic.Int64 // size of all present copies
}

// chosen are Options with the limit of their share.
type chosen struct {
	Options
	limit uint64
}

// NewFeed returns a feed that counts in counts.
func NewFeed(o Options, counts *stats.Shadow) *Feed {
	f := &Feed{counts: counts, parcels: make(chan *parcel, feedLength)}
	f.Change(o)
	return f
}

// Change changes the options.
func (f *Feed) Change(o Options) {
	f.options.Store(&chosen{o, limit(o.Share)})
}

// parcel is a group of copies that a worker hands over. It belongs to the worker, then to Run.
type parcel struct {
	text   []byte // the requests, one after the other
	copies []copied
	taken  int64 // its part of Feed.bytes
}

// copied is a request for the shadow.
type copied struct {
	end int    // offset in the parcel's text at which it ends
	key uint64 // hash
	// write: it is a write; otherwise a read. flush: it is a flush_all. plain: it is a write whose result does not
	// depend on the previous item.
	write, flush, plain bool
	// compare: the shadow's answer is compared with told, the client's answer.
	compare bool
	told    answer
	order   request.Order
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

// Outbox returns a worker's access to f.
func (f *Feed) Outbox() request.Recipient { return &outbox{Feed: f} }

// outbox is a worker's access to a feed.
type outbox struct {
	*Feed
	parcel *parcel // nil: there are no copies
}

// reserve returns the parcel that takes c, a request of at most n bytes, to be passed to add; nil if c is dropped.
func (b *outbox) reserve(n int, c *copied) *parcel {
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

// dropped counts a request that is not copied, and notes the doubt about its key.
func (b *outbox) dropped(why stats.ShadowDrop, c *copied) {
	b.counts.Dropped(why)
	switch {
	case c.flush:
		b.doubts.flush.Store(c.order.Received)
	case c.write:
		b.doubts.add(c.key, c.order.Received)
	}
}

// add adds a request whose text was appended to p's.
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
	case b.parcels <- p: // it belongs to Run from here on
		b.counts.Copied(n)
	default:
		b.bytes.Add(-p.taken)
		for i := range p.copies {
			b.dropped(stats.ShadowQueueFull, &p.copies[i])
		}
		p.release()
	}
}
