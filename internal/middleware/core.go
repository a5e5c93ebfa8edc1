package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/keylock"
	"mcmw/internal/marker"
	"mcmw/internal/plan"
	"mcmw/internal/queue"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/sweep"
	"mcmw/internal/worker"
)

// core is what Apply replaces as a whole: the placement of keys, the queues, and the workers that serve them.
type core struct {
	options Options
	router  *route.Router     // of all pools
	servers []*backend.Server // in the router's order
	pools   []*pool           // by the router's numbers
	lanes   *queue.Lanes
	queues  []stats.Queue
	workers []*worker.Worker
	sweep   *stats.Sweep   // of the middleware
	hot     *hotkeys.Keys  // of the middleware
	shadows []*shadowed    // of the pools
	running sync.WaitGroup // the workers' goroutines
}

// pool is what a core knows of one pool.
type pool struct {
	*tier
	options   PoolOptions
	log       *slog.Logger
	step      time.Duration     // Options.ChangeStep
	router    *route.Router     // of this pool alone
	share     *route.Share      // which keys it has, or gets; nil: all
	had       *route.Share      // which it had until now, while routes change; nil: the same
	rerouting route.Phase       // of the change of routes
	migrates  bool              // keys are to leave it for another pool, or to come
	servers   []*backend.Server // in the router's order
	change    *change           // the change of placement under way; nil: none
	previous  []placement       // the latest first
	more      bool              // there were earlier ones
	several   atomic.Bool       // other middlewares may write the same servers: replicas are kept alike all the same
}

// tier is what outlives a core of a pool.
type tier struct {
	name    string           // "" where there is one pool without a name
	records *backend.Records // nil: none are kept
	// unswept: an earlier middleware has not shut down cleanly, and the replicas have not been compared since. unlisted: a server lists no
	// keys, so what it left can't be found.
	unswept, unlisted atomic.Bool
	// The fields below are guarded by Middleware.applying.
	begun   bool                 // its servers have been judged
	settled placed               // the placement before change, or without one
	change  *change              // nil: none is under way
	first   atomic.Pointer[pool] // of a pool that is added while clients are served: what its servers are judged by
	// diverted counts what went to the pool's gutter.
	diverted stats.Gutter
	// warming counts what reads have looked for in the pool that is warmed up from this one, and missing is what is to be copied there.
	warming     stats.WarmUp
	missing     *sweep.Missing
	lingers     bool          // it heeds marks until all servers may be read, though it need not any more
	rescheduled chan struct{} // whoever changes change.due -> goThrough; capacity 1; never closed
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
	swept   stats.Sweep
	hot     *hotkeys.Keys // nil: hot keys are not counted
	shadows []*shadowed   // guarded by Middleware.applying
}

// route returns the router for the placement in o.
func (o *Options) route() (*route.Router, error) {
	var router *route.Router
	var err error
	if len(o.Pools) == 0 {
		router, err = route.New(o.Servers, o.Placement)
		if err == nil && o.Placement.Gutter != "" {
			err = errors.New("a gutter without pools; accepted: one of several pools")
		}
	} else {
		pools := make([]route.Pool, len(o.Pools))
		for i, p := range o.Pools {
			pools[i] = p.Pool
		}
		router, err = route.NewPools(pools, o.Routes)
	}
	if err != nil {
		return nil, err
	}
	for i, p := range o.pools() {
		if p.Ack == replica.AckQuorum && router.Pools()[i].N() == 1 {
			return nil, fmt.Errorf("%sack quorum with one replica; accepted: ack all, or two replicas and more", p.of())
		}
		if err := p.checkGutter(router.Pools()[i]); err != nil {
			return nil, err
		}
	}
	return router, nil
}

// of begins a message about the pool.
func (o *PoolOptions) of() string {
	if o.Name == "" {
		return ""
	}
	return "pool " + strconv.Quote(o.Name) + ": "
}

// backend returns the options common to the servers of t's pool, which has the options o.
func (m *Middleware) backend(t *tier, o *PoolOptions) backend.Options {
	return backend.Options{
		ServerOptions: o.ServerOptions, Changes: &m.changes, Records: t.records, Gutter: o.gutterOpen(m.options.longestTimeout()), Alone: o.Writers == WritersOne,
		Access: m.access.to(o), Log: m.options.Log,
	}
}

