package middleware

import (
	"sync/atomic"

	"mcmw/internal/backend"
	"mcmw/internal/enum"
	"mcmw/internal/protocol"
	"mcmw/internal/queue"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// Pool says how the workers are organised.
type Pool uint8

const (
	// PoolShared is one queue that all workers share.
	PoolShared Pool = iota
	// PoolPerServer gives every server a read queue with Workers workers of its own, and a write queue with one writer,
	// which sends all waiting writes before it reads their replies. Reads of one server don't wait for another.
	PoolPerServer
)

// PoolNames are the pools' names.
var PoolNames = enum.New[Pool]("pool", "shared", "per-server")

func (p Pool) String() string { return PoolNames.Of(p) }

// With PoolPerServer, server s has two lanes.
func readLane(s int) int  { return 2 * s }
func writeLane(s int) int { return 2*s + 1 }

// detourLanes is the first of the detours: lanes, one per server, for requests that need a server in trouble.
func (o *Options) detourLanes(servers int) int32 {
	if o.Pool == PoolShared {
		return 1
	}
	return int32(2 * servers)
}

// newLanes returns the queues of the pool, and describes the ordinary ones to the statistics.
func (o *Options) newLanes(router *route.Router, servers []*backend.Server) (*queue.Lanes, []stats.Queue) {
	n := int(o.detourLanes(len(servers))) + len(servers)
	if o.Pool == PoolShared {
		lanes := queue.NewLanes(n, o.Queue, nil)
		return lanes, []stats.Queue{{Name: "shared", Capacity: o.Queue, Length: lanes.Queue(0).Len}}
	}
	c := &laneChooser{router: router, servers: servers}
	for s := range servers {
		c.all = append(c.all, s)
	}
	lanes := queue.NewLanes(n, o.Queue, c.choose)
	c.lanes = lanes
	described := make([]stats.Queue, 2*len(servers))
	for s, server := range servers {
		described[readLane(s)] = stats.Queue{Name: server.Name + "/read", Capacity: o.Queue, Length: lanes.Queue(readLane(s)).Len}
		described[writeLane(s)] = stats.Queue{Name: server.Name + "/write", Capacity: o.Queue, Length: lanes.Queue(writeLane(s)).Len}
	}
	return lanes, described
}

// laneChooser chooses the lanes of PoolPerServer: a write goes to its key's first server, so that all writes of a key have
// one writer; a read to the server that is to answer it; a request that needs no particular server follows the one before
// it. Safe for concurrent use.
type laneChooser struct {
	router  *route.Router
	servers []*backend.Server
	all     []int // every server
	lanes   *queue.Lanes
	turn    atomic.Uint32
}

func (c *laneChooser) choose(b *request.Batch) {
	lane := -1
	for i := range b.Requests {
		r := &b.Requests[i]
		if needed := c.lane(r); needed >= 0 {
			lane = needed
		} else if lane < 0 {
			lane = readLane(c.next())
		}
		r.Lane = int32(lane)
	}
}

// next returns the servers in turn.
func (c *laneChooser) next() int { return int(c.turn.Add(1) % uint32(len(c.servers))) }

// lane returns the lane that r needs, -1 if any will do.
func (c *laneChooser) lane(r *request.Request) int {
	if r.NumKeys == 0 || (r.Answer != "" && !r.HasEffect()) {
		return -1
	}
	var room [protocol.DefaultMaxKey]byte
	key := r.Key(room[:0])
	switch {
	case r.Has(protocol.Writes):
		return writeLane(c.router.Primary(key))
	case r.Has(protocol.First):
		return readLane(c.router.Primary(key))
	}
	return readLane(c.reader(key))
}

// load returns the work of server s, including the reads that wait for its workers.
func (c *laneChooser) load(s int) int64 { return c.servers[s].Load(c.lanes.Queue(readLane(s)).Len()) }

// reader returns the server to read key from.
func (c *laneChooser) reader(key []byte) int {
	if c.router.Read() == route.ReadPrimary || c.router.N() == 1 {
		return c.router.Primary(key)
	}
	var room [16]int
	holders := c.all
	if c.router.N() < len(holders) {
		holders = c.router.Replicas(key, room[:0])
	}
	first := c.next() % len(holders)
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
