package load

import (
	"math/bits"
	"math/rand/v2"
)

// request is one that waits for its reply.
type request struct {
	sent    int64 // just before the write that handed it to the socket, ns of stats.Now
	command command
}

// conn is one connection of the load. Its thread owns it.
type conn struct {
	// static
	fd     int
	target string

	// what is sent next
	rng   rand.PCG
	cycle int // position in the cycle of SETs and GETs
	left  int // requests that may still be sent; negative: no limit

	// ring of the requests that wait for replies, oldest at head
	ring     []request
	head     int
	inFlight int
	keys     []uint64 // with Verify: the keys of ring[i] begin at i*KeysPerGet; a set has one

	// input and output that a system call cut off
	scan    scanner
	rest    []byte // of a burst, not taken by the socket yet
	waiting bool   // the socket takes no more: epoll reports when it does
}

// newConn prepares connection number id of a load. Connections of one load have the same options and encoder.
func newConn(o *Options, enc *encoder, id, fd int) *conn {
	c := &conn{
		fd:     fd,
		target: o.Targets[id%len(o.Targets)],
		rng:    *rand.NewPCG(o.Seed, uint64(id)),
		cycle:  id % (o.Sets + o.Gets),
		left:   -1,
		ring:   make([]request, o.Pipeline),
	}
	if o.Requests > 0 {
		c.left = o.Requests
	}
	if o.Verify {
		c.keys = make([]uint64, o.Pipeline*o.KeysPerGet)
		c.scan.check = &checker{enc: enc}
	}
	return c
}

// key draws the number of a key, all equally likely.
func (c *conn) key(o *Options) uint64 {
	offset, _ := bits.Mul64(c.rng.Uint64(), o.keyCount())
	return o.KeyMin + offset
}

// slot returns the place in the ring of the i-th request after the oldest.
func (c *conn) slot(i int) int {
	if i += c.head; i >= len(c.ring) {
		i -= len(c.ring)
	}
	return i
}

// appendRequest appends the connection's next request to b and puts it into the ring, which must have room. The caller
// stamps when it is sent. drawn is scratch space for the keys of a GET.
func (c *conn) appendRequest(b []byte, o *Options, enc *encoder, drawn []uint64) []byte {
	slot := c.slot(c.inFlight)
	c.inFlight++
	if c.left > 0 {
		c.left--
	}
	cycle := c.cycle
	if c.cycle++; c.cycle == o.Sets+o.Gets {
		c.cycle = 0
	}
	if c.keys != nil {
		drawn = c.keys[slot*o.KeysPerGet : (slot+1)*o.KeysPerGet]
	}
	if cycle < o.Sets {
		c.ring[slot].command = set
		return enc.appendSet(b, c.key(o))
	}
	c.ring[slot].command = get
	for i := range drawn {
		drawn[i] = c.key(o)
	}
	return enc.appendGet(b, drawn)
}

// oldest returns the request whose reply comes next; there must be one.
func (c *conn) oldest() *request { return &c.ring[c.head] }

// askedOldest returns the keys of the oldest request; only with Verify.
func (c *conn) askedOldest(o *Options) []uint64 {
	return c.keys[c.head*o.KeysPerGet : (c.head+1)*o.KeysPerGet]
}

// drop takes the oldest request out of the ring.
func (c *conn) drop() {
	if c.head++; c.head == len(c.ring) {
		c.head = 0
	}
	c.inFlight--
}