// newCore returns a core with o, without workers, for tiers; servers are those of the router, in its order.
func newCore(o Options, router *route.Router, tiers []*tier, servers []*backend.Server, s *shared) *core {
	p := &core{options: o, router: router, servers: servers, sweep: &s.swept, hot: s.hot, shadows: s.shadows}
	for i, options := range o.pools() {
		in := router.Pools()[i]
		if in.Read() == route.ReadNearest && !slices.ContainsFunc(in.Servers(), func(s route.Server) bool { return s.Zone != "" && s.Zone == options.Options.Zone }) {
			o.Log.Warn("read nearest prefers no server, because none is in the zone that this mcmw runs in", "zone", options.Options.Zone)
		}
		if n := LeastForGutter(options.Writers); in.Gutter() != nil && len(in.Servers()) < n {
			o.Log.Warn("too few servers for a gutter: requests for the keys of one that is down fail", "pool", options.Name, "servers", len(in.Servers()), "needed", n)
		}
		q := &pool{tier: tiers[i], options: options, log: o.Log, step: o.ChangeStep, router: in.Alone(), servers: servers[in.Base():][:len(in.Servers())], change: tiers[i].change.copy(), share: router.Share(i), had: router.Before(i), rerouting: router.Rerouting(), migrates: router.MovesPool(i)}
		p.pools = append(p.pools, q)
	}
	p.lanes, p.queues = o.newLanes(router, servers)
	return p
}

// inherit takes over the previous placements from of, the one before; moved: of's own placement is now one of them, too.
// now maps its servers to the current ones.
func (p *pool) inherit(of *pool, now map[*backend.Server]*backend.Server, moved bool) {
	if p.options.Rejoin == backend.RejoinTrust {
		return
	}
	previous := of.previous
	if moved {
		record := of.record()
		if router, err := record.Router(); err == nil { // it was one before
			previous = append([]placement{{router, of.servers, record}}, previous...)
		}
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

// anySeveral reports whether others may write the servers of a pool.
func (p *core) anySeveral() bool {
	return slices.ContainsFunc(p.pools, func(q *pool) bool { return q.several.Load() })
}

// marksUnknown reports whether no server of a pool may be read now.
func (p *core) marksUnknown() bool {
	return slices.ContainsFunc(p.pools, func(q *pool) bool { return q.records.Unknown() })
}

// of returns the pool of a tier; nil if it is gone.
func (p *core) of(t *tier) *pool {
	for _, q := range p.pools {
		if q.tier == t {
			return q
		}
	}
	return nil
}

// statistics describes the core to the registry.
func (m *Middleware) statistics(p *core) stats.Options {
	o := stats.Options{Sweep: p.sweep, HotKeys: p.hot, Several: p.anySeveral, MarksUnknown: p.marksUnknown, Depth: p.options.Depth, Queues: p.queues, Tap: p.options.Tap, Health: func(i int) stats.Health { return p.servers[i].Health() }}
	wanted := make([]marker.Placement, len(p.pools))
	for i, q := range p.pools {
		wanted[i] = q.wantedRecord()
	}
	o.Migrations = func() []stats.Migration { return m.migrations(p) }
	o.Phase, o.Placement, o.Gutters = p.router.Phase().String(), fingerprint(wanted...), p.gutters()
	for i, s := range p.servers {
		o.Servers, o.Zones = append(o.Servers, s.Name), append(o.Zones, p.router.Servers()[i].Zone)
	}
	if len(p.options.Pools) > 0 {
		for _, q := range p.pools {
			o.Pools = append(o.Pools, slices.Repeat([]string{q.name}, len(q.servers))...)
		}
		o.Routes = p.options.routes()
	}
	o.Shadows = p.shadowCounts()
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
		Servers: p.servers, Changes: &s.changes, Detours: p.options.detourLanes(len(p.servers)), MaxValue: p.options.Limits.MaxValue, Hot: s.hot.Values(), StatsText: statsText, Log: p.options.Log,
	}
	o.StallAfter = p.options.stallAfter()
	for i, q := range p.pools {
		w := worker.Pool{Pool: plan.Pool{Several: q.several.Load(), Large: q.options.Large}, Timeout: q.options.Timeout, Diverted: &q.diverted, Warming: &q.warming, Lacks: q.missing.Add, Shadow: p.feedOf(q.name)}
		w.Ack, w.Barring = q.ack()
		if q.had != nil && !w.Barring {
			w.Ack = replica.AckAll // keys are deleted on servers of other pools, which nobody bars
		}
		for _, move := range p.router.Migrations() {
			if move.From == i && move.Phase.Active() && move.Cold == "" {
				w.Ack = ackOfBoth(q, p.pools[move.To])
				if move.Missed && !move.Phase.ReadsNew() {
					w.Ack = replica.AckAll // who copies relies on what the old pool has answered
				}
			}
		}
		if q.heeds() {
			w.Lease = q.records
		}
		o.Pools = append(o.Pools, w)
		for _, f := range q.previous {
			o.Previous = append(o.Previous, worker.Placement{Router: f.router, Servers: f.servers})
		}
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
