package middleware

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/keylock"
	"mcmw/internal/marker"
	"mcmw/internal/plan"
	"mcmw/internal/queue"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// core is what Apply replaces as a whole: the placement of keys, the queues, and the workers that serve them.
type core struct {
	options  Options
	router   *route.Router
	servers  []*backend.Server // in the router's order
	lanes    *queue.Lanes
	queues   []stats.Queue
	workers  []*worker.Worker
	change   *change          // the change of placement under way; nil: none
	previous []placement      // the latest first
	more     bool             // there were earlier ones
	sweep    *stats.Sweep     // of the middleware
	several  atomic.Bool      // other middlewares may write the same servers: replicas are kept alike all the same
	hot      *hotkeys.Keys    // of the middleware
	records  *backend.Records // of the middleware; nil: none are kept
	running  sync.WaitGroup   // the workers' goroutines
}

// placement is where keys lived earlier, with the current servers in place of those of that time; nil: removed.
type placement struct {
	router  *route.Router
	servers []*backend.Server
	record  marker.Placement
}

// keepPrevious is the number of previous placements kept. Earlier ones are forgotten.
const keepPrevious = 8

// shared is the state that outlives a core and is used by its workers.
type shared struct {
	registry *stats.Registry
	entrance *queue.Entrance
	locks    *keylock.Table
	access   access
	// changes counts what changes of the servers' states.
	changes atomic.Uint32
	records *backend.Records // nil: none are kept
	swept   stats.Sweep
	hot     *hotkeys.Keys // nil: hot keys are not counted
	// unswept: an earlier middleware has not shut down cleanly, and the replicas have not been compared since.
	unswept atomic.Bool
}

// route returns the router for the placement in o.
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

// backend returns the options common to the servers of o.
func (o *Options) backend(s *shared) backend.Options {
	return backend.Options{
		ServerOptions: o.ServerOptions, Changes: &s.changes, Records: s.records, Access: s.access.servers, Log: o.Log,
	}
}

// newCore returns a core with o, without workers; servers are those of the router, in its order.
func newCore(o Options, router *route.Router, servers []*backend.Server, s *shared) *core {
	if router.Read() == route.ReadNearest && !slices.ContainsFunc(router.Servers(), func(s route.Server) bool { return s.Zone != "" && s.Zone == o.Placement.Zone }) {
		o.Log.Warn("read nearest prefers no server, because none is in the zone that this mcmw runs in", "zone", o.Placement.Zone)
	}
	p := &core{options: o, router: router, servers: servers, sweep: &s.swept, hot: s.hot, records: s.records}
	p.lanes, p.queues = o.newLanes(router, servers)
	return p
}

// inherit takes over the previous placements from of, the one before; moved: of's own placement is now one of them, too.
// now maps its servers to the current ones.
func (p *core) inherit(of *core, now map[*backend.Server]*backend.Server, moved bool) {
	if p.options.Rejoin == backend.RejoinTrust {
		return
	}
	previous := of.previous
	if moved {
		previous = append([]placement{{of.router, of.servers, of.record()}}, previous...)
	}
	p.more = of.more || len(previous) > keepPrevious
	for i, f := range previous {
		servers := make([]*backend.Server, len(f.servers))
		for k, s := range f.servers {
			servers[k] = now[s]
			if servers[k] != nil && i >= keepPrevious {
				servers[k].LeaveAllBehind()
			}
		}
		if i < keepPrevious {
			p.previous = append(p.previous, placement{f.router, servers, f.record})
		}
	}
}

// members lists the workers by their role: those of each queue, as many stand-ins for them, and one for each
// server's detour.
func (p *core) members() []worker.Member {
	var members []worker.Member
	add := func(n, lane, home int) {
		for i := range 2 * n {
			members = append(members, worker.Member{Lane: lane, Home: home, StandIn: i >= n})
		}
	}
	if p.options.Pool == PoolShared {
		add(p.options.Workers, 0, -1)
	} else {
		for s := range p.servers {
			add(p.options.Workers, plan.ReadLane(s), s)
			add(1, plan.WriteLane(s), -1)
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

// statistics describes the core to the registry.
func (p *core) statistics() stats.Options {
	o := stats.Options{Sweep: p.sweep, HotKeys: p.hot, Several: p.several.Load, MarksUnknown: p.records.Unknown, Depth: p.options.Depth, Queues: p.queues, Tap: p.options.Tap, Health: func(i int) stats.Health { return p.servers[i].Health() }}
	o.Phase, o.Placement = p.router.Phase().String(), fingerprint(p.wanted().record())
	for i, s := range p.servers {
		o.Servers, o.Zones = append(o.Servers, s.Name), append(o.Zones, p.router.Servers()[i].Zone)
	}
	for _, m := range p.members() {
		o.Recorders++
		if !m.StandIn && !m.Patient {
			o.Workers++
		}
	}
	return o
}

// makeWorkers creates the workers, without starting them.
func (p *core) makeWorkers(s *shared, statsText func([]byte) []byte) {
	o := worker.Options{
		RequestOptions: p.options.RequestOptions, Lanes: p.lanes, Entrance: s.entrance, Router: p.router, Locks: s.locks,
		Servers: p.servers, Changes: &s.changes, Detours: p.options.detourLanes(len(p.servers)), MaxValue: p.options.Limits.MaxValue, Several: p.several.Load(), Hot: s.hot.Values(), StatsText: statsText, Log: p.options.Log,
	}
	o.StallAfter = p.options.stallAfter()
	o.Ack, o.Barring = p.ack()
	if p.heeds() {
		o.Lease = s.records
	}
	for _, f := range p.previous {
		o.Previous = append(o.Previous, worker.Placement{Router: f.router, Servers: f.servers})
	}
	active := map[int]chan struct{}{}
	for _, m := range p.members() {
		o.Depth, o.Active = p.options.Depth, nil
		if m.Patient || (p.options.Pool == PoolPerServer && m.Home < 0) {
			// A patient worker serves in one round all requests that wait for its server, a writer all waiting writes.
			o.Depth = max(o.Depth, DefaultDepth)
		}
		if !m.Patient {
			if active[m.Lane] == nil {
				active[m.Lane] = make(chan struct{}, p.options.Workers)
			}
			o.Active = active[m.Lane]
		}
		p.workers = append(p.workers, worker.New(o, m))
	}
}

// connect connects the workers to the servers; failures are logged.
func (p *core) connect(ctx context.Context) {
	for _, w := range p.workers {
		for _, err := range w.Connect(ctx) {
			p.options.Log.Warn("a server failed", "server", err.Server, "reason", err.Reason.String(), "error", err.Err)
		}
	}
}

// start lets the workers serve until stop, recording in r, which has been changed to this core; ctx ends their attempts to
// connect.
func (p *core) start(ctx context.Context, r *stats.Registry) {
	for i, w := range p.workers {
		p.running.Go(func() { w.Run(ctx, r.Worker(i)) })
	}
}

// stop ends the workers once the queues are empty. No batch may enter any more.
func (p *core) stop() {
	p.lanes.Close()
	p.running.Wait()
}
