package middleware

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"mcmw/internal/backend"
	"mcmw/internal/keylock"
	"mcmw/internal/queue"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// pool is what Apply exchanges as a whole: where keys are, the queues, and who serves them.
type pool struct {
	options Options
	router  *route.Router
	servers []*backend.Server // in the router's order
	lanes   *queue.Lanes
	queues  []stats.Queue
	workers []*worker.Worker
	formers []former       // the latest first
	running sync.WaitGroup // the workers' goroutines
}

// former is a placement that was, with the servers it knew as they are now; nil: gone.
type former struct {
	router  *route.Router
	servers []*backend.Server
}

// keepFormers is how many former placements are kept. What was placed by still earlier ones is not known any more.
const keepFormers = 8

// shared is what outlives a pool and its workers use.
type shared struct {
	registry *stats.Registry
	entrance *queue.Entrance
	locks    *keylock.Table
	access   access
	// troubled counts the servers that are suspect or stale.
	troubled atomic.Int32
}

// route returns the placement that o asks for.
func (o *Options) route() (*route.Router, error) {
	router, err := route.New(o.Servers, o.Placement)
	if err != nil {
		return nil, err
	}
	if o.Ack == replica.AckQuorum && router.N() == 1 {
		return nil, errors.New("ack quorum with one replica; accepted: ack all, or two replicas and more")
	}
	return router, nil
}

// backend returns what the servers of o share.
func (o *Options) backend(s *shared) backend.Options {
	return backend.Options{
		ConnectTimeout: o.ConnectTimeout, FailureLimit: o.FailureLimit, Rejoin: o.Rejoin, MissedMemory: o.MissedMemory,
		Troubled: &s.troubled, Access: s.access.servers, Log: o.Log,
	}
}

// newPool returns the pool that o asks for, without workers; servers are those of the router, in its order.
func newPool(o Options, router *route.Router, servers []*backend.Server) *pool {
	p := &pool{options: o, router: router, servers: servers}
	p.lanes, p.queues = o.newLanes(router, servers)
	return p
}

// inherit takes over what of, the pool before, knows of former placements; moved: its own is one now, too. now says what
// its servers are now.
func (p *pool) inherit(of *pool, now map[*backend.Server]*backend.Server, moved bool) {
	if p.options.Rejoin == backend.RejoinTrust {
		return
	}
	formers := of.formers
	if moved {
		formers = append([]former{{of.router, of.servers}}, formers...)
	}
	for i, f := range formers {
		servers := make([]*backend.Server, len(f.servers))
		for k, s := range f.servers {
			servers[k] = now[s]
			if servers[k] != nil && i >= keepFormers {
				servers[k].LeaveAllBehind()
			}
		}
		if i < keepFormers {
			p.formers = append(p.formers, former{f.router, servers})
		}
	}
}

// members lists the workers of the pool by what they are for: those of each queue, as many to stand in for them, and one
// for each server's detour.
func (p *pool) members() []worker.Member {
	var members []worker.Member
	crew := func(n, lane, home int) {
		for i := range 2 * n {
			members = append(members, worker.Member{Lane: lane, Home: home, StandIn: i >= n})
		}
	}
	if p.options.Pool == PoolShared {
		crew(p.options.Workers, 0, -1)
	} else {
		for s := range p.servers {
			crew(p.options.Workers, readLane(s), s)
			crew(1, writeLane(s), -1)
		}
	}
	for s := range p.servers {
		members = append(members, worker.Member{Lane: int(p.options.detourLanes(len(p.servers))) + s, Home: s, Patient: true})
	}
	for i := range members {
		members[i].Number = i
	}
	return members
}

// statistics describes the pool to the registry.
func (p *pool) statistics() stats.Options {
	o := stats.Options{Depth: p.options.Depth, Queues: p.queues, Tap: p.options.Tap, Health: func(i int) stats.Health { return p.servers[i].Health() }}
	for _, s := range p.servers {
		o.Servers = append(o.Servers, s.Name)
	}
	for _, m := range p.members() {
		o.Recorders++
		if !m.StandIn && !m.Patient {
			o.Workers++
		}
	}
	return o
}

// man makes the workers.
func (p *pool) man(s *shared, statsText func([]byte) []byte) {
	o := worker.Options{
		Lanes: p.lanes, Entrance: s.entrance, Router: p.router, Locks: s.locks, Ack: p.options.Ack, Servers: p.servers,
		Troubled: &s.troubled, Detours: p.options.detourLanes(len(p.servers)), Sharded: p.options.Sharded,
		Timeout: p.options.Timeout, StallAfter: p.options.stallAfter(), GetErrorMiss: p.options.GetErrorMiss,
		StatsText: statsText, Log: p.options.Log,
	}
	for _, f := range p.formers {
		o.Formers = append(o.Formers, worker.Former{Router: f.router, Servers: f.servers})
	}
	crews := map[int]*worker.Crew{}
	for _, m := range p.members() {
		o.Depth, o.Crew = p.options.Depth, nil
		if m.Patient || (p.options.Pool == PoolPerServer && m.Home < 0) {
			// Who waits for a stalled server serves at once all who do; the writer sends all the writes that wait.
			o.Depth = max(o.Depth, DefaultDepth)
		}
		if !m.Patient {
			if crews[m.Lane] == nil {
				crews[m.Lane] = worker.NewCrew(p.options.Workers)
			}
			o.Crew = crews[m.Lane]
		}
		p.workers = append(p.workers, worker.New(o, m))
	}
}

// connect connects the workers to the servers; failures are logged.
func (p *pool) connect(ctx context.Context) {
	for _, w := range p.workers {
		for _, err := range w.Connect(ctx) {
			p.options.Log.Warn("a server failed", "server", err.Server, "reason", err.Reason.String(), "error", err.Err)
		}
	}
}

// start lets the workers serve until stop, and record in r, which counts for this pool; ctx ends their attempts to connect.
func (p *pool) start(ctx context.Context, r *stats.Registry) {
	for i, w := range p.workers {
		p.running.Go(func() { w.Run(ctx, r.Worker(i)) })
	}
}

// stop ends the workers once the queues are empty. No burst may come in any more.
func (p *pool) stop() {
	p.lanes.Close()
	p.running.Wait()
}
