package plan

import (
	"slices"
	"sync/atomic"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/route"
)

// ReadLane returns the lane of what is read from server s, where each server has lanes of its own.
func ReadLane(s int) int { return 2 * s }

// WriteLane returns the lane of the writes whose key's first server is s.
func WriteLane(s int) int { return 2*s + 1 }

// LaneChooser sends each request to a lane, where each server has its own: a write to its key's first server, so that all writes of a key
// have one writer; a read to the server that is to answer it; what needs no particular server follows the request before
// it. Safe for concurrent use.
type LaneChooser struct {
	router *route.Router
	load   func(s int) int64
	all    []int // every server
	near   []int // those of them that reads prefer
	turn   atomic.Uint32
}

// NewLaneChooser returns a chooser; load is what server s has to do, the reads that wait in its lane included.
func NewLaneChooser(router *route.Router, load func(s int) int64) *LaneChooser {
	c := &LaneChooser{router: router, load: load}
	for s := range router.Servers() {
		c.all = append(c.all, s)
	}
	c.near = router.Nearest(slices.Clone(c.all))
	return c
}

// Choose sets the lane of each request of b.
func (c *LaneChooser) Choose(b *request.Batch) {
	lane := -1
	for i := range b.Requests {
		r := &b.Requests[i]
		if r.NumKeys > 0 && (r.Answer == "" || r.HasEffect()) {
			lane = c.lane(r)
		} else if lane < 0 {
			lane = ReadLane(c.all[c.next(len(c.all))])
		}
		r.Lane = int32(lane)
	}
}

// next returns the numbers below n in turn.
func (c *LaneChooser) next(n int) int { return int(c.turn.Add(1) % uint32(n)) }

// lane returns the lane that r, which has keys, needs.
func (c *LaneChooser) lane(r *request.Request) int {
	var room [protocol.DefaultMaxKey]byte
	key := r.Key(room[:0])
	switch {
	case r.Has(protocol.Writes):
		return WriteLane(c.router.Primary(key))
	case r.Has(protocol.First), c.router.Read() == route.ReadPrimary, c.router.N() == 1:
		var room [16]int
		return ReadLane(c.router.Readers(key, room[:0])[0])
	}
	return ReadLane(c.reader(key))
}

// reader returns the server to read key from.
func (c *LaneChooser) reader(key []byte) int {
	var room [16]int
	holders := c.near
	if !c.router.Everywhere() {
		holders = c.router.Nearest(c.router.Readers(key, room[:0]))
	}
	first := c.next(len(holders))
	best := holders[first]
	if c.router.Read() == route.ReadLeastBusy {
		for k := range holders {
			if s := holders[(first+k)%len(holders)]; c.load(s) < c.load(best) {
				best = s
			}
		}
	}
	return best
}
