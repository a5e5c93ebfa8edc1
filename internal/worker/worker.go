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
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/keylock"
	"mcmw/internal/large"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
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
	// Shadow takes copies of the pool's requests; nil: the pool has no shadow.
	Shadow *shadow.Feed
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
	queue   *queue.Queue
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
	copier      *shadow.Copier // nil: no pool has a shadow

	disagreements stats.Limiter // of the log line about replicas that disagree
}

// reading is the order in which the servers' replies are read.
type reading struct {
	first int   // the server that is read first unless there is a reason for another
	order []int // scratch: the servers that owe replies
}

// round is what a worker knows of the requests that it serves. Times are ns, as stats.Now.
type round struct {
	dequeued int64
	earliest int64 // when the first of the requests was created
	began    int64 // when the first of the requests had the locks that it needs
	sent     int64
	flushed  int64 // when the calls of the requests' present steps were sent
	read     int64 // when a server's replies were read last
	replied  int64 // when a client was answered last; 0: not yet
	parts    []part
	requests []pending // by the planner's indexes
	ready    []int32   // parts that are complete and not answered yet
	followUp []int32   // requests whose step has ended and that have another step
	// following are the requests whose next step is being planned.
	following []int32
	expected  int  // expected size of the values that were asked for, bytes
	held      int  // size of the values that arrived and that no client has taken yet, bytes
	gathers   bool // some value arrives in chunks
}

// reset ends the round. All slices keep their memory.
func (r *round) reset() {
	clear(r.parts)
	clear(r.requests)
	*r = round{
		parts: r.parts[:0], requests: r.requests[:0], ready: r.ready[:0], followUp: r.followUp[:0],
		following: r.following[:0],
	}
}

// part is the part of a batch that a round serves.
type part struct {
	batch       *request.Batch
	first, last int32 // requests[first:last]
	left        int32 // number of requests that are not complete
	stalled     bool  // the client has not taken the whole reply; rest is missing
	rest        []byte
	held        int  // size of the values that arrived, bytes
	judged      bool // repeatable is set: it says whether the part's reads can be repeated after the round
	repeatable  bool
}

