package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// collect reads the calls' replies, server by server, and answers clients as their requests complete. While it reads
// from one server, the other servers' replies wait in the kernel. hasty: a server that stalls is left for a later
// collect that is not hasty; after that one every call has a reply or has failed.
func (w *Worker) collect(ctx context.Context, hasty bool) {
	w.sortServers()
	if hasty && w.options.StallAfter > 0 {
		for _, s := range w.reading.order {
			patience := w.options.StallAfter
			if w.states.trouble && w.mayDoWithout(s) {
				patience = 0
			}
			if w.collectFrom(ctx, s, patience) {
				w.stalled(s)
				w.abandon(s)
			}
		}
		return
	}
	// In turns: a server that sends a long reply meanwhile must not wait until the others have timed out.
	turn := w.oneTurn()
	for left := len(w.reading.order); left > 0; {
		left = 0
		for _, s := range w.reading.order {
			if len(w.outstanding[s].waiting()) > 0 && !w.doWithout(s) && w.collectFrom(ctx, s, turn) {
				left++
			}
		}
	}
}

// oneTurn returns how long a worker waits for one server before it turns to another.
func (w *Worker) oneTurn() time.Duration {
	if w.options.StallAfter > 0 {
		return w.options.StallAfter
	}
	return w.options.Timeout / 16
}

// waits reports whether calls wait for servers that stall.
func (w *Worker) waits() bool {
	return slices.ContainsFunc(w.outstanding, func(o outstanding) bool { return len(o.waiting()) > 0 })
}

// collectFrom reads the replies of server s, until its deadline. It returns true if before that nothing arrives, or no
// connection is made, for as long as patience.
func (w *Worker) collectFrom(ctx context.Context, s int, patience time.Duration) (stalled bool) {
	conn, o := w.conns[s], &w.outstanding[s]
	late := o.unsent()
	if late {
		w.answerReady()
		if w.awaitConnection(ctx, s, patience) {
			return true
		}
	}
	until, now, calls := int64(0), max(w.flushed, w.read), int64(len(o.waiting()))
	waited := now
	for len(o.waiting()) > 0 {
		need, err := w.parse(s, now)
		if err == nil && len(o.waiting()) > 0 {
			if w.answerReady() {
				now = stats.Now()
			}
			waited = now
			if until == 0 {
				until = w.deadline(s)
			}
			wait := min(until, waited+int64(patience))
			var arrived bool
			if wait > waited {
				arrived, err = conn.Fill(need, wait)
			} else {
				// other servers have used up the time, but the reply may have arrived meanwhile
				arrived, err = conn.FillNow(need)
			}
			now = stats.Now()
			w.read = now
			w.record.Waited(s, now-waited)
			if !arrived && err == nil {
				if wait < until {
					return true
				}
				err = conn.TimedOut()
			}
		}
		if err != nil {
			w.serverFailed(s, err)
			calls = 0
		}
	}
	if calls > 0 && !late && w.measures() {
		now = stats.Now()
		w.options.Servers[s].Took((now-w.sent)/calls, now-waited < instantRead)
	}
	o.forget()
	return false
}

// instantRead is how long a read takes at most, ns, if the reply has already arrived.
const instantRead = int64(20 * time.Microsecond)

// sortServers sets the order in which the servers' replies are read. The time spent waiting for one server also counts
// for the servers that are read after it. So the first server changes from round to round, and with least-busy reads
// the least loaded server is read first. Servers to which a connection is being made come last, and after them
// suspects.
func (w *Worker) sortServers() {
	w.reading.order = w.reading.order[:0]
	w.updateLoads()
	for k := range w.conns {
		s := (w.reading.first + k) % len(w.conns)
		if len(w.outstanding[s].waiting()) == 0 {
			continue
		}
		at := len(w.reading.order)
		for at > 0 && w.readBefore(s, w.reading.order[at-1]) {
			at--
		}
		w.reading.order = slices.Insert(w.reading.order, at, s)
	}
}

// readBefore reports whether the replies of server s are read before those of server other.
func (w *Worker) readBefore(s, other int) bool {
	if w.states.trouble {
		if suspect := w.planner.Servers[s].Suspect; suspect != w.planner.Servers[other].Suspect {
			return !suspect
		}
	}
	if connects := w.outstanding[s].unsent(); connects != w.outstanding[other].unsent() {
		return !connects
	}
	return w.measures() && w.planner.Servers[s].Load < w.planner.Servers[other].Load
}

