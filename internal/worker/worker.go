// Package worker is the pool that serves the queue. A worker works in rounds: it takes up to depth waiting requests, plans
// which servers they need, sends one write per server, collects the replies, and answers each client with one write.
//
// A worker owns one connection to every server, and is the only one to use them. All requests of a round that go to one
// server travel over one connection in the order they were planned, and a batch is planned in the client's order; so a
// request sees the effects of the earlier ones of its connection.
package worker

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/keylock"
	"mcmw/internal/queue"
	"mcmw/internal/replica"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// RequestOptions are what an operator sets about how requests are served. A middleware's Options say what a zero field means.
type RequestOptions struct {
	// Ack says how many replicas of a key must have given an answer to a write for it to be the client's.
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

// Options are what the workers of a pool share; all fields are required.
type Options struct {
	RequestOptions
	Lanes   *queue.Lanes
	Router  *route.Router
	Locks   *keylock.Table
	Servers []*backend.Server // in the router's order
	// Entrance is told when a batch leaves the lanes.
	Entrance *queue.Entrance
	// Active bounds how many workers serve the lane at a time; nil for a patient worker.
	Active *Semaphore
	// Detours is the first of the lanes, one per server, for what needs a server in trouble.
	Detours int32
	// Troubled counts the servers that are suspect or stale.
	Troubled *atomic.Int32
	// Previous are the placements before this one, the servers in their routers' order, nil where they are gone: such a server may
	// hold old values of keys that live elsewhere now, and must be told of their writes.
	Previous []Placement
	// MaxValue is the size of the largest value that servers may answer with, bytes. Larger ones are not held.
	MaxValue int
	// StatsText writes the middleware's own statistics, as `stats` answers them.
	StatsText func(dst []byte) []byte
	Log       *slog.Logger
}

// Placement is where keys live: a router and its servers.
type Placement struct {
	Router  *route.Router
	Servers []*backend.Server
}

// Worker is one member of the pool. Everything in it belongs to the goroutine that calls Run.
type Worker struct {
	options      Options
	queue        *queue.Queue
	lane         int32 // of queue
	home         int   // the server whose reads, or whose detour, this lane serves; -1: none in particular
	owner        int32 // of key locks: the worker's number, from 1
	patient      bool  // serves a detour: only such a worker waits for stalled servers and their locks
	active       bool  // holds a slot of Options.Active; always true of a patient worker
	parked       bool  // the round waits for a server that stalls
	record       *stats.Worker
	conns        []*backend.Conn // by server
	onStall      []func()        // by server: calls stalled
	turn         int             // counts the parts that read, to spread them over the servers
	first        int             // the server whose replies are read first
	exclude      []bool          // by server: not to be read from, while a read is planned again; nil otherwise
	disagreement limiter         // of the log line about replicas that disagree

	// The round. All slices keep their memory from round to round.
	dequeued int64 // ns
	earliest int64 // when the first of the requests was created, ns
	began    int64 // when the first of the requests had the locks it needs, ns
	sent     int64 // ns
	flushed  int64 // when the requests' present steps were sent, ns
	parts    []part
	requests []pending
	calls    []call
	fifo     [][]int32 // by server: calls in the order sent
	head     []int     // by server: the first in fifo that waits for its reply
	items    []item
	ready    []int32 // parts that are complete and not answered yet
	followUp []int32 // requests whose step is done and which need another
	arrivals int     // replies so far
	expected int     // bytes that the values asked for are likely to be
	held     int     // bytes of values that came and that no client has taken yet
	locks    map[uint32]stripe
	backlog  []*request.Batch // to be served before what is in the queue
	later    []*request.Batch // to be served in the next round

	unmarked []int32 // servers that missed writes, and a restart may not find that
	flushAll bool    // a flush_all is under way

	reads    partReads // of the part that is being planned
	partRead stripeSet // the keys that it reads, where requests follow

	valueSize   valueSize
	partChanges stripeSet // scratch of mayRepeat

	// Scratch of planning and answering.
	lines    []byte
	keyCalls []int32
	holders  []int
	servers  []int
	all      []int   // every server
	loads    []int64 // by server: what it had to do when the part's reads were planned
	order    []int   // the servers in the order their replies are read
	failed   []bool
	stripes  []uint32
	answers  []replica.Answer
	answered []int32 // the calls that answers stand for
	repairs  []int
	out      wire.Gather
	aside    wire.Gather // of what is not for the client yet
}

// part is what a round serves of one batch.
type part struct {
	batch       *request.Batch
	first, last int32 // requests[first:last]
	left        int32 // requests that are not complete
	stalled     bool  // the client didn't take the whole reply
	rest        []byte
	held        int // bytes of values that came
	repeat      repeat
}

// pending is a request that this round serves.
type pending struct {
	*request.Request
	part        int32
	first, last int32  // calls[first:last], of the current step
	left        int32  // calls without a reply; one more until everything is sent
	key         []byte // the first, as servers know it
	keyCalls    int32  // keyCalls[keyCalls+i] is the call that asks for key i; -1: calls hold consecutive keys
	stripe      uint32 // of the key of a replicated write
	locked      bool   // the stripe is held for this write
	done        bool   // no further step follows
	expired     bool   // there is no time left to wait for a suspect
	again       bool   // part of the reply was not asked for yet, or was dropped
	// all holds the keys, allKeys of them, of which Keys is the first portion; nil if that is all.
	all     []byte
	allKeys int
	step    step
	// Of a read that is retried: the number of retries, and the range of calls that holds those of earlier attempts, mixed with other
	// requests'.
	retries               int
	retryFirst, retryLast int32
	// chosen is the call whose reply is the client's; -1 while that is open.
	chosen int32
	// repair holds the servers that the repair step deletes the key on: repairs[repair:repairEnd].
	repair, repairEnd int32
	// text, if not empty, is the reply, whatever the servers answer.
	text string
}

// Member is a worker's role in the pool.
type Member struct {
	Number int // from 0, of all workers that share Options.Locks
	Lane   int
	// Home is the server whose reads the lane holds, or whose detour it is; -1 if it is no such lane.
	Home    int
	Patient bool // it serves a detour
	StandIn bool // it holds no slot of Options.Active at first
}

// New returns a worker.
func New(o Options, m Member) *Worker {
	w := &Worker{
		options: o, queue: o.Lanes.Queue(m.Lane), lane: int32(m.Lane), home: m.Home, owner: int32(m.Number + 1), patient: m.Patient,
		active: !m.StandIn, turn: m.Number,
		fifo: make([][]int32, len(o.Servers)), head: make([]int, len(o.Servers)), locks: make(map[uint32]stripe),
		loads: make([]int64, len(o.Servers)), failed: make([]bool, len(o.Servers)),
	}
	patience := w.oneTurn()
	for i, s := range o.Servers {
		w.all = append(w.all, i)
		w.conns = append(w.conns, backend.NewConn(s, patience))
		w.onStall = append(w.onStall, func() { w.stalled(i) })
	}
	return w
}

// Connect connects to the servers that the worker will need most, but for those that are down; to none if it may never be
// needed. It returns the failures.
func (w *Worker) Connect(ctx context.Context) []*backend.Error {
	if w.patient || !w.active {
		return nil
	}
	var failed []*backend.Error
	for s, c := range w.conns {
		if (w.home >= 0 && s != w.home) || w.options.Servers[s].Down() {
			continue
		}
		if err := c.Connect(ctx, 0, nil); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// Run serves the queue until it is closed and empty, and counts in record. When ctx ends, connecting to servers is given
// up.
func (w *Worker) Run(ctx context.Context, record *stats.Worker) {
	w.record = record
	for {
		if !w.active {
			w.options.Active.acquire()
			w.active = true
		}
		if !w.take(ctx) {
			break
		}
		w.serve(ctx)
		w.endRound()
	}
	if !w.patient {
		w.options.Active.release() // a stand-in then sees that the queue is closed
	}
	for _, c := range w.conns {
		c.Close()
	}
}

// take starts a round: what the last round left of its batches, then what waits in the queue, up to depth requests. It
// waits for the first batch; false means that the queue is closed and empty.
func (w *Worker) take(ctx context.Context) bool {
	w.backlog, w.later = w.later, w.backlog[:0]
	if len(w.backlog) == 0 {
		b, ok := w.queue.Take()
		if !ok {
			return false
		}
		if w.options.Depth > 1 {
			// Let readers that are ready enqueue first, so that this round serves their batches, too.
			runtime.Gosched()
		}
		w.backlog = append(w.backlog, b)
	}
	w.dequeued = stats.Now()
	w.earliest, w.began, w.flushed = w.dequeued, w.dequeued, w.dequeued
	w.record.Begin(w.dequeued)
	for _, b := range w.backlog {
		if w.full() {
			w.later = append(w.later, b)
			continue
		}
		w.add(ctx, b)
	}
	for !w.full() && w.active {
		b, ok := w.queue.TryTake()
		if !ok {
			break
		}
		w.add(ctx, b)
	}
	return true
}

// add plans the next requests of b, as many as the depth leaves room for and the key locks allow, up to one that another
// lane has to serve.
func (w *Worker) add(ctx context.Context, b *request.Batch) {
	p := int32(len(w.parts))
	first := int32(len(w.requests))
	w.reads = partReads{}
	w.partRead.clear()
	before := w.expected
	for !b.Answered() && b.Requests[b.Next].Lane == w.lane && !w.full() {
		i := int32(len(w.requests))
		r := &b.Requests[b.Next]
		w.requests = append(w.requests, pending{
			Request: r, part: p, keyCalls: -1, chosen: -1, left: 1,
			first: int32(len(w.calls)), last: int32(len(w.calls)),
		})
		w.requests[i].key = r.Key(nil)
		if w.crowded(b, r) {
			w.requests = w.requests[:i]
			if i == first {
				w.options.Entrance.Leave()
				b.Client.Stall(nil, b)
				return
			}
			break
		}
		w.earliest = min(w.earliest, w.requests[i].waitsSince())
		answered := w.expire(i)
		if w.patient && !answered {
			w.awaitReadable(ctx, i)
		}
		if !answered && (w.detour(b, i) || !w.admit(b, i)) {
			w.requests = w.requests[:i]
			break
		}
		if i == 0 && w.options.Router.N() > 1 {
			w.began = stats.Now()
			answered = answered || w.expire(i) // it may have waited for the locks
			w.flushed = w.began
		}
		b.Next++
		r.Dequeued = w.dequeued
		if !answered && w.plan(ctx, i) {
			break
		}
		w.expected += w.likely(r)
		if w.requests[i].all != nil || w.expected-before >= portion {
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

// leaveFor hands the rest of b to whoever serves its next request: this worker's next round, or another lane.
func (w *Worker) leaveFor(b *request.Batch) {
	if b.Requests[b.Next].Lane == w.lane && w.active {
		w.later = append(w.later, b)
	} else {
		w.options.Lanes.Pass(b)
	}
}

// serve sends the round's calls, collects their replies and answers the clients.
func (w *Worker) serve(ctx context.Context) {
	w.flush()
	w.sent = stats.Now()
	w.flushed = w.sent
	for i := range w.requests {
		r := &w.requests[i]
		r.Sent, r.Received = w.sent, w.sent
		w.arrived(int32(i))
	}
	w.collect(true)
	w.further(ctx)
	for w.waits() {
		w.collect(false)
		w.further(ctx)
	}
	w.answerReady()
}

// waits reports whether calls wait for servers that stalled.
func (w *Worker) waits() bool {
	for s := range w.conns {
		if len(w.waiting(s)) > 0 {
			return true
		}
	}
	return false
}

// further takes requests through their next steps, until none has one or all that have wait for a server that stalls.
func (w *Worker) further(ctx context.Context) {
	for len(w.followUp) > 0 {
		again := w.followUp
		w.followUp = nil
		// A repair comes after what is copied in the same pass: what it deletes must stay deleted.
		for _, repairs := range []bool{false, true} {
			for _, i := range again {
				if (w.requests[i].step == stepRepair) == repairs {
					w.planStep(ctx, i)
				}
			}
		}
		w.flush()
		w.flushed = stats.Now()
		for _, i := range again {
			w.arrived(i)
		}
		w.collect(true)
	}
}

// flush writes to every server what was planned for it.
func (w *Worker) flush() {
	for s, c := range w.conns {
		if c.Out.Len() == 0 {
			continue
		}
		if err := c.Flush(); err != nil {
			w.serverFailed(s, err)
		}
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
	w.unpark()
	served := len(w.requests)
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
	clear(w.parts)
	clear(w.requests)
	clear(w.calls)
	w.parts, w.requests, w.calls, w.items = w.parts[:0], w.requests[:0], w.calls[:0], w.items[:0]
	w.keyCalls, w.repairs = w.keyCalls[:0], w.repairs[:0]
	w.lines = w.lines[:0]
	w.arrivals, w.expected, w.held = 0, 0, 0
	if !w.active {
		w.passOn()
	}
	w.record.Round(served, stats.Now())
}
