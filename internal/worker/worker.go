// Package worker is the pool that serves the queue. A worker works in rounds: it takes up to depth waiting requests and plans them (package
// plan), sends one write per server, collects the replies, takes requests through further steps, and answers each client with one write.
//
// A worker owns one connection to every server, and is the only one to use them. All requests of a round that go to one
// server travel over one connection in the order they were planned, and a batch is planned in the client's order; so a
// request sees the effects of the earlier ones of its connection.
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

// RequestOptions are what an operator sets about how requests are served. A middleware's Options say what a zero field means.
type RequestOptions struct {
	// Ack says how many replicas of a key must have given an answer to a write for it to be the client's. Of several pools each has its own.
	Ack replica.Ack
	// Sharded splits a multi-get over all servers that hold its keys.
	Sharded bool
	// Depth is how many waiting requests a worker takes at a time and pipelines to its servers; 1 is the synchronous
	// worker: one request in service.
	Depth int
	// Timeout is how long a request may take when servers do not answer. A read that can be answered by several servers is
	// tried on a second after half of it.
	Timeout time.Duration
	// StallAfter is how long a server may owe a reply before requests that don't need it stop waiting for it: it is suspect
	// until it answers. 0: never.
	StallAfter time.Duration
	// GetErrorMiss answers a read that no server could answer with a miss instead of an error.
	GetErrorMiss bool
}

// Options are what the workers of a pool share; all fields are required, but for those of which it says what nil means.
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
	// Active holds a token for each free slot of the lane, which has more workers than slots. Workers -> workers; its capacity is the
	// number of slots; never closed. nil for a patient worker.
	Active chan struct{}
	// Detours is the first of the lanes, one per server, for what needs a server in trouble.
	Detours int32
	// Previous are the placements before this one, the servers in their routers' order, nil where they are gone: such a server may
	// hold old values of keys that live elsewhere now, and must be told of their writes.
	Previous []Placement
	// MaxValue is the size of the largest value that servers may answer with, bytes. Larger ones are not held.
	MaxValue int
	// Pools are the properties of the router's, by number.
	Pools []Pool
	// Hot, if not nil, holds values of hot keys, and is told which keys are written.
	Hot *hotkeys.Values
	// StatsText writes the middleware's own statistics, as `stats` answers them.
	StatsText func(dst []byte) []byte
	Log       *slog.Logger
}

// Pool is what a pool's requests are served by.
type Pool struct {
	plan.Pool
	// Barring: a write that a server missed is answered with success only if nobody reads that server.
	Barring bool
	// Timeout is RequestOptions.Timeout for the pool's keys and servers; 0: that one.
	Timeout time.Duration
	// Lease says until when the pool's servers may be read; nil: for ever.
	Lease *backend.Records
	// Shadow takes copies of the pool's requests; nil: nobody does.
	Shadow *shadow.Feed
	// Diverted counts what goes to the pool's gutter; required if it has one.
	Diverted *stats.Gutter
	// Warming counts, and Lacks is told, what the pool that is warmed up from this one was asked for, and lacks; required if there is one.
	Warming *stats.WarmUp
	Lacks   func(key []byte)
}

// Placement is where keys live: a router and its servers.
type Placement struct {
	Router  *route.Router
	Servers []*backend.Server
}

// Member is a worker's role in the pool.
type Member struct {
	Number int // from 0, of all workers that share Options.Locks
	Lane   int
	// Home is the server whose reads the lane holds, or whose detour it is; -1 if it is no such lane.
	Home    int
	Patient bool // it serves a detour: only such a worker waits for stalled servers and their locks
	StandIn bool // it starts without a slot of Options.Active
}

// Worker is one member of the pool. Everything in it belongs to the goroutine that calls Run.
type Worker struct {
	// Static after construction, but for what these hold.
	options Options
	member  Member
	queue   *queue.Queue
	record  *stats.Worker
	conns   []*backend.Conn // by server
	planner *plan.Planner
	leases  []*backend.Records // of the pools that have one
	// timeouts has for each server the timeout of its pool, ns.
	timeouts []int64

	// The round, and what outlives it.
	round
	outstanding []outstanding       // by server: what is not answered
	locks       map[uint32]heldLock // by stripe: the key locks that the worker holds
	backlog     []*request.Batch    // to be served before what is in the queue
	later       []*request.Batch    // to be served in the next round
	slot        slot
	marks       marks
	barred      barred
	valueSize   valueSize
	states      states
	checks      checks
	reading     reading
	out         wire.Gather
	aside       wire.Gather    // of what is not for the client yet
	copier      *shadow.Copier // nil: no pool has a shadow

	disagreement limiter // of the log line about replicas that disagree
}

