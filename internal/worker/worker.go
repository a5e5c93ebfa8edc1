// Package worker has the pool of workers that serves the queue. A worker works in rounds: it takes up to depth waiting
// requests and plans them (package plan), sends one write per server, collects the replies, takes requests through
// further steps, and answers each client with one write.
//
// A worker owns one connection to every server; nobody else uses these connections. All requests of a round that go to
// one server travel over one connection in the order they were planned, and a batch is planned in the client's order.
// So a request sees the effects of the earlier ones of its connection.
package worker

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/keylock"
	"mcmw/internal/large"
	"mcmw/internal/plan"
	"mcmw/internal/queue"
	"mcmw/internal/replica"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/shadow"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// RequestOptions are the operator's settings of how requests are served. The Options of package middleware say what a
// zero field means.
type RequestOptions struct {
	// Ack says how many replicas of a key must have given an answer to a write before the client gets it. With several
	// pools each pool has its own.
	Ack replica.Ack
	// Sharded splits a multi-get over all servers that hold its keys.
	Sharded bool
	// Depth is how many waiting requests a worker takes at a time and pipelines to its servers. 1 is the synchronous
	// worker: one request in service.
	Depth int
	// Timeout is how long a request may take when servers do not answer. A read that several servers can answer is sent
	// to a second server after half of it.
	Timeout time.Duration
	// StallAfter is how long a server may owe a reply before requests that do not need it stop waiting for it. From
	// then on it is suspect, until it answers. 0: never.
	StallAfter time.Duration
	// GetErrorMiss answers a read that no server could answer with a miss instead of an error. Some client libraries
	// stop using a server after an error line in place of a value, or wait for more (docs/clients.md).
	GetErrorMiss bool
}

// Options are what the workers of a pool share. All fields are required, except those whose comment says what nil
// means.
type Options struct {
	RequestOptions
	Lanes   *queue.Lanes
	Router  *route.Router
	Locks   *keylock.Table
	Servers []*backend.Server // in the router's order
	// Changes counts the changes of the servers' states; the servers increment it.
	Changes *atomic.Uint32
	// Entrance is told when a batch leaves the lanes.
	Entrance *queue.Entrance
	// Active holds a token for each free slot of the lane, which has more workers than slots. Workers -> workers; its
	// capacity is the number of slots; never closed. nil for a patient worker.
	Active chan struct{}
	// Detours is the number of the first detour. There is one detour per server, a lane for the requests that need the
	// server while it is in trouble.
	Detours int32
	// Previous are the previous placements. Their servers are in their routers' order, nil if they are not used any
	// more. Such a server may hold old values of keys that now live elsewhere, and must be told when these are written.
	Previous []Placement
	// MaxValue is the size of the largest value that a server's reply may contain, bytes. Larger ones are not kept.
	MaxValue int
	// Pools are the options of the router's pools, by number.
	Pools []Pool
	// Hot holds values of hot keys, and is told which keys are written; nil: no values are held.
	Hot *hotkeys.Values
	// Usage counts who uses the cache.
	Usage *stats.Usage
	// StatsText appends the middleware's own statistics, as `stats` shows them.
	StatsText func(dst []byte) []byte
	Log       *slog.Logger
}

// Pool says how a pool's requests are served.
type Pool struct {
	plan.Pool
	// Barring: a write that a server missed is answered with success only when no mcmw instance reads that server.
	Barring bool
	// Timeout is RequestOptions.Timeout for the pool's keys and servers; 0: RequestOptions.Timeout.
	Timeout time.Duration
	// Lease says until when the pool's servers may be read; nil: always.
	Lease *backend.Records
	// Recipients returns what a worker tells of the pool's requests, for one worker; nil: there is nothing.
	Recipients func() []request.Recipient
	// Diverted counts the requests that go to the pool's gutter; required if it has one.
	Diverted *stats.Sum[stats.Diverted]
	// Warming counts the lookups in the pool that is warmed up from this one, and Lacks is called with each key that it
	// lacks; required if there is such a pool.
	Warming *stats.Sum[stats.Warming]
	Lacks   func(key []byte)
}

// Placement says where keys live: a router and its servers.
type Placement struct {
	Router  *route.Router
	Servers []*backend.Server
}

// Member is a worker's role in the pool.
type Member struct {
	Number int // from 0, of all workers that share Options.Locks
	Lane   int
	// Home is the server whose reads the lane has, or whose detour the lane is; -1 for other lanes.
	Home    int
	Patient bool // it serves a detour; only patient workers wait for stalled servers and their locks
	StandIn bool // it starts without a slot of Options.Active
}

