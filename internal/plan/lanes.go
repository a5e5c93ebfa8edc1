package plan

import (
	"slices"
	"sync/atomic"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/route"
)

// ReadLane returns the lane of the reads from server s, where each server has lanes of its own.
func ReadLane(s int) int { return 2 * s }

// WriteLane returns the lane of the writes of the keys whose first server is s.
func WriteLane(s int) int { return 2*s + 1 }

// LaneChooser chooses a lane for each request, where each server has lanes of its own. A write goes to its key's first
// server, so that all writes of a key have one writer; a read goes to the server that will answer it; a request that
// needs no particular server goes with the request before it. Safe for concurrent use.
type LaneChooser struct {
	router *route.Router
	reads  *route.Router // routes reads
	// versioned reports whether the items of the pool with that number have versions.
	versioned func(pool int) bool
	load      func(s int) int64
	all       []int   // every server
	near      [][]int // by pool: those of its servers that reads prefer
	turn      atomic.Uint32
}

// NewLaneChooser returns a chooser. load returns the work that waits for server s, including the reads in its lane, and
// versioned whether the items of the pool with that number have versions.
func NewLaneChooser(router *route.Router, load func(s int) int64, versioned func(pool int) bool) *LaneChooser {
	c := &LaneChooser{router: router, reads: router.ForReads(), load: load, versioned: versioned}
	for s := range router.Servers() {
		c.all = append(c.all, s)
	}
	for _, in := range router.Pools() {
		c.near = append(c.near, in.Nearest(slices.Clone(c.all[in.Base():][:len(in.Servers())])))
	}
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

// next returns the numbers below n, one after the other.
func (c *LaneChooser) next(n int) int { return int(c.turn.Add(1) % uint32(n)) }

// lane returns the lane of r, which has keys.
func (c *LaneChooser) lane(r *request.Request) int {
	var room [protocol.DefaultMaxKey]byte
	key := r.Key(room[:0])
	router := c.router
	if r.IsRead() {
		router = c.reads
	}
	in, key := router.At(key)
	switch {
	case r.Has(protocol.Writes):
		return WriteLane(in.Primary(key))
	case in.Read() == route.ReadPrimary, in.N() == 1, r.Has(protocol.First) &&
		!(r.ShowsToken() && c.versioned(in.Number())):
		var room [16]int
		return ReadLane(in.Readers(key, room[:0])[0])
	}
	return ReadLane(c.reader(in, key))
}

// reader returns the server from which to read key, of the pool in.
func (c *LaneChooser) reader(in *route.Group, key []byte) int {
	var room [16]int
	holders := c.near[in.Number()]
	if !in.Everywhere() {
		holders = in.Nearest(in.Readers(key, room[:0]))
	}
	first := c.next(len(holders))
	best := holders[first]
	if in.Read() == route.ReadLeastBusy {
		for k := range holders {
			if s := holders[(first+k)%len(holders)]; c.load(s) < c.load(best) {
				best = s
			}
		}
	}
	return best
}
