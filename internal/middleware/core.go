package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/enum"
	"mcmw/internal/marker"
	"mcmw/internal/plan"
	"mcmw/internal/queue"
	"mcmw/internal/refusal"
	"mcmw/internal/replica"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/sweep"
	"mcmw/internal/worker"
)

// core is the part of a middleware that Apply replaces as a whole: the placement of keys, the queues, and the workers
// that serve them.
type core struct {
	options    Options
	router     *route.Router     // of all pools
	servers    []*backend.Server // in the router's order
	pools      []*pool           // by the router's numbers
	lanes      *queue.Lanes
	queues     []stats.Queue
	workers    []*worker.Worker
	recipients []*recipient   // of the pools
	migrating  []*migrating   // of the middleware
	running    sync.WaitGroup // the workers' goroutines
}

// pool is one pool of a core.
type pool struct {
	*poolState
	options   PoolOptions
	log       *slog.Logger
	step      time.Duration     // Options.ChangeStep
	router    *route.Router     // of this pool alone
	share     *route.Share      // the keys it has, or is getting; nil: all
	had       *route.Share      // the keys it had before the change of routes that is under way; nil: the same
	rerouting route.Phase       // of the change of routes
	migrates  bool              // a migration to or from this pool has not ended
	servers   []*backend.Server // in the router's order
	change    *change           // the change of placement under way; nil: none
	previous  []former          // the latest first
	more      bool              // there were still earlier placements, which are not known
	all       []string          // the names of all pools; nil: this one has copies of another pool's keys
	several   atomic.Bool       // other middlewares may write the same servers, so stores are checked
	versioned atomic.Bool       // stored items have versions
	// undecided: no server has said whether items can have versions, or which change is under way, and that matters.
	undecided bool
}

// poolState is the part of a pool that outlives a core.
type poolState struct {
	name    string           // "" for a single pool without a name
	records *backend.Records // nil: none are kept
	// unswept: an earlier middleware did not shut down cleanly, and the replicas have not been compared since.
	// unlisted: they can't be compared, because a server does not list its keys.
	unswept, unlisted atomic.Bool
	// absent: it was no pool until this middleware, or a reload, made it one. Its servers may hold old values of all
	// its keys, because other pools had them.
	absent atomic.Bool
	// The fields below are guarded by Middleware.applying.
	begun bool // its servers have been judged by the records on them; an undecided pool has not begun
	// asked: servers have said whether items can have versions. supported: all that did when that was decided last can.
	asked, supported bool
	// versionless has the servers of which a warning has said that they can't.
	versionless map[string]bool
	settled     placement // the placement before change, or the current one if there is no change
	change      *change   // nil: no change of placement is under way
	// of a pool added while clients are served: its servers are judged by this until the core is current
	first atomic.Pointer[pool]
	// diverted counts requests that went to the pool's gutter.
	diverted stats.Sum[stats.Diverted]
	// warming counts the reads that asked the pool that is warmed up from this one; missing are the keys to be copied
	// to that pool.
	warming stats.Sum[stats.Warming]
	missing *sweep.Missing
	lingers bool // it still respects marks, which it no longer needs, until all its servers may be read
	// After the start, until watched, drive looks whether others have begun a change; the next time at look.
	look, watched time.Time
}

// former is an earlier placement of keys. servers has the current servers in place of those of that time; nil: the
// server was removed.
type former struct {
	router  *route.Router
	servers []*backend.Server
	record  marker.Placement
	// recorded: it is known from the servers' records alone, because it had ended when this middleware started. Which
	// keys were written since its end, before the start, is not known.
	recorded bool
}

// keepPrevious is the number of previous placements kept. Earlier ones are forgotten.
const keepPrevious = 8

// route returns the router for the placement in o.
func (o *Options) route() (*route.Router, error) {
	pools := make([]route.Pool, len(o.Pools))
	for i, p := range o.Pools {
		pools[i] = p.Pool
	}
	router, err := route.NewPools(pools, o.Routes)
	if err != nil {
		return nil, err
	}
	for i, p := range o.Pools {
		if err := CheckAck(p.Ack, router.Pools()[i].N()); err != nil {
			return nil, fmt.Errorf("%s%w", p.messagePrefix(), err)
		}
	}
	return router, nil
}

