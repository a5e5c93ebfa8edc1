package worker

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// item is one VALUE of a reply that is merged with others.
type item struct {
	start, end int32 // in the call's reply
	ordinal    int32 // which of the call's keys
}

// collect reads the calls' replies, server by server, and answers clients as their requests complete. While it reads from
// one server the others' replies wait in the kernel. hasty: a server that stalls is left for a later collect that is not
// hasty; after that one every call has its reply.
func (w *Worker) collect(hasty bool) {
	w.sortServers()
	if hasty && w.options.StallAfter > 0 {
		for _, s := range w.order {
			if w.collectFrom(s, w.options.StallAfter) {
				w.stalled(s)
				w.abandon(s)
			}
		}
		return
	}
	// In turns: whoever sends a long reply meanwhile must not wait until the others' time is over.
	turn := w.oneTurn()
	for left := len(w.order); left > 0; {
		left = 0
		for _, s := range w.order {
			if len(w.waiting(s)) > 0 && w.collectFrom(s, turn) {
				left++
			}
		}
	}
}

// oneTurn returns how long a worker waits for one server before it looks at another.
func (w *Worker) oneTurn() time.Duration {
	if w.options.StallAfter > 0 {
		return w.options.StallAfter
	}
	return w.options.Timeout / 16
}

// abandon retries the reads that wait for server s, which stalls, on other servers that can answer them. If nothing else waits for s,
// its connection is closed.
func (w *Worker) abandon(s int) {
	needed := false
	stalled := w.conns[s].Stalled()
	for _, n := range w.waiting(s) {
		c := &w.calls[n]
		r := &w.requests[c.request]
		if c.failed || r.step != stepSend || w.options.Router.N() == 1 || !r.movable() {
			needed = needed || !c.failed
			continue
		}
		w.fail(c, stalled)
		w.record.ServerError(s, stalled.Reason)
		w.arrived(c.request)
	}
	if !needed {
		w.giveUp(s)
	}
}

// movable reports whether r is a read that another server can answer now. A gat writes, and only the first server knows the cas.
func (r *pending) movable() bool { return r.reads() && !r.readsFirst() }

// giveUp closes the connection to server s, for which no call waits that has not failed.
func (w *Worker) giveUp(s int) {
	w.conns[s].Close()
	now := stats.Now()
	for range w.waiting(s) {
		w.options.Servers[s].End(now)
	}
	w.fifo[s], w.head[s] = w.fifo[s][:0], 0
}