// deadline returns until when to wait for server s, ns. Some of the time is kept for what can follow. If all waiting
// calls are reads that other servers can answer, this is half the time, to ask those. After a write to several servers
// it is a smaller part, to copy or repair.
func (w *Worker) deadline(s int) int64 {
	timeout := w.timeouts[s]
	end, keep, movable := int64(math.MaxInt64), int64(0), true
	for _, n := range w.outstanding[s].waiting() {
		end = min(end, w.end(w.planner.Calls[n].Request, timeout))
		follows := w.planner.Follows(n)
		movable = movable && follows == plan.FollowsRead
		switch follows {
		case plan.FollowsCopies:
			keep = timeout / 4
		case plan.FollowsRepair:
			keep = max(keep, timeout/reserve)
		}
		if w.options.Router.N() == 1 && !w.member.Patient {
			break // all calls have the same end
		}
	}
	end -= keep
	if movable {
		end = w.flushed + (end-w.flushed)/2
	}
	return max(end, w.flushed+timeout/leastTime)
}

// leastTime is the divisor for the part of the timeout that a server gets for a reply in any case, a sixteenth: a
// server that was asked late must not count as stalled.
const leastTime = 16

// reserve is the divisor for the part of the timeout that is kept for what can follow, an eighth.
const reserve = 8

// end returns when the time for requests[i], or for a check (-1), ends, ns; timeout is how long it may take. The time
// begins when the client has sent the request. But the servers are not to blame for the wait for a worker and for
// locks. So they get at least three quarters of the timeout; on a detour they get at least an eighth in addition to
// what is kept.
func (w *Worker) end(i int32, timeout int64) int64 {
	if w.member.Patient && i >= 0 {
		return max(startedAt(w.requests[i].Request), w.began-timeout+2*timeout/reserve) + timeout
	}
	return max(w.earliest, w.began-timeout/4) + timeout
}

// timeout returns how long requests[i] may take, ns: its pool's timeout, or, if it has several keys or none, the
// longest of all pools.
func (w *Worker) timeout(i int32) int64 {
	if r := &w.planner.Requests[i]; r.NumKeys == 1 {
		return int64(w.options.Pools[w.planner.PoolOf(&r.Request.Request, r.ClientKey())].Timeout)
	}
	return slices.Max(w.timeouts)
}

var errUnexpected = errors.New("a reply that does not fit the request")

// parse hands the replies of server s that have been read to their calls. need is the number of bytes that the next
// reply is known to take, 0 if unknown.
func (w *Worker) parse(s int, now int64) (need int, failure *backend.Error) {
	conn, o, server := w.conns[s], &w.outstanding[s], w.options.Servers[s]
	for o.head < len(o.calls) {
		n := o.calls[o.head]
		var rep protocol.Reply
		unparsed := conn.Unparsed()
		size, need, err := protocol.DecodeReply(unparsed, &rep)
		large := rep.Data > w.options.MaxValue
		switch {
		case err != nil:
			return 0, &backend.Error{Server: server.Name, Reason: stats.ReasonProtocol, Err: err}
		case large:
			size = max(size, need) - rep.Data - len(protocol.CRLF) // the size of its line
		case size == 0:
			return need, nil
		}
		conn.Take(size)
		end := conn.Parsed()
		last, value, ok := w.planner.Element(n, &rep, unparsed[:size], end-size, end)
		if !ok {
			return 0, &backend.Error{Server: server.Name, Reason: stats.ReasonProtocol, Err: errUnexpected}
		}
		if value && !w.keep(n, size) {
			w.planner.Cut(n)
		}
		c := &w.planner.Calls[n]
		if !value && rep.Data > request.ReadSize && !c.IsCheck() && showsValue(w.requests[c.Request].Request) {
			w.sized(c.Request, size)
		}
		if c.Dropped() {
			conn.Drop(size)
		}
		if large {
			conn.Skip(rep.Data)
		}
		if !last {
			continue
		}
		reply := conn.Reply()
		server.End(now)
		o.head++
		if c.Failed() {
			continue // its request continues without it
		}
		if rep.Kind == protocol.ReplyServerError || c.TooLarge > 0 {
			w.record.ServerError(s, stats.ReasonReply)
		}
		if !c.IsCheck() {
			w.record.Server(s, now-w.sent)
			w.requests[c.Request].Received = now
		}
		if w.planner.Done(n, rep.Kind, reply) {
			w.endStep(c.Request)
		}
	}
	return 0, nil
}