// CheckAck refuses ack quorum if a key has one replica; n is the number of replicas.
func CheckAck(ack replica.Ack, n int) error {
	if n == 1 && ack == replica.AckQuorum {
		return refusal.Of("ack",
			"\"quorum\" needs two replicas or more, and a key has one; accepted: all, or more servers and replicas")
	}
	return nil
}

// messagePrefix returns the beginning of a message about the pool; "" for a pool without a name.
func (o *PoolOptions) messagePrefix() string {
	if o.Name == "" {
		return ""
	}
	return "pool " + strconv.Quote(o.Name) + ": "
}

// backend returns the options common to the servers of t's pool, which has the options o.
func (m *Middleware) backend(t *poolState, o *PoolOptions) backend.Options {
	return backend.Options{
		ServerOptions: o.ServerOptions, Changes: &m.changes, Records: t.records,
		Gutter: o.gutterOpen(m.options.longestTimeout()), Alone: o.Writers == WritersOne,
		Refills: m.options.RefillRate > 0 && o.Options.Replicas != 1,
		Access:  m.access.to(o), Log: m.options.Log,
	}
}

// newCore returns a core with o, without workers. servers are in the router's order. applying is held.
func (m *Middleware) newCore(o Options, router *route.Router, servers []*backend.Server) *core {
	c := &core{
		options: o, router: router, servers: servers, recipients: m.recipients, migrating: m.migrating,
	}
	for i, options := range o.Pools {
		in := router.Pools()[i]
		if in.Read() == route.ReadNearest &&
			!slices.ContainsFunc(in.Servers(), func(s route.Server) bool {
				return s.Zone != "" && s.Zone == options.Options.Zone
			}) {
			o.Log.Warn("read nearest has no effect: no server is in the zone that this mcmw runs in", "zone",
				options.Options.Zone)
		}
		if n := LeastForGutter(options.Writers); in.Gutter() != nil && len(in.Servers()) < n {
			o.Log.Warn("the pool has too few servers for a gutter: requests for keys of a server that is down fail",
				"pool", options.Name, "servers", len(in.Servers()), "needed", n)
		}
		p := &pool{
			poolState: m.poolStates[i], options: options, log: o.Log, step: o.ChangeStep, router: in.Alone(),
			servers: servers[in.Base():][:len(in.Servers())],
			share:   router.Share(i), had: router.Before(i),
			rerouting: router.Rerouting(), migrates: router.MovesPool(i),
		}
		if change := p.poolState.change; change != nil {
			now := *change // stays as it is when change enters another phase
			p.change = &now
		}
		if !o.copies {
			p.all = o.names()
		}
		c.pools = append(c.pools, p)
	}
	c.lanes, c.queues = o.newLanes(router, servers, func(pool int) bool { return c.pools[pool].versioned.Load() })
	return c
}

// inherit copies the previous placements from old, the same pool in the previous core; moved: the placement of old now
// is one of them. successors has the current server for each server of old.
func (p *pool) inherit(old *pool, successors map[*backend.Server]*backend.Server, moved bool) {
	if p.options.Rejoin == backend.RejoinTrust {
		return
	}
	previous := old.previous
	if moved {
		record := old.record()
		if router, err := record.Router(); err == nil { // it never fails: the record is that of a router
			previous = append([]former{{router: router, servers: old.servers, record: record}}, previous...)
		}
	}
	p.more = old.more || len(previous) > keepPrevious
	for i, f := range previous {
		servers := make([]*backend.Server, len(f.servers))
		for k, s := range f.servers {
			servers[k] = successors[s]
			if servers[k] != nil && i >= keepPrevious {
				servers[k].LeaveAllBehind()
			}
		}
		if i < keepPrevious {
			p.previous = append(p.previous, former{f.router, servers, f.record, f.recorded})
		}
	}
}

