package worker

import (
	"math"

	"mcmw/internal/plan"
	"mcmw/internal/request"
)

// What a client asks for can be of any size, and the client slow to take it. So a retrieval whose values are likely to be large is
// asked for in portions: it ends its part, the client gets the values that came, and its batch goes back to be served from the
// next key on, once the client has taken them. What comes beyond expectation is dropped behind maxHeld and asked for again in
// the same way. A request before such a one in the round was answered, one behind it has to wait: a read is asked for again,
// of anything else the reply is kept.
const (
	// portion is how many bytes of values a connection asks for at a time, more or less.
	portion = 1 << 20
	// maxHeld is how many bytes of values a round asks for, and how many that no client has taken it keeps; the first value always.
	maxHeld = 4 << 20
	// maxHeldStuck is the same where a read can't be repeated, because its connection writes the key behind it in the same round, and of what is
	// looked back at to be copied. Beyond it the request fails; what isn't copied is deleted on the other servers.
	maxHeldStuck = 16 << 20
)

// textNoMemory is memcached's.
const textNoMemory = "SERVER_ERROR out of memory writing get response\r\n"

// valueSize is a moving average of what values take in replies, bytes, times valueWeight.
type valueSize int

const valueWeight = 64

func (s *valueSize) add(n int) { *s += valueSize(n) - *s/valueWeight }
func (s *valueSize) mean() int { return int(*s / valueWeight) }

// full reports whether the round has as much to do as it may.
func (w *Worker) full() bool {
	return len(w.requests) == w.options.Depth || w.expected >= maxHeld || w.planner.Checking() >= maxChecks
}

// likely returns how many bytes of values r is likely to bring.
func (w *Worker) likely(r *plan.Request) int {
	switch {
	case r.Answer != "":
		return 0
	case r.Grows():
		return len(r.Data) + w.valueSize.mean()
	case !r.Command.BringsValues():
		return 0
	}
	return r.NumKeys * w.valueSize.mean()
}

// crowded reports whether r has to wait until clients have read what they asked for.
func (w *Worker) crowded(b *request.Batch, r *plan.Request) bool {
	return max(w.likely(r), int(r.Needs)) > request.ReadSize && b.Client.Crowded()
}

// takePortion leaves requests[i] as many keys as it may ask for at a time, and reports whether there are more.
func (w *Worker) takePortion(i int32) (more bool) {
	r := &w.planner.Requests[i]
	return r.Command.IsRetrieval() && r.NumKeys > 1 && w.planner.Limit(i, max(1, portion/(w.valueSize.mean()+1)))
}

// keep decides whether a value of n bytes that came for a call is kept, and counts it.
func (w *Worker) keep(call int32, n int) bool {
	c := &w.planner.Calls[call]
	if c.LooksBack() && !w.planner.Requests[c.Request].Grows() {
		return true // a number
	}
	w.valueSize.add(n)
	if c.LooksBack() {
		return w.holdLook(n)
	}
	if c.Dropped || w.planner.Requests[c.Request].Answer != "" {
		return false
	}
	return w.holdShared(c.Request, n)
}

// holdShared is hold for requests[i] and those that have joined it. Of these it leaves out those that there is no memory for.
func (w *Worker) holdShared(i int32, n int) bool {
	if !w.hold(i, n) {
		return false
	}
	for j := w.planner.JoinedBehind(i); j >= 0; j = w.planner.JoinedBehind(j) {
		if !w.hold(j, n) {
			w.planner.LeaveOut(j)
		}
	}
	return true
}

// hold decides whether a value of n bytes is kept for requests[i], and counts it. One that several requests share counts for each, because each
// client may leave it unread.
func (w *Worker) hold(i int32, n int) bool {
	p := &w.parts[w.requests[i].part]
	if w.held > 0 && w.held+n > maxHeld {
		w.answerReady()
	}
	if w.held > 0 && w.held+n > maxHeld {
		if w.mayRepeat(p) {
			return false
		}
		if w.held+n > maxHeldStuck {
			w.planner.Requests[i].Fail(textNoMemory)
			return false
		}
	}
	w.held += n
	p.held += n
	return true
}

// holdSplit is holdShared for a value that comes in chunks. The first of a round is always kept: its head is held already. But none is while clients that do
// not read take all the memory: that is known only now, and the request comes again when there is some.
func (w *Worker) holdSplit(i int32, n int) bool {
	p := &w.parts[w.requests[i].part]
	w.planner.Requests[i].Needs = int32(min(n, math.MaxInt32))
	if p.batch.Client.Crowded() && w.mayRepeat(p) {
		return false
	}
	if w.gathers {
		return w.holdShared(i, n)
	}
	w.gathers = true
	before := w.held
	w.held = 0
	held := w.holdShared(i, n)
	w.held += before
	return held
}

// holdLook decides whether an item of n bytes that was looked back at is kept, and counts it until the end of the round: it is copied by then.
func (w *Worker) holdLook(n int) bool {
	if w.held > 0 && w.held+n > maxHeld {
		w.answerReady()
	}
	if w.held > 0 && w.held+n > maxHeldStuck {
		return false
	}
	w.held += n
	return true
}

// letGo ends the use of what a part that is answered holds; what its client did not take is held on.
func (w *Worker) letGo(p *part) {
	if p.held == 0 {
		return
	}
	w.held -= max(0, p.held-len(p.rest))
	for i := p.first; i < p.last; i++ {
		w.planner.Forget(i)
	}
}

// mayRepeat reports whether the reads of p can be repeated behind the round.
func (w *Worker) mayRepeat(p *part) bool {
	if !p.judged {
		p.judged, p.repeatable = true, w.planner.Repeatable(p.first, p.last)
	}
	return p.repeatable
}
