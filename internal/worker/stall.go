package worker

import (
	"context"
	"time"

	"mcmw/internal/marker"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// A server that stalls must not hold up requests that don't need it.
//
//	lane ---> worker ---> waits for a server longer than Options.StallAfter (stalled):
//	            |           the server is suspect: reads that wait for it go to other servers (abandon),
//	            |           requests that the worker has not begun go to other workers (passOn), key locks of completed writes are freed (releaseDone),
//	            |           key locks that it keeps are parked, and a stand-in takes its slot at the lane (slot),
//	            |           and writes that others have carried out do without it (doWithout)
//	            |
//	            '-- needs a suspect, or a parked lock (admit) ---> detour: a lane per server, served by one patient worker
//
// A patient worker waits until the server answers, or has lost all keys that it missed writes of, or the request's time
// ends. So each lane is served by as many workers as before, however many servers stall.

// slot says whether the worker serves its lane.
type slot struct {
	active bool // it holds a slot of Options.Active; always true for a patient worker
	parked bool // the round waits for a server that stalls
}

// acquireSlot waits until the worker may serve its lane.
func (w *Worker) acquireSlot() {
	if !w.slot.active {
		<-w.options.Active
		w.slot.active = true
	}
}

// releaseSlot lets another worker serve the lane.
func (w *Worker) releaseSlot() {
	if !w.member.Patient {
		w.slot.active = false
		w.options.Active <- struct{}{} // never waits
	}
}

// stalled is called when the worker has waited too long for server s. It declares the server suspect, so that requests
// that can use another server do so; passes the requests that the round has not begun to other workers; and lets
// another worker serve the lane.
func (w *Worker) stalled(s int) {
	w.options.Servers[s].Suspect()
	w.passOn()
	if w.slot.parked {
		return
	}
	w.slot.parked = true
	w.options.Locks.Park(w.owner(), s)
	for i := range w.requests {
		w.releaseDone(&w.requests[i])
	}
	if w.slot.active {
		w.releaseSlot()
	}
}

// unpark undoes, at the end of the round, the parking that stalled did.
func (w *Worker) unpark() {
	if w.slot.parked {
		w.slot.parked = false
		w.options.Locks.Unpark(w.owner())
	}
}

// passOn gives other workers what this one would serve in its next round.
func (w *Worker) passOn() {
	for _, b := range w.later {
		w.options.Lanes.Pass(b)
	}
	clear(w.later)
	w.later = w.later[:0]
}

// redirect sets the lane of b's next request to the detour of server s.
func (w *Worker) redirect(b *request.Batch, s int) {
	b.Requests[b.Next].Lane = w.options.Detours + int32(s)
}

// abandon sends reads that wait for server s, which stalls, to other servers that can answer them. If nothing else
// waits for s, its connection is closed.
func (w *Worker) abandon(s int) {
	needed := false
	stalled := w.conns[s].Stalled()
	o := &w.outstanding[s]
	for _, n := range o.waiting() {
		switch c := &w.planner.Calls[n]; {
		case c.Failed():
		case w.planner.Movable(n):
			w.noAnswer(n, stalled)
		default:
			needed = true
		}
	}
	o.dropUnsent(func(n int32) bool { return w.planner.Calls[n].Failed() })
	switch {
	case needed:
	case w.conns[s].Connecting():
		o.forget() // the next round may need the connection
	default:
		w.giveUp(s)
	}
}

// doWithout ends what waits for server s, a suspect, if all of it can be answered without s: writes that other servers
// have carried out, and checks. They count as missed there, and s is marked. Enough other servers must be able to hold
// the mark. It returns false if it has ended nothing.
func (w *Worker) doWithout(s int) bool {
	if !w.mayDoWithout(s) {
		return false
	}
	o := &w.outstanding[s]
	w.conns[s].Retire() // before a write is noted as missed; see serverFailed
	stalled := w.conns[s].Stalled()
	for _, n := range o.waiting() {
		if !w.planner.Calls[n].Failed() {
			w.noAnswer(n, stalled)
		}
	}
	w.giveUp(s)
	return true
}

// mayDoWithout reports whether doWithout would end what waits for server s.
func (w *Worker) mayDoWithout(s int) bool {
	if !w.options.Servers[s].Suspected() || !w.barring(s) || !w.canMark(s) {
		return false
	}
	client := false
	for _, n := range w.outstanding[s].waiting() {
		c := &w.planner.Calls[n]
		if !c.Failed() && !w.planner.Dispensable(n) {
			return false
		}
		client = client || !c.Failed() && !c.IsCheck()
	}
	return client || w.member.Patient // nobody waits for checks alone, unless requests wait for the patient worker
}

// canMark reports whether the pool of server s has enough servers that answer for a mark.
func (w *Worker) canMark(s int) bool {
	pool := w.options.Router.Of(s)
	answer := 0
	for _, server := range w.options.Servers[pool.Base():][:len(pool.Servers())] {
		if !server.Down() && !server.Suspected() {
			answer++
		}
	}
	return answer >= marker.Witnesses(len(pool.Servers())) || w.options.Pools[pool.Number()].Lease.Agreed()
}

// awaitReadable waits, on a detour, until it is known which server decides requests[i], and the servers from which it
// must be read may be read again. If other requests are in the round, which must not wait, it returns false instead.
func (w *Worker) awaitReadable(ctx context.Context, i int32) bool {
	for s := w.planner.Undecided(i); s >= 0 && w.untilExpiry(i) > 0 && ctx.Err() == nil; s = w.planner.Undecided(i) {
		if i > 0 {
			return false
		}
		w.options.Servers[s].AwaitRole(ctx, time.Now().Add(w.untilExpiry(i)))
		w.updateStates()
	}
	if r := &w.planner.Requests[i]; !r.MustRead() {
		return true
	}
	// One after the other: the keys of a retrieval may be on several.
	for s := w.planner.Troubled(i); s >= 0 && w.options.Servers[s].Recovers() && w.untilExpiry(i) > 0 &&
		ctx.Err() == nil; s = w.planner.Troubled(i) {
		if i > 0 {
			return false
		}
		w.options.Servers[s].AwaitReadable(ctx, time.Now().Add(w.untilExpiry(i)))
		w.updateStates()
	}
	return true
}

// untilExpiry returns how long requests[i] may go on waiting before too little of its time is left to ask a server in
// trouble.
func (w *Worker) untilExpiry(i int32) time.Duration {
	timeout := w.timeout(i)
	return time.Duration(timeout - 2*timeout/reserve - (stats.Now() - startedAt(w.requests[i].Request)))
}

// expire marks a request of a detour whose time has ended: its calls to suspects fail unsent, and count as writes that
// these missed.
func (w *Worker) expire(i int32) {
	if w.member.Patient && w.untilExpiry(i) <= 0 {
		w.requests[i].expired = true
	}
}