// regains returns which keys the server with that number holds by p, and last held by a placement that is known from
// records alone: it may have old values of them. nil: there are none. It is used when p applies at once.
func (p *pool) regains(number int) func(key []byte) bool {
	server, record := p.servers[number], p.record()
	now, err := record.Router()
	if err != nil {
		return nil // it never fails: the record is that of a router
	}
	recorded := false
	for _, f := range p.previous {
		switch {
		case !slices.Contains(f.servers, server):
		case f.recorded:
			recorded = true
		case !now.Gains(server.Name, f.router):
			return nil
		}
	}
	if !recorded {
		return nil
	}
	return func(key []byte) bool {
		held := func(recorded bool) bool {
			return slices.ContainsFunc(p.previous, func(f former) bool {
				return f.recorded == recorded && slices.ContainsFunc(f.router.Replicas(key, nil),
					func(k int) bool { return f.servers[k] == server })
			})
		}
		return now.Holds(server.Name, key) && held(true) && !held(false)
	}
}

// members lists the workers: those of each queue, as many stand-ins for them, and one for each server's detour.
func (c *core) members() []worker.Member {
	var members []worker.Member
	add := func(n, lane, home int) {
		for i := range 2 * n {
			members = append(members, worker.Member{Lane: lane, Home: home, StandIn: i >= n})
		}
	}
	if c.options.WorkerPool == WorkersShared {
		add(c.options.Workers, 0, -1)
	} else {
		for s := range c.servers {
			add(c.options.Workers, plan.ReadLane(s), s)
			add(1, plan.WriteLane(s), -1)
		}
	}
	for s := range c.servers {
		members = append(members, worker.Member{
			Lane: int(c.options.detourLanes(len(c.servers))) + s, Home: s,
			Patient: true,
		})
	}
	for i := range members {
		members[i].Number = i
	}
	return members
}

// of returns the pool with state t; nil if c does not have it, or is nil.
func (c *core) of(t *poolState) *pool {
	if c == nil {
		return nil
	}
	for _, p := range c.pools {
		if p.poolState == t {
			return p
		}
	}
	return nil
}

// statistics describes the core to the registry.
func (m *Middleware) statistics(c *core) stats.Options {
	o := stats.Options{
		HotKeys: m.hot, Delimiter: c.options.Prefixes, Depth: c.options.Depth, Queues: c.queues, Tap: c.options.Tap,
	}
	wanted := make([]marker.Placement, len(c.pools))
	for i, p := range c.pools {
		wanted[i] = p.wantedRecord()
	}
	placement := fingerprint(wanted...)
	o.State = func(s *stats.Snapshot) {
		s.Phase, s.Placement = c.router.Phase().String(), placement
		m.addState(c, s)
	}
	for _, s := range c.servers {
		o.Servers = append(o.Servers, s.Name)
	}
	if c.router.Named() {
		o.Routes, o.RouteOf = c.options.routes(), c.router.Table().Prefix
	}
	for _, m := range c.members() {
		o.Recorders++
		if !m.StandIn && !m.Patient {
			o.Workers++
		}
	}
	return o
}

// addState adds the state of c's servers and pools to s.
func (m *Middleware) addState(c *core, s *stats.Snapshot) {
	at := s.Servers
	for _, p := range c.pools {
		s.Several = s.Several || p.several.Load()
		s.MarksUnknown = s.MarksUnknown || p.records.Unknown()
		for i, server := range p.servers {
			at[i].Pool, at[i].Zone, at[i].Health = p.name, p.router.Servers()[i].Zone, server.Health()
		}
		at = at[len(p.servers):]
	}
	s.Sweep = m.swept.Snapshot()
	s.Sweep.Running = s.Sweep.Running || c.unswept() // or they will be compared at once
	s.Gutters, s.Migrations = c.gutters(), m.migrations(c)
	for _, r := range c.recipients {
		r.addState(r.ties, s)
	}
}