// reading is the order in which the servers' replies are read.
type reading struct {
	first int   // the server that would be the first
	order []int // scratch: those that owe replies
}

// round is what a worker knows of the requests that it serves. Times are ns, as stats.Now.
type round struct {
	dequeued int64
	earliest int64 // when the first of the requests was created
	began    int64 // when the first of the requests had the locks it needs
	sent     int64
	flushed  int64 // when the requests' present steps were sent
	read     int64 // when a server's replies were read last
	replied  int64 // when a client was answered last; 0: none was
	parts    []part
	requests []pending // by the planner's numbers
	ready    []int32   // parts that are complete and not answered yet
	followUp []int32   // requests whose step is done and which need another
	// following are those whose next step is being planned.
	following []int32
	expected  int  // bytes that the values asked for are likely to be
	held      int  // bytes of values that came and that no client has taken yet
	gathers   bool // a value comes in chunks
}

// reset ends the round. All slices keep their memory.
func (r *round) reset() {
	clear(r.parts)
	clear(r.requests)
	*r = round{parts: r.parts[:0], requests: r.requests[:0], ready: r.ready[:0], followUp: r.followUp[:0], following: r.following[:0]}
}

// part is what a round serves of one batch.
type part struct {
	batch       *request.Batch
	first, last int32 // requests[first:last]
	left        int32 // requests that are not complete
	stalled     bool  // the client didn't take the whole reply
	rest        []byte
	held        int  // bytes of values that came
	judged      bool // repeatable says whether the part's reads can be repeated behind the round
	repeatable  bool
}

// pending is a request of the round, besides what the planner knows of it.
type pending struct {
	part    int32
	stripe  uint32 // of the key of a replicated write
	locked  bool   // the stripe is held for this write
	done    bool   // no further step follows
	expired bool   // there is no time left to wait for a suspect
	wanted  bool   // readers want the reply, under token
	token   hotkeys.Token
}