// collectFrom reads the replies of server s, until its deadline. It returns true if before that nothing comes for as long as patience.
func (w *Worker) collectFrom(s int, patience time.Duration) (stalled bool) {
	conn := w.conns[s]
	until, waited, now, calls := int64(0), w.sent, stats.Now(), int64(len(w.waiting(s)))
	for len(w.waiting(s)) > 0 {
		need, err := w.parse(s, conn, now)
		if err == nil && len(w.waiting(s)) > 0 {
			w.answerReady()
			waited = stats.Now()
			if until == 0 {
				until = w.deadline(s)
			}
			wait := min(until, waited+int64(patience))
			var arrived bool
			if wait > waited {
				arrived, err = conn.Fill(need, wait)
			} else {
				arrived, err = conn.FillNow(need) // what others took the time for may have come meanwhile
			}
			now = stats.Now()
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
	if calls > 0 && w.measures() {
		now = stats.Now()
		w.options.Servers[s].Took((now-w.sent)/calls, now-waited < hadWaited)
	}
	w.fifo[s], w.head[s] = w.fifo[s][:0], 0
	return false
}

// hadWaited is the longest that a read takes, ns, if the reply was there already.
const hadWaited = int64(20 * time.Microsecond)

// sortServers sets the order in which the servers' replies are read. The time spent waiting for one server is counted for those read
// after it; so the first server changes from round to round, and with least-busy reads the least loaded server is read first.
func (w *Worker) sortServers() {
	w.first = (w.first + 1) % len(w.conns)
	w.order = w.order[:0]
	for k := range w.conns {
		s := (w.first + k) % len(w.conns)
		if len(w.waiting(s)) == 0 {
			continue
		}
		at := len(w.order)
		if w.measures() {
			w.loads[s] = w.options.Servers[s].Load(0)
			for at > 0 && w.loads[s] < w.loads[w.order[at-1]] {
				at--
			}
		}
		w.order = slices.Insert(w.order, at, s)
	}
}

// measures reports whether what a call takes on each server is needed.
func (w *Worker) measures() bool { return w.options.Router.Read() == route.ReadLeastBusy }

// waiting returns the calls that wait for a reply of server s.
func (w *Worker) waiting(s int) []int32 { return w.fifo[s][w.head[s]:] }

// deadline returns until when to wait for server s, ns. Some of the time is kept for what has to follow if it does not answer: half, if
// all that wait are reads of which other servers have copies, to ask those; a little behind a write of several servers, to copy
// or repair.
func (w *Worker) deadline(s int) int64 {
	timeout := int64(w.options.Timeout)
	end, keep, movable := int64(math.MaxInt64), int64(0), true
	for _, n := range w.waiting(s) {
		r := &w.requests[w.calls[n].request]
		end = min(end, w.end(r))
		switch {
		case w.options.Router.N() == 1, r.step == stepRepair:
			movable = false
		case r.readsOnly():
			movable = movable && r.retries < w.options.Router.N()-1
		case r.step == stepCompare:
			movable, keep = false, timeout/4
		default:
			movable, keep = false, max(keep, timeout/reserve)
		}
		if w.options.Router.N() == 1 && !w.patient {
			break // they have one end
		}
	}
	end -= keep
	if movable {
		end = w.flushed + (end-w.flushed)/2
	}
	return max(end, w.flushed+timeout/leastTime)
}

// leastTime is the part of the timeout that a server gets for a reply in any case, a sixteenth: who was asked late is not to be taken
// for stalled.
const leastTime = 16

// reserve is the part of the timeout that is kept for what follows upon a failure: an eighth.
const reserve = 8

// end returns when the time that r may take is over, ns. It counts from when its client had sent it. But waiting for a worker and for
// the locks is not the servers' fault: they get three quarters of the timeout at least, on a detour an eighth beside what is kept.
func (w *Worker) end(r *pending) int64 {
	timeout := int64(w.options.Timeout)
	if w.patient {
		return max(r.waitsSince(), w.began-timeout+2*timeout/reserve) + timeout
	}
	return max(w.earliest, w.began-timeout/4) + timeout
}

var errUnexpected = errors.New("a reply that does not fit the request")

// parse hands the replies that conn has read by now to their calls. need is the number of bytes that the next one is known to
// take, 0 if unknown.
func (w *Worker) parse(s int, conn *backend.Conn, now int64) (need int, failure *backend.Error) {
	for len(w.waiting(s)) > 0 {
		c := &w.calls[w.waiting(s)[0]]
		var rep protocol.Reply
		n, need, err := protocol.DecodeReply(conn.Unparsed(), &rep)
		large := rep.Data > w.options.MaxValue
		switch {
		case err != nil:
			return 0, &backend.Error{Server: w.options.Servers[s].Name, Reason: stats.ReasonProtocol, Err: err}
		case large:
			n = max(n, need) - rep.Data - len(protocol.CRLF) // its line
			c.dropping, c.tooLarge = true, rep.Data
		case n == 0:
			return need, nil
		}
		element := conn.Unparsed()[:n]
		conn.Take(n)
		last, ok := w.accept(c, &rep, element, conn.Parsed()-n, conn.Parsed())
		if !ok {
			return 0, &backend.Error{Server: w.options.Servers[s].Name, Reason: stats.ReasonProtocol, Err: errUnexpected}
		}
		if c.dropping = c.dropping || c.failed; c.dropping {
			conn.Drop(n)
		}
		if large {
			conn.Skip(rep.Data)
			c.skipped, c.final = true, last
			continue
		}
		if !last {
			continue
		}
		if c.failed {
			conn.Reply() // its request has been answered already
			w.options.Servers[s].End(now)
			w.head[s]++
			continue
		}
		c.kind = rep.Kind
		c.reply = conn.Reply()
		if c.tooLarge > 0 {
			// Without the server's name, so that replicas agree.
			c.found, c.kind = 0, protocol.ReplyServerError
			c.reply = fmt.Appendf(nil, "SERVER_ERROR a value of %d bytes; accepted: up to %d (--max-value)\r\n", c.tooLarge, w.options.MaxValue)
		}
		w.arrivals++
		c.arrived = w.arrivals
		if c.kind == protocol.ReplyServerError {
			w.record.ServerError(s, stats.ReasonReply)
		}
		w.record.Server(s, now-w.sent)
		w.options.Servers[s].End(now)
		w.head[s]++
		w.requests[c.request].Received = now
		w.arrived(c.request)
	}
	return 0, nil
}

// maxList bounds the reply to a stats or administration command, bytes: twice what memcached gives `stats cachedump`.
const maxList = 4 << 20

// accept checks that an element, the bytes start..end of the call's reply, may stand where it does. last means that it
// ends the reply.
func (w *Worker) accept(c *call, rep *protocol.Reply, element []byte, start, end int) (last, ok bool) {
	if c.skipped {
		c.skipped = false
		return c.final, len(element) == len(protocol.CRLF)
	}
	last, ok = c.command.Accepts(rep.Kind, start == 0, c.barrier)
	switch r := w.requests[c.request].Request; {
	case !ok:
	case rep.Kind == protocol.ReplyValue:
		ok = w.acceptValue(c, rep.Key, start, end)
	case rep.Kind == protocol.ReplyMetaLine, rep.Kind == protocol.ReplyMetaValue:
		ok = c.command != r.Command || c.hidden || c.failed || protocol.MetaFits(r.Head, element)
		w.keepMeta(c, rep.Kind, end-start)
	case !last:
		ok = end <= maxList
	}
	return last, ok
}

// acceptValue notes a VALUE. Its key must be the next of the call's keys, or a later one if those between are missing.
func (w *Worker) acceptValue(c *call, key []byte, start, end int) bool {
	for c.cursor < len(c.keys) {
		at := c.cursor
		word, rest := nextWord(c.keys[at:])
		c.cursor = len(c.keys) - len(rest)
		c.ordinal++
		if !bytes.Equal(word, key) {
			continue
		}
		if c.failed {
			return true // its request has been answered already
		}
		if !w.keep(c, end-start) {
			if !c.dropping {
				c.dropping, c.cut, c.cutKey = true, at, c.ordinal-1
			}
			return true
		}
		if w.requests[c.request].keyCalls >= 0 {
			c.note(w, item{start: int32(start), end: int32(end), ordinal: c.ordinal - 1})
		}
		c.found++
		return true
	}
	return false
}

// note appends it to the call's items.
func (c *call) note(w *Worker, it item) {
	if c.item < 0 {
		c.item = int32(len(w.items))
	}
	w.items = append(w.items, it)
}

// serverFailed fails every call that waits for server s, and closes the connection: a late reply must not meet another
// request. If the server broke the protocol, what it answered in this round need not be about the writes that it was matched to: these
// count as missed, too. Their keys are locked until the round ends.
func (w *Worker) serverFailed(s int, err *backend.Error) {
	w.options.Log.Warn("a server failed", "server", err.Server, "reason", err.Reason.String(), "error", err.Err, "requests", len(w.waiting(s)))
	w.record.ServerError(s, err.Reason)
	w.options.Servers[s].Failed(err.Err)
	// Before a write is noted as missed: what is left of it on the connection must not come behind its deletion.
	doubted := func(c call) bool {
		return err.Reason == stats.ReasonProtocol && int(c.server) == s && !c.failed && w.changes(&c)
	}
	if slices.ContainsFunc(w.waiting(s), func(n int32) bool { return w.changes(&w.calls[n]) }) || slices.ContainsFunc(w.calls, doubted) {
		w.conns[s].Retire()
	}
	for n := range w.calls {
		if c := &w.calls[n]; doubted(*c) {
			w.noteMissed(c, err)
		}
	}
	now := stats.Now()
	for _, n := range w.waiting(s) {
		c := &w.calls[n]
		if c.failed {
			continue // a read that was given to another server
		}
		w.fail(c, err)
		w.requests[c.request].Received = now
		w.arrived(c.request)
	}
	w.giveUp(s)
}

// arrived counts down what requests[i] waits for, and takes it on when that was the last.
func (w *Worker) arrived(i int32) {
	r := &w.requests[i]
	r.left--
	if r.left > 0 {
		return
	}
	if w.settle(r) {
		w.followUp = append(w.followUp, i)
		return
	}
	r.done = true
	if w.parked {
		w.releaseDone(r)
	}
	p := &w.parts[r.part]
	p.left--
	if p.left == 0 {
		w.ready = append(w.ready, r.part)
	}
}
