package worker

import (
	"math"

	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
)

// The values that a client asks for can have any size, and the client may be slow to take them. So a retrieval whose
// values are probably large is served in portions: it ends its part, the client gets the values that arrived, and its
// batch returns to be served from the next key on, when the client has taken them. Values beyond maxHeld that were not
// expected are dropped and asked for again in the same way. Requests before such a retrieval in the round are answered,
// requests after it have to wait: reads are repeated, and the replies to others are kept.
//
// What a client has asked for before decides how many values it is sent at a time. It does not decide whether a request
// waits for memory: while clients that do not read use all of it, a value beyond request.ReadSize is dropped when it
// has come, and only then does its request wait.
const (
	// portion is about how many bytes of values a connection asks for at a time.
	portion = 1 << 20
	// maxHeld bounds the bytes of values that a round asks for, and of those that it keeps before a client has taken
	// them. The first value is always kept.
	maxHeld = 4 << 20
	// maxHeldStuck is the same for reads that cannot be repeated, because their connection writes the key later in the
	// same round, and for items that were fetched to be copied. Beyond it a read fails, and an item is not copied but
	// deleted on the other servers.
	maxHeldStuck = 16 << 20
)

// textNoMemory is memcached's text.
const textNoMemory = "SERVER_ERROR out of memory writing get response\r\n"

// full reports whether the round has as much to do as is allowed.
func (w *Worker) full() bool {
	return len(w.requests) == w.options.Depth || w.expected >= maxHeld || w.planner.Checking() >= maxChecks
}

// meanOf returns the average size of the values that client asks for, bytes; that of all clients if it has not got any
// yet.
func (w *Worker) meanOf(client request.Client) int {
	if mean := client.Values().Mean(); mean > 0 {
		return mean
	}
	return w.valueSize.Mean()
}

// likely returns the size of the values that r fetches if each has mean bytes.
func likely(r *plan.Request, mean int) int {
	switch {
	case r.Answer != "":
		return 0
	case r.Grows():
		return len(r.Data) + mean
	case r.Has(protocol.Reads), showsValue(r.Request):
		return int(r.NumKeys) * mean
	}
	return 0
}

// showsValue reports whether r is a write whose reply is the item's value. It cannot be repeated.
func showsValue(r *request.Request) bool {
	return r.Fetches() && !r.Has(protocol.Reads) && r.HasFlag('v')
}

// crowded reports whether r has to wait until clients have read what they asked for: its value is known to be large,
// or, if it cannot be dropped, likely to be.
func (w *Worker) crowded(b *request.Batch, r *request.Request) bool {
	n := int(r.Needs)
	if r.Has(protocol.Writes) && (showsValue(r) || r.Expires()) {
		n = max(n, w.mean)
	}
	return n > request.ReadSize && b.Client.Crowded(n)
}

// unrepeatable reports whether r, a write that follows reads in its part, must wait for the next round, because values
// of these reads may have to be dropped.
func (w *Worker) unrepeatable(b *request.Batch, r *request.Request) bool {
	return r.Expires() || b.Client.Crowded(maxHeld)
}

// takePortion leaves requests[i] of b as many keys as it may ask for at a time, and reports whether there are more.
func (w *Worker) takePortion(b *request.Batch, i int32) (more bool) {
	r := &w.planner.Requests[i]
	if !r.Command.IsRetrieval() || r.NumKeys == 1 {
		return false
	}
	most, mean := portion, w.mean
	if r.Expires() { // none of its values can be asked for again, so that all must fit
		most, mean = maxHeld, w.options.MaxValue
	}
	if n := min(int(r.NumKeys)*w.mean, portion); n > request.ReadSize && b.Client.Crowded(n) {
		most = request.ReadSize
	}
	return w.planner.Limit(i, max(1, most/(mean+1)))
}

// sized counts a value of n bytes that arrived for requests[i].
func (w *Worker) sized(i int32, n int) {
	w.valueSize.Add(n)
	w.clientOf(i).Values().Add(n)
}

// clientOf returns the client of requests[i].
func (w *Worker) clientOf(i int32) request.Client { return w.parts[w.requests[i].part].batch.Client }

// keep decides whether a value of n bytes that arrived for a call is kept, and counts it.
func (w *Worker) keep(call int32, n int) bool {
	c := &w.planner.Calls[call]
	if c.Fetches() && !w.planner.Requests[c.Request].Grows() {
		return true // it is a number
	}
	w.sized(c.Request, n)
	if c.Fetches() {
		return w.holdFetched(n)
	}
	if c.Dropped() || w.requests[c.Request].Answer != "" {
		return false
	}
	return w.holdShared(c.Request, n)
}

// holdShared is hold for requests[i] and those that have joined it. Of these it leaves out those for which there is no
// memory.
func (w *Worker) holdShared(i int32, n int) bool {
	if !w.hold(i, n) {
		return false
	}
	for j := w.planner.NextJoined(i); j >= 0; j = w.planner.NextJoined(j) {
		w.clientOf(j).Values().Add(n)
		if !w.hold(j, n) {
			w.planner.LeaveOut(j)
		}
	}
	return true
}

// hold decides whether a value of n bytes is kept for requests[i], and counts it. A value that several requests share
// counts for each, because each client may leave it unread.
func (w *Worker) hold(i int32, n int) bool {
	p := &w.parts[w.requests[i].part]
	if p.held+n > request.ReadSize && p.batch.Client.Crowded(p.held+n) && w.mayRepeat(p) {
		w.requests[i].Needs = int32(min(n, math.MaxInt32))
		return false
	}
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

// holdSplit is holdShared for a value that arrives in chunks. The first such value of a round is kept even beyond
// maxHeld, because its head is held already.
func (w *Worker) holdSplit(i int32, n int) bool {
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

// holdFetched decides whether an item of n bytes that was fetched to be copied is kept, and counts it until the end of
// the round, when it has been copied.
func (w *Worker) holdFetched(n int) bool {
	if w.held > 0 && w.held+n > maxHeld {
		w.answerReady()
	}
	if w.held > 0 && w.held+n > maxHeldStuck {
		return false
	}
	w.held += n
	return true
}

// letGo releases what an answered part holds, except what its client has not taken.
func (w *Worker) letGo(p *part) {
	if p.held == 0 {
		return
	}
	w.held -= max(0, p.held-len(p.rest))
	for i := p.first; i < p.last; i++ {
		w.planner.Forget(i)
	}
}

// mayRepeat reports whether the reads of p can be repeated after the round.
func (w *Worker) mayRepeat(p *part) bool {
	if !p.judged {
		p.judged, p.repeatable = true, w.planner.Repeatable(p.first, p.last)
	}
	return p.repeatable
}