// New returns a worker.
func New(o Options, m Member) *Worker {
	w := &Worker{
		options: o, member: m, queue: o.Lanes.Queue(m.Lane), slot: slot{active: !m.StandIn},
		outstanding: make([]outstanding, len(o.Servers)), locks: make(map[uint32]heldLock),
	}
	planned := plan.Options{
		Router: o.Router, Stripe: o.Locks.Stripe, Locked: func(stripe uint32) bool { return o.Locks.Held(stripe, w.owner()) }, Home: m.Home, Sharded: o.Sharded, GetErrorMiss: o.GetErrorMiss,
		MaxValue: o.MaxValue, Join: !m.Patient, // the requests of a detour have each a time of its own
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
		if p.Several && planned.Versions == nil {
			planned.Versions = plan.RandomVersions()
		}
		if p.Lease != nil {
			w.leases = append(w.leases, p.Lease)
		}
	}
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

// owner is the worker's number among those that hold key locks.
func (w *Worker) owner() int32 { return int32(w.member.Number + 1) }

// Connect connects to the servers that the worker will need most, but for those that are down; to none if it may never be
// needed. It returns the failures.
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

// Run serves the queue until it is closed and empty, and counts in record. When ctx ends, connecting to servers is given
// up.
func (w *Worker) Run(ctx context.Context, record *stats.Worker) {
	w.record = record
	for w.awaitTurn(ctx); w.take(ctx); w.awaitTurn(ctx) {
		w.serve(ctx)
	}
	w.releaseSlot() // a stand-in then sees that the queue is closed
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

// awaitTurn waits until the worker may serve its lane. What it has to check it does not leave until then.
func (w *Worker) awaitTurn(ctx context.Context) {
	for !w.slot.active && w.planner.Checking() > 0 {
		w.beginRound()
		w.planChecks()
		w.serve(ctx)
	}
	w.acquireSlot()
}

// checks is when the worker does what it has to check.
type checks struct {
	due  int64       // ns as stats.Now; 0: there is nothing to check
	idle *time.Timer // of a worker that waits for requests meanwhile; nil until it does
}

// planChecks puts what is to be checked behind the round's requests.
func (w *Worker) planChecks() {
	w.planner.PlanChecks()
	w.checks.due = 0
}

func (w *Worker) beginRound() {
	w.reading.first = (w.reading.first + 1) % len(w.conns)
	w.dequeued = stats.Now()
	w.earliest, w.began, w.flushed = w.dequeued, w.dequeued, w.dequeued
	w.record.Begin(w.dequeued)
}

const (
	// checkAfter is how long checks wait for others, with which they are cheaper, and for a later store of the key, which ends them.
	checkAfter = time.Millisecond
	// checksAtOnce is how many don't wait any longer: replies to so many are read into a worker's buffer at once.
	checksAtOnce = 512
	// maxChecks bounds the checks that a worker has to do: beyond it no request is taken until there are less.
	maxChecks = 4096
)

// next waits for a batch. With checks to do it waits until they are due, and may return none. open is false if the queue is closed and empty.
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

// take starts a round: what the last round left of its batches, then what waits in the queue, up to depth requests, and checks that are
// due. It waits for the first batch; false means that the queue is closed and empty, and there is nothing to check.
func (w *Worker) take(ctx context.Context) bool {
	w.backlog, w.later = w.later, w.backlog[:0]
	if len(w.backlog) == 0 && w.planner.Checking() < maxChecks {
		b, open := w.next()
		switch {
		case b != nil:
			w.backlog = append(w.backlog, b)
			if w.options.Depth > 1 {
				// Let readers that are ready enqueue first, so that this round serves their batches, too.
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

// add plans the next requests of b, as many as the depth leaves room for and the key locks allow, up to one that another
// lane has to serve.
func (w *Worker) add(ctx context.Context, b *request.Batch) {
	p, first, before := int32(len(w.parts)), int32(len(w.requests)), w.expected
	w.planner.Part()
	w.updateLoads()
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
		w.requests = append(w.requests, pending{part: p})
		w.earliest = min(w.earliest, waitsSince(r))
		if !w.admit(ctx, b, i) {
			w.planner.DropLast()
			w.requests = w.requests[:i]
			break
		}
		b.Next++
		r.Dequeued = w.dequeued
		if !w.plan(i) || w.expected-before >= portion {
			break
		}
	}
	last := int32(len(w.requests))
	if first == last {
		w.leaveFor(b)
		return
	}
	w.record.Take(int(last - first))
	w.parts = append(w.parts, part{batch: b, first: first, last: last, left: last - first})
}

// mine reports whether this lane serves b's next request.
func (w *Worker) mine(b *request.Batch) bool { return int(b.Requests[b.Next].Lane) == w.member.Lane }

// leaveFor hands the rest of b to whoever serves its next request: this worker's next round, or another lane.
func (w *Worker) leaveFor(b *request.Batch) {
	if w.mine(b) && w.slot.active {
		w.later = append(w.later, b)
	} else {
		w.options.Lanes.Pass(b)
	}
}

// plan plans requests[i]. further: what follows it in its batch may be planned in this round.
func (w *Worker) plan(i int32) (further bool) {
	w.updateStates()
	r := &w.planner.Requests[i]
	more := w.takePortion(i)
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
	w.expected += w.likely(r)
	return !barrier && !more
}

// states is what the worker knows of the servers' states.
type states struct {
	seen    uint32 // Options.Changes, when the planner was told the states
	trouble bool   // a server is stale or suspect
	closes  int64  // when the gutter will hold nothing of one of the servers any more, ns as stats.Now; 0: of none
}

// updateStates tells the planner the servers' states, where they have changed. What is locked must be so before: who held the lock until then may
// have found a server to be stale.
func (w *Worker) updateStates() {
	changes := w.options.Changes.Load()
	if changes == w.states.seen && (w.states.closes == 0 || w.dequeued < w.states.closes) {
		return
	}
	w.states.seen, w.states.trouble, w.states.closes = changes, false, 0
	for i, s := range w.options.Servers {
		state := &w.planner.Servers[i]
		state.Readable, state.Stale, state.Suspect = s.Readable(), s.Stale(), s.Suspected()
		w.states.trouble = w.states.trouble || state.Stale || state.Suspect
		w.updateGutter(s, state)
	}
}

// updateLoads tells the planner the servers' loads, if reads depend on them.
func (w *Worker) updateLoads() {
	if !w.measures() {
		return
	}
	for i, s := range w.options.Servers {
		w.planner.Servers[i].Load = s.Load(0)
	}
}

// measures reports whether what a call takes on each server is needed.
func (w *Worker) measures() bool { return w.options.Router.Measures() }

// further takes requests through their next steps, until none has one or all that have wait for a server that stalls.
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
				w.settle(i) // the step has turned out to ask for nothing
			}
		}
		w.collect(ctx, true)
	}
}

// endRound releases everything that the round used.
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
			w.leaveFor(b)
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
	w.record.Agreed(&w.planner.Agreement)
	w.planner.Agreement = stats.Agreement{}
	w.record.Joined(w.planner.Joined)
	w.planner.Joined = 0
	w.record.SplitValues(&w.planner.Large)
	w.planner.Large = stats.Large{}
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
