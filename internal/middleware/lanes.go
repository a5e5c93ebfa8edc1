package middleware

import (
	"mcmw/internal/backend"
	"mcmw/internal/enum"
	"mcmw/internal/plan"
	"mcmw/internal/queue"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// Pool says how the workers are organised.
type Pool uint8

const (
	// PoolShared is one queue that all workers share.
	PoolShared Pool = iota
	// PoolPerServer gives every server a read queue with Workers workers of its own, and a write queue with one writer,
	// which sends all waiting writes before it reads their replies. Reads from one server don't wait for another
	// server.
	PoolPerServer
)

// PoolNames are the names of the values.
var PoolNames = enum.New[Pool]("pool", "shared", "per-server")

func (p Pool) String() string { return PoolNames.Of(p) }

// detourLanes returns the number of the first detour lane. There is one per server, for requests that need the server
// while it is in trouble.
func (o *Options) detourLanes(servers int) int32 {
	if o.Pool == PoolShared {
		return 1
	}
	return int32(2 * servers)
}

// newLanes returns the queues, and the description of those that are no detours for the statistics.
func (o *Options) newLanes(router *route.Router, servers []*backend.Server,
	versioned func(pool int) bool,
) (*queue.Lanes, []stats.Queue) {
	n := int(o.detourLanes(len(servers))) + len(servers)
	if o.Pool == PoolShared {
		lanes := queue.NewLanes(n, o.Queue, nil)
		return lanes, []stats.Queue{{Name: "shared", Capacity: o.Queue, Length: lanes.Queue(0).Len}}
	}
	var lanes *queue.Lanes
	chooser := plan.NewLaneChooser(router,
		func(s int) int64 { return servers[s].Load(lanes.Queue(plan.ReadLane(s)).Len()) }, versioned)
	lanes = queue.NewLanes(n, o.Queue, chooser.Choose)
	described := make([]stats.Queue, 2*len(servers))
	for s, server := range servers {
		described[plan.ReadLane(s)] = stats.Queue{
			Name: server.Name + "/read", Capacity: o.Queue,
			Length: lanes.Queue(plan.ReadLane(s)).Len,
		}
		described[plan.WriteLane(s)] = stats.Queue{
			Name: server.Name + "/write", Capacity: o.Queue,
			Length: lanes.Queue(plan.WriteLane(s)).Len,
		}
	}
	return lanes, described
}
