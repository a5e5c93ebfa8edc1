package worker

import (
	"context"
	"runtime"
	"time"

	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

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
	*request.Request
	part    int32
	stripe  uint32 // of the key of a replicated write
	locked  bool   // the worker holds the stripe for this write
	done    bool   // it has no further step
	expired bool   // no time is left to wait for a suspect
	wanted  bool   // readers want the reply, with token
	replyAt int    // where the reply begins in Worker.out
	token   hotkeys.Token
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

// beginRound starts the clocks of a round.
func (w *Worker) beginRound() {
	w.reading.first = (w.reading.first + 1) % len(w.conns)
	w.dequeued = stats.Now()
	w.earliest, w.began, w.flushed = w.dequeued, w.dequeued, w.dequeued
	w.record.Begin(w.dequeued)
}

// next waits for a batch. If there are checks to do it waits only until they are due, and may return nil. open is false
// if the queue is closed and empty.
func (w *Worker) next() (b *request.Batch, open bool) {
	if w.checks.due == 0 {
		b, open = <-w.queue
		return b, open
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
		if w.crowded(b, r) {
			w.planner.DropLast()
			if i == first {
				w.options.Entrance.Leave()
				b.Client.Stall(nil, b)
				return
			}
			break
		}
		r.Needs = 0
		if reads && r.Has(protocol.Writes) && w.unrepeatable(b, r) {
			w.planner.DropLast()
			break
		}
		reads = reads || r.Has(protocol.Reads)
		w.requests = append(w.requests, pending{})
		w.requests[i].Request, w.requests[i].part = r, p
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
	w.parts = append(w.parts, part{})
	added := &w.parts[p]
	added.batch, added.first, added.last, added.left = b, first, last, last-first
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
	return !barrier && !more && !r.Expires()
}

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
				w.endStep(i) // the step has no calls
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
	w.countPools()
	if !w.slot.active {
		w.passOn()
	}
	if w.planner.Checking() > 0 && w.checks.due == 0 {
		w.checks.due = ended + int64(checkAfter)
	}
	w.record.Round(served, ended)
}
