package load

import (
	"cmp"
	"math/rand/v2"
)

type request struct {
	sent    int64 // just before the write that passed it to the socket, ns of stats.Now
	due     int64 // when it was due by the schedule; the same as sent in a closed loop
	keys    int32 // number of keys of a retrieval
	command command
}

// workload describes the requests that all connections draw. It is immutable.
type workload struct {
	o     *Options
	enc   *encoder
	keys  *keySpace
	sizes *sizer
	cycle int // number of requests of a connection after which their kinds repeat
}

func newWorkload(o *Options) *workload {
	return &workload{o: o, enc: newEncoder(o), keys: newKeySpace(o), sizes: newSizer(o), cycle: o.cycle()}
}

// conn is one connection of the load. Its thread owns it.
type conn struct {
	// static
	id     int // number in the load
	index  int // among the connections of its thread
	fd     int
	target string

	// the next requests
	rng      rand.PCG
	cycle    int // position in the cycle of SETs, GETs and multi-GETs
	left     int // requests that may still be sent; negative: no limit
	quota    int // requests that may be sent before it is reopened; negative: no limit
	dialling bool
	set, get keyState
	pace     pace // with a schedule or a think time

	// ring of the requests that wait for replies, oldest at head
	ring     []request
	head     int
	inFlight int
	keys     []uint64 // with Verify or CacheAside: the keys of ring[i] begin at i*KeysPerGet; a set has one
	missed   []uint64 // with CacheAside: keys that must still be stored; at most one per slot of the pipeline

	// incomplete input and output
	scan    scanner
	pending []byte // bytes of a batch that the socket has not accepted yet
	waiting bool   // the socket accepts no more bytes; epoll reports when it does
	watched bool   // epoll reports events for it
}

// newConn prepares connection number id of a load. All connections of a load have the same workload.
func newConn(w *workload, id, fd int) *conn {
	o := w.o
	c := &conn{
		id:     id,
		fd:     fd,
		target: o.Targets[id%len(o.Targets)],
		rng:    *rand.NewPCG(o.Seed, uint64(id)),
		cycle:  id % w.cycle,
		left:   cmp.Or(o.Requests, -1),
		quota:  cmp.Or(o.ReconnectAfter, -1),
		set:    w.keys.state(o.SetKeys, id),
		get:    w.keys.state(o.GetKeys, id),
		ring:   make([]request, o.Pipeline),
		scan:   scanner{protocol: o.Protocol},
	}
	if o.Verify || o.CacheAside {
		c.keys = make([]uint64, o.Pipeline*o.KeysPerGet)
	}
	if o.CacheAside {
		c.missed = make([]uint64, 0, o.Pipeline)
	}
	if o.Verify {
		c.scan.check = &checker{enc: w.enc}
	}
	return c
}

// slot returns the index in the ring of the i-th request after the oldest.
func (c *conn) slot(i int) int {
	if i += c.head; i >= len(c.ring) {
		i -= len(c.ring)
	}
	return i
}

// appendRequest appends the connection's next request to b and adds it to the ring, which must have room. The caller
// sets when it is sent. drawn is scratch space for the keys of a GET.
func (c *conn) appendRequest(b []byte, w *workload, drawn []uint64) []byte {
	o := w.o
	if t := o.trace(); t != nil {
		return c.appendTraced(b, w, t, int(c.pace.n), drawn)
	}
	slot := c.takeSlot()
	cycle := c.cycle
	if c.cycle++; c.cycle == w.cycle {
		c.cycle = 0
	}
	r := &c.ring[slot]
	if cycle < o.Sets {
		r.command, r.keys = set, 0
		return w.appendSet(b, w.keys.draw(o.SetKeys, &c.set, &c.rng), &c.rng)
	}
	if c.keys != nil {
		drawn = c.keys[slot*o.KeysPerGet : (slot+1)*o.KeysPerGet]
	}
	r.command = get
	switch {
	case o.MultiGets == 0:
	case cycle < o.Sets+o.Gets:
		drawn = drawn[:1]
	default:
		r.command = multiGet
	}
	r.keys = int32(len(drawn))
	for i := range drawn {
		drawn[i] = w.keys.draw(o.GetKeys, &c.get, &c.rng)
	}
	return w.enc.appendGet(b, drawn)
}

// takeSlot returns the index in the ring for the next request, and counts the request against the connection's limits.
func (c *conn) takeSlot() int {
	slot := c.slot(c.inFlight)
	c.inFlight++
	c.use()
	if c.left > 0 {
		c.left--
	}
	return slot
}

// ready reports whether a connection has room for a request.
func (c *conn) ready() bool {
	return !c.waiting && !c.dialling && !c.worn() && c.inFlight < len(c.ring)
}

// canSend reports whether a connection can send a request other than of a missed key, whether or not one is due.
func (c *conn) canSend() bool { return c.ready() && c.left != 0 }

// use counts a request against the connection's quota.
func (c *conn) use() {
	if c.quota > 0 {
		c.quota--
	}
}

// appendMissed appends requests that store the missed keys, the last first, and adds them to the ring, as many as may
// be sent.
func (c *conn) appendMissed(b []byte, w *workload) []byte {
	for last := len(c.missed) - 1; last >= 0 && c.inFlight < len(c.ring) && !c.worn(); last-- {
		r := &c.ring[c.slot(c.inFlight)]
		c.inFlight++
		c.use()
		r.command, r.keys = set, 0
		b = w.appendSet(b, c.missed[last], &c.rng)
		c.missed = c.missed[:last]
	}
	return b
}

// appendSet appends a request that stores a value under a key. The value's size and expiry are drawn.
func (w *workload) appendSet(b []byte, key uint64, rng *rand.PCG) []byte {
	if size := w.enc.size; size > 0 {
		return w.enc.appendSet(b, key, size, 0)
	}
	if t := w.o.trace(); t != nil {
		return w.enc.appendSet(b, key, t.size(key, w.o.ValueSize), 0)
	}
	size, expiry := w.sizes.draw(key, rng), 0
	if w.o.ExpiryMax > 0 {
		expiry = w.o.ExpiryMin + int(uniform(rng)*float64(w.o.ExpiryMax-w.o.ExpiryMin+1))
	}
	return w.enc.appendSet(b, key, size, expiry)
}

// oldest returns the request whose reply comes next. There must be one.
func (c *conn) oldest() *request { return &c.ring[c.head] }

// oldestKeys returns the keys of the oldest request; only with Verify or CacheAside.
func (c *conn) oldestKeys(o *Options) []uint64 {
	return c.keys[c.head*o.KeysPerGet:][:c.oldest().keys]
}

// drop removes the oldest request from the ring.
func (c *conn) drop() {
	if c.head++; c.head == len(c.ring) {
		c.head = 0
	}
	c.inFlight--
}