// serverFailed closes the connection to server s after an error, because a late reply must not reach another request.
// Every call that waits for the server has failed. The server's prober repairs the writes that were in progress. If the
// server broke the protocol, its replies of this round may belong to other writes than those they were matched to:
// these writes count as missed, too. Their keys are locked until the round ends.
func (w *Worker) serverFailed(s int, err *backend.Error) {
	waiting := w.outstanding[s].waiting()
	w.options.Log.Warn("a server failed", "server", err.Server, "reason", err.Reason.String(), "error", err.Err,
		"requests", len(waiting))
	w.record.ServerError(s, err.Reason)
	w.options.Servers[s].Failed(err.Err)
	doubted := func(n int32) bool {
		c := &w.planner.Calls[n]
		return err.Reason == stats.ReasonProtocol && int(c.Server) == s && !c.Failed() && w.planner.Writes(n)
	}
	if err.Reason == stats.ReasonProtocol && w.options.Hot != nil {
		w.options.Hot.Forget() // some of the values may be replies to other requests
	}
	writing := slices.ContainsFunc(waiting, w.planner.Writes)
	for n := range w.planner.Calls {
		writing = writing || doubted(int32(n))
	}
	if writing {
		// before a write is noted as missed: bytes of it that are left on the connection must not arrive after its
		// deletion
		w.conns[s].Retire()
	}
	for n := range w.planner.Calls {
		if doubted(int32(n)) {
			w.noteMissed(int32(n), err)
		}
	}
	now := stats.Now()
	for _, n := range waiting {
		if c := &w.planner.Calls[n]; !c.Failed() {
			if !c.IsCheck() {
				w.requests[c.Request].Received = now
			}
			w.fail(n, err)
		}
	}
	w.giveUp(s)
}

// giveUp closes the connection to server s. All calls that wait for it have failed.
func (w *Worker) giveUp(s int) {
	w.conns[s].Close()
	now := stats.Now()
	o := &w.outstanding[s]
	for range o.calls[o.head:o.sent] {
		w.options.Servers[s].End(now)
	}
	o.forget()
}

// endStep ends the present step of requests[i], whose calls have all ended.
func (w *Worker) endStep(i int32) {
	planned := &w.planner.Requests[i]
	r := &w.requests[i]
	elected := w.planner.Elected(i)
	if elected {
		w.confirm()
	}
	again := w.planner.End(i, !planned.Failed() || stats.Now() < w.end(i, w.timeout(i)))
	if elected {
		w.noteUndone(i)
	}
	if again {
		if repairs := w.planner.Repairs(i); len(repairs) > 0 {
			w.noteDisagreement(i)
			if w.locks[r.stripe].writes > 1 {
				w.planner.RepairAll(i)
			}
			for _, s := range w.planner.Repairs(i) {
				w.record.Repair(int(s))
			}
		}
		w.followUp = append(w.followUp, i)
		return
	}
	w.complete(i)
	if w.slot.parked {
		w.releaseDone(r)
	}
	for j := w.planner.NextJoined(i); j >= 0; j = w.planner.NextJoined(j) {
		w.requests[j].Received = r.Received
		w.complete(j)
	}
}

// complete notes that requests[i] can be answered.
func (w *Worker) complete(i int32) {
	r := &w.requests[i]
	r.done = true
	p := &w.parts[r.part]
	p.left--
	if p.left == 0 {
		w.ready = append(w.ready, r.part)
	}
}

// noteDisagreement logs that replicas disagree about requests[i], a write.
func (w *Worker) noteDisagreement(i int32) {
	suppressed, ok := w.disagreements.Pass()
	if !ok {
		return
	}
	replies, answered := w.planner.Disagreement(i)
	w.options.Log.Warn("replicas disagree; the key is deleted where it does not have the answered state",
		"command", w.requests[i].Command.String(), "replies", replies, "answered", answered, "not_logged",
		suppressed)
}