// makeWorkers creates the workers of c, without starting them.
func (m *Middleware) makeWorkers(c *core) {
	o := worker.Options{
		RequestOptions: c.options.RequestOptions, Lanes: c.lanes, Entrance: m.entrance, Router: c.router,
		Locks: m.locks, Servers: c.servers, Changes: &m.changes, Detours: c.options.detourLanes(len(c.servers)),
		MaxValue: c.options.Limits.MaxValue, Hot: m.hot.Values(), Usage: m.registry.Usage(),
		StatsText: m.appendStats, Log: c.options.Log,
	}
	o.StallAfter = c.options.stallAfter()
	for i, p := range c.pools {
		w := worker.Pool{
			Pool: plan.Pool{
				Versions: p.versioned.Load(), Several: p.several.Load(), Agreed: p.agrees(), Policy: p.options.Policy,
			},
			Timeout: p.options.Timeout, Diverted: &p.diverted, Warming: &p.warming,
			Lacks: p.missing.Add, Recipients: func() []request.Recipient { return c.recipientsOf(p.name) },
		}
		w.Ack, w.Barring = p.ack()
		if p.had != nil && !w.Barring {
			w.Ack = replica.AckAll // keys are deleted on servers of other pools, and no mark bars those from reads
		}
		for _, move := range c.router.Migrations() {
			if move.From == i && move.Phase.Active() && move.Cold == "" {
				w.Ack = ackOfBoth(p, c.pools[move.To])
				if move.WarmsUp && !move.Phase.ReadsNew() {
					// a copy is correct only if every server of the old pool has answered the write
					w.Ack = replica.AckAll
				}
			}
		}
		if p.respectsMarks() {
			w.Lease = p.records
		}
		o.Pools = append(o.Pools, w)
		for _, f := range p.previous {
			o.Previous = append(o.Previous, worker.Placement{Router: f.router, Servers: f.servers})
		}
	}
	active := map[int]chan struct{}{}
	for _, m := range c.members() {
		o.Depth, o.Active = c.options.Depth, nil
		if m.Patient || (c.options.WorkerPool == WorkersPerServer && m.Home < 0) {
			// In one round a patient worker serves all requests that wait for its server, and a writer all waiting
			// writes.
			o.Depth = max(o.Depth, DefaultDepth)
		}
		if !m.Patient {
			if active[m.Lane] == nil {
				active[m.Lane] = make(chan struct{}, c.options.Workers)
			}
			o.Active = active[m.Lane]
		}
		c.workers = append(c.workers, worker.New(o, m))
	}
}

// connect connects the workers to the servers; failures are logged.
func (c *core) connect(ctx context.Context) {
	for _, w := range c.workers {
		for _, err := range w.Connect(ctx) {
			c.options.Log.Warn("a server failed", "server", err.Server, "reason", err.Reason.String(), "error", err.Err)
		}
	}
}

// start lets the workers serve until stop. They count in r, which has been changed to this core. The end of ctx ends
// their attempts to connect.
func (c *core) start(ctx context.Context, r *stats.Registry) {
	for i, w := range c.workers {
		c.running.Go(func() { w.Run(ctx, r.Worker(i)) })
	}
}

// stop ends the workers once the queues are empty. No batch may be queued any more.
func (c *core) stop() {
	c.lanes.Close()
	c.running.Wait()
}

// WorkerPool says how the workers are organised.
type WorkerPool uint8

const (
	// WorkersShared is one queue that all workers share.
	WorkersShared WorkerPool = iota
	// WorkersPerServer gives every server a read queue with Workers workers of its own, and a write queue with one
	// writer, which sends all waiting writes before it reads their replies. Reads from one server don't wait for
	// another server.
	WorkersPerServer
)

// WorkerPoolNames are the names of the values.
var WorkerPoolNames = enum.New[WorkerPool]("pool", "shared", "per-server")

func (p WorkerPool) String() string { return WorkerPoolNames.Of(p) }

// detourLanes returns the number of the first detour lane. There is one per server, for requests that need the server
// while it is in trouble.
func (o *Options) detourLanes(servers int) int32 {
	if o.WorkerPool == WorkersShared {
		return 1
	}
	return int32(2 * servers)
}

// newLanes returns the queues, and the description of those that are no detours for the statistics.
func (o *Options) newLanes(router *route.Router, servers []*backend.Server,
	versioned func(pool int) bool,
) (*queue.Lanes, []stats.Queue) {
	n := int(o.detourLanes(len(servers))) + len(servers)
	if o.WorkerPool == WorkersShared {
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