// pending is what the worker knows of a request of the round, in addition to what the planner knows.
type pending struct {
	part    int32
	stripe  uint32 // of the key of a replicated write
	locked  bool   // the worker holds the stripe for this write
	done    bool   // it has no further step
	expired bool   // no time is left to wait for a suspect
	wanted  bool   // readers want the reply, with token
	token   hotkeys.Token
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
		Today: func() int64 { return time.Now().Unix() }, LargeVersion: large.NewVersion,
	}
	if m.Patient {
		planned.Home = -1
	}
	var feeds []*shadow.Feed
	w.options.Pools = slices.Clone(o.Pools)
	for k := range w.options.Pools {
		p := &w.options.Pools[k]
		p.Timeout = cmp.Or(p.Timeout, o.Timeout)
		for range o.Router.Pools()[k].Servers() {
			w.timeouts = append(w.timeouts, int64(p.Timeout))
		}
		planned.Pools, feeds = append(planned.Pools, p.Pool), append(feeds, p.Shadow)
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
	w.planner.Hold = w.holdSplit
	w.copier = shadow.NewCopier(w.planner.PoolOf, feeds)
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

// checks says when the worker does the checks that it has to do.
type checks struct {
	due  int64       // when they are due, ns as stats.Now; 0: there are none, or they are planned
	idle *time.Timer // ends the wait for requests when they are due; nil until first used
}

// planChecks plans the checks after the round's requests.
func (w *Worker) planChecks() {
	w.planner.PlanChecks()
	w.checks.due = 0
}

// beginRound starts the clocks of a round.
func (w *Worker) beginRound() {
	w.reading.first = (w.reading.first + 1) % len(w.conns)
	w.dequeued = stats.Now()
	w.earliest, w.began, w.flushed = w.dequeued, w.dequeued, w.dequeued
	w.record.Begin(w.dequeued)
}

const (
	// checkAfter is how long checks wait for other checks, because together they are cheaper, and for a later store of
	// the key, which ends them.
	checkAfter = time.Millisecond
	// checksAtOnce is the number of checks that do not wait any longer: a worker's buffer takes the replies to so many
	// at once.
	checksAtOnce = 512
	// maxChecks bounds the checks that a worker has to do: with that many it takes no request until there are fewer.
	maxChecks = 4096
)

// next waits for a batch. If there are checks to do it waits only until they are due, and may return nil. open is false
// if the queue is closed and empty.
func (w *Worker) next() (b *request.Batch, open bool) {
	if w.checks.due == 0 {
		return w.queue.Take()
	}
	if b, ok := w.queue.TryTake(); ok {
		return b, true
	}
	wait := time.Duration(w.checks.due - stats.Now())
	if w.checks.idle == nil {
		w.checks.idle = time.NewTimer(wait)
	} else {
		w.checks.idle.Reset(wait)
	}
	return w.queue.TakeUntil(w.checks.idle.C)
}

// take starts a round. It takes what the last round has left of its batches, then waiting batches of the queue, up to
// depth requests, and the checks that are due. It waits for the first batch. false means that the queue is closed and
// empty, and that there is nothing to check.
func (w *Worker) take(ctx context.Context) bool {
	w.backlog, w.later = w.later, w.backlog[:0]
	if len(w.backlog) == 0 && w.planner.Checking() < maxChecks {
		b, open := w.next()
		switch {
		case b != nil:
			w.backlog = append(w.backlog, b)
			if w.options.Depth > 1 {
				// Let readers that are ready enqueue first, so that this round also serves their batches.
				runtime.Gosched()
			}
		case !open && w.planner.Checking() == 0:
			return false
		}
	}
	w.beginRound()
	for _, b := range w.backlog {
		if w.full() {
			w.later = append(w.later, b)
			continue
		}
		w.add(ctx, b)
	}
	for !w.full() && w.slot.active {
		b, ok := w.queue.TryTake()
		if !ok {
			break
		}
		w.add(ctx, b)
	}
	if w.checks.due != 0 && (len(w.parts) == 0 || w.dequeued >= w.checks.due || w.planner.Checking() >= checksAtOnce) {
		w.planChecks()
	}
	return true
}

// add plans the next requests of b: as many as the depth leaves room for and the key locks allow, up to a request that
// another lane has to serve.
func (w *Worker) add(ctx context.Context, b *request.Batch) {
	p, first, before := int32(len(w.parts)), int32(len(w.requests)), w.expected
	w.planner.Part()
	w.updateLoads()
	w.mean = w.meanOf(b.Client)
	reads := false
	for !b.Answered() && w.mine(b) && !w.full() {
		r := &b.Requests[b.Next]
		i := w.planner.Add(r)
		if w.crowded(b, &w.planner.Requests[i]) {
			w.planner.DropLast()
			if i == first {
				w.options.Entrance.Leave()
				b.Client.Stall(nil, b)
				return
			}
			break
		}
		r.Needs = 0
		if reads && w.unrepeatable(b, &w.planner.Requests[i]) {
			w.planner.DropLast()
			break
		}
		reads = reads || r.Has(protocol.Reads)
		w.requests = append(w.requests, pending{part: p})
		w.earliest = min(w.earliest, startedAt(r))
		if !w.admit(ctx, b, i) {
			w.planner.DropLast()
			w.requests = w.requests[:i]
			break
		}
		b.Next++
		r.Dequeued = w.dequeued
		if !w.plan(b, i) || w.expected-before >= portion {
			break
		}
	}
	last := int32(len(w.requests))
	if first == last {
		w.passRest(b)
		return
	}
	w.record.Take(int(last - first))
	w.parts = append(w.parts, part{batch: b, first: first, last: last, left: last - first})
}

// mine reports whether this worker's lane serves b's next request.
func (w *Worker) mine(b *request.Batch) bool { return int(b.Requests[b.Next].Lane) == w.member.Lane }

// passRest leaves the rest of b to this worker's next round, or to the lane that serves its next request.
func (w *Worker) passRest(b *request.Batch) {
	if w.mine(b) && w.slot.active {
		w.later = append(w.later, b)
	} else {
		w.options.Lanes.Pass(b)
	}
}

// plan plans requests[i] of b. further: the next request of its batch may be planned in this round.
func (w *Worker) plan(b *request.Batch, i int32) (further bool) {
	w.updateStates()
	r := &w.planner.Requests[i]
	more := w.takePortion(b, i)
	w.marks.flushAll = w.marks.flushAll || r.IsFlush()
	if len(w.options.Previous) > 0 && r.Changes() {
		w.leaveBehind(i)
	}
	if w.options.Hot != nil && r.Has(protocol.Writes) && !r.Idle() {
		w.barHot(i)
	}
	barrier := w.planner.Plan(i)
	if r.Wanted != 0 {
		w.wantHot(i)
	}
	w.expected += likely(r, w.mean)
	return !barrier && !more
}

// states is what the worker knows of the servers' states.
type states struct {
	seen    uint32 // value of Options.Changes when the planner was told the states
	trouble bool   // some server recovers or is suspect
	closes  int64  // when the first of the open gutters is empty, ns as stats.Now; 0: none is open, or none has an end
}

// updateStates tells the planner the servers' states, if they have changed. It must be called after keys were locked:
// the previous holder of a lock may have found a server to be stale.
func (w *Worker) updateStates() {
	changes := w.options.Changes.Load()
	if changes == w.states.seen && (w.states.closes == 0 || w.dequeued < w.states.closes) {
		return
	}
	w.states.seen, w.states.trouble, w.states.closes = changes, false, 0
	for i, s := range w.options.Servers {
		state := &w.planner.Servers[i]
		state.Readable, state.Stale, state.Suspect = s.Readable(), s.Stale(), s.Suspected()
		state.Recovers = s.Recovers()
		state.Marked = w.barring(i) && s.Marked()
		w.updateRole(i, s, state)
		w.states.trouble = w.states.trouble || state.Recovers || state.Suspect || state.Settles
		w.updateGutter(s, state)
	}
}

// updateLoads tells the planner the servers' loads, if reads depend on these.
func (w *Worker) updateLoads() {
	if !w.measures() {
		return
	}
	for i, s := range w.options.Servers {
		w.planner.Servers[i].Load = s.Load(0)
	}
}

// measures reports whether the duration of calls to each server has to be measured.
func (w *Worker) measures() bool { return w.options.Router.Measures() }

// further takes requests through their next steps, until none has one, or all that have one wait for a server that
// stalls.
func (w *Worker) further(ctx context.Context) {
	for len(w.followUp) > 0 {
		again := w.followUp
		w.followUp, w.following = w.following[:0], again
		w.updateStates()
		w.updateLoads()
		from := len(w.planner.Calls)
		for _, repairs := range []bool{false, true} {
			for _, i := range again {
				if (len(w.planner.Repairs(i)) > 0) == repairs {
					w.planner.Next(i)
				}
			}
		}
		w.send(ctx, from)
		for _, i := range again {
			if !w.planner.Requests[i].Asks() {
				w.settle(i) // the step has no calls
			}
		}
		w.collect(ctx, true)
	}
}

// endRound releases everything that the round has used.
func (w *Worker) endRound() {
	for s, c := range w.conns {
		if err := c.EndRound(); err != nil {
			w.serverFailed(s, err)
		}
	}
	w.unlock()
	if w.options.Hot != nil {
		w.unbarHot()
	}
	w.unpark()
	for i := range w.parts {
		p := &w.parts[i]
		b := p.batch
		answered := b.Answered()
		switch {
		case p.stalled && answered:
			w.options.Entrance.Leave()
			b.Client.Stall(p.rest, nil)
		case p.stalled:
			w.options.Entrance.Leave()
			b.Client.Stall(p.rest, b)
		case !answered:
			w.passRest(b)
		}
		if answered {
			b.Release()
		}
	}
	served := len(w.requests)
	ended := max(w.replied, w.read)
	if ended == 0 {
		ended = stats.Now()
	}
	w.planner.Reset()
	w.round.reset()
	if w.marks.any {
		w.marks = marks{missed: w.marks.missed[:0], flushAll: w.marks.flushAll}
	}
	w.record.Planned(&w.planner.Planned)
	w.planner.Planned = stats.Planned{}
	for pool := range w.planner.Diverted {
		if d := &w.planner.Diverted[pool]; *d != (stats.Diverted{}) {
			w.options.Pools[pool].Diverted.Add(*d)
			*d = stats.Diverted{}
		}
	}
	w.noteWarming()
	if !w.slot.active {
		w.passOn()
	}
	if w.planner.Checking() > 0 && w.checks.due == 0 {
		w.checks.due = ended + int64(checkAfter)
	}
	w.record.Round(served, ended)
}