// Worker is a member of the pool. Everything in it belongs to the goroutine that calls Run.
type Worker struct {
	// Static after construction, except for the contents.
	options Options
	member  Member
	queue   queue.Queue
	record  *stats.Worker
	conns   []*backend.Conn // by server
	planner *plan.Planner
	leases  []*backend.Records // of the pools that have one
	// timeouts are, by server, the timeout of its pool, ns.
	timeouts []int64

	// The round, and what outlives it.
	round
	outstanding []outstanding       // by server: the calls that are not answered
	locks       map[uint32]heldLock // by stripe: the key locks that the worker holds
	backlog     []*request.Batch    // to be served before the queue
	later       []*request.Batch    // to be served in the next round
	slot        slot
	marks       marks
	barred      barred
	valueSize   request.ValueSize // over all clients
	mean        int               // meanOf the client whose requests are being planned
	states      states
	checks      checks
	reading     reading
	out         wire.Gather
	aside       wire.Gather    // text that is not for the client yet
	copier      *shadow.Copier // nil: no pool has recipients
	reply       []byte         // see replyOf
	misses      int            // multi-gets that have missed keys; see tracks

	disagreements stats.Limiter // of the log line about replicas that disagree
}

// New returns a worker.
func New(o Options, m Member) *Worker {
	w := &Worker{
		options: o, member: m, queue: o.Lanes.Queue(m.Lane), slot: slot{active: !m.StandIn},
		outstanding: make([]outstanding, len(o.Servers)), locks: make(map[uint32]heldLock),
	}
	planned := plan.Options{
		Router: o.Router, Stripe: o.Locks.Stripe, Locked: func(stripe uint32) bool {
			return o.Locks.Held(stripe, w.owner())
		}, Home: m.Home, Sharded: o.Sharded, GetErrorMiss: o.GetErrorMiss,
		MaxValue: o.MaxValue, Join: !m.Patient, // each request of a detour has its own deadline
		Today: func() int64 { return time.Now().Unix() }, LargeVersion: large.NewVersion, Hold: w.holdSplit,
	}
	if m.Patient {
		planned.Home = -1
	}
	recipients := make([][]request.Recipient, len(o.Pools))
	w.options.Pools = slices.Clone(o.Pools)
	for k := range w.options.Pools {
		p := &w.options.Pools[k]
		p.Timeout = cmp.Or(p.Timeout, o.Timeout)
		for range o.Router.Pools()[k].Servers() {
			w.timeouts = append(w.timeouts, int64(p.Timeout))
		}
		planned.Pools = append(planned.Pools, p.Pool)
		if p.Recipients != nil {
			recipients[k] = p.Recipients()
		}
		if p.Versions && planned.Versions == nil {
			planned.Versions = plan.RandomVersions()
		}
		if p.Lease != nil {
			w.leases = append(w.leases, p.Lease)
		}
	}
	planned.Version = func(s int) string { return o.Servers[s].Version() }
	for k, s := range o.Servers {
		planned.Names = append(planned.Names, s.Name)
		w.conns = append(w.conns, backend.NewConn(s, min(w.oneTurn(), time.Duration(w.timeouts[k]/leastTime))))
	}
	w.planner = plan.New(planned, m.Number)
	w.copier = shadow.NewCopier(w.planner.PoolOf, recipients)
	w.states.seen = o.Changes.Load() - 1
	return w
}

// owner is the worker's number among the holders of key locks.
func (w *Worker) owner() int32 { return int32(w.member.Number + 1) }

// Connect connects to the servers that the worker will need most, except those that are down; to none if the worker may
// never be needed. It returns the failures.
func (w *Worker) Connect(ctx context.Context) []*backend.Error {
	if w.member.Patient || !w.slot.active {
		return nil
	}
	var failed []*backend.Error
	for s, c := range w.conns {
		if (w.member.Home >= 0 && s != w.member.Home) || w.options.Servers[s].Down() {
			continue
		}
		if err := c.Connect(ctx); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// Run serves the queue until it is closed and empty, and counts in record. When ctx ends, attempts to connect to
// servers are given up.
func (w *Worker) Run(ctx context.Context, record *stats.Worker) {
	w.record = record
	for w.awaitTurn(ctx); w.take(ctx); w.awaitTurn(ctx) {
		w.serve(ctx)
	}
	w.releaseSlot() // now a stand-in can see that the queue is closed
	for _, c := range w.conns {
		c.Close()
	}
}

// serve takes a round from its first write to its end.
func (w *Worker) serve(ctx context.Context) {
	w.send(ctx, 0)
	w.collect(ctx, true)
	w.further(ctx)
	for w.waits() {
		w.collect(ctx, false)
		w.further(ctx)
	}
	w.answerReady()
	w.endRound()
}

// awaitTurn waits until the worker may serve its lane. Checks are done before that.
func (w *Worker) awaitTurn(ctx context.Context) {
	for !w.slot.active && w.planner.Checking() > 0 {
		w.beginRound()
		w.planChecks()
		w.serve(ctx)
	}
	w.acquireSlot()
}
