package worker

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// outstanding are the calls to a server that are not answered, in the order in which their replies arrive.
type outstanding struct {
	calls []int32 // those in calls[:head] are answered
	head  int
	sent  int // calls[sent:] are not sent yet; between send and collect they wait for a connection
}

// waiting returns the calls that have no complete reply yet.
func (o *outstanding) waiting() []int32 { return o.calls[o.head:] }

// unsent reports whether calls are not sent yet.
func (o *outstanding) unsent() bool { return o.sent < len(o.calls) }

// dropUnsent drops those calls that are not sent yet for which drop returns true.
func (o *outstanding) dropUnsent(drop func(n int32) bool) {
	o.calls = o.calls[:o.sent+len(slices.DeleteFunc(o.calls[o.sent:], drop))]
}

// forget empties o.
func (o *outstanding) forget() { *o = outstanding{calls: o.calls[:0]} }

// send sends the calls from number from on, with one write to each server. Calls for which a connection must be made
// that takes long are left to collect.
func (w *Worker) send(ctx context.Context, from int) {
	for n := from; n < len(w.planner.Calls); n++ {
		o := &w.outstanding[w.planner.Calls[n].Server]
		o.calls = append(o.calls, int32(n))
	}
	connects := false
	for s := range w.conns {
		if w.outstanding[s].unsent() {
			w.sendTo(ctx, s)
			connects = connects || w.outstanding[s].unsent()
		}
	}
	for s := 0; connects && s < len(w.conns); s++ {
		w.awaitConnection(ctx, s, connectAtOnce)
	}
	w.flushed = stats.Now()
	if from > 0 {
		return
	}
	w.sent = w.flushed
	for i := range w.requests {
		r := &w.requests[i]
		r.Sent, r.Received = w.sent, w.sent
		if !w.planner.Requests[i].Asks() {
			w.endStep(int32(i))
		}
	}
}

// connectAtOnce is how long other calls of the round may wait for a connection: about ten times what a connection takes
// without trouble.
const connectAtOnce = time.Millisecond

// sendTo sends the calls to server s that are not sent yet, if there is a connection. Otherwise a connection is being
// made when it returns.
func (w *Worker) sendTo(ctx context.Context, s int) {
	o, conn, server := &w.outstanding[s], w.conns[s], w.options.Servers[s]
	if server.Stale() || server.Suspected() {
		w.refuse(s)
	}
	unsent := o.calls[o.sent:]
	if len(unsent) == 0 {
		return
	}
	if o.head == o.sent { // otherwise it owes replies, so it is connected
		switch connected, err := conn.Begin(ctx); {
		case err != nil:
			w.neverSent(s, err)
			return
		case !connected:
			return
		}
	}
	o.sent = len(o.calls)
	for k, n := range unsent {
		if k > 0 {
			conn.Out.NextUnit()
		}
		c := &w.planner.Calls[n]
		if c.IsCheck() && conn.Out.KeepUnits {
			addLines(&conn.Out, c.Bytes[0])
		} else {
			conn.Out.Add(c.Bytes[0])
		}
		for _, data := range c.Bytes[1:] {
			if len(data) > 0 {
				conn.Out.Add(data)
			}
		}
		if c.Fence() {
			conn.Out.NextUnit()
			conn.Out.AddString("mn\r\n")
		}
	}
	server.Begin(len(unsent), w.dequeued)
	if err := conn.Flush(); err != nil {
		w.serverFailed(s, err)
	}
}

// refuse ends the calls to server s that must not be sent.
func (w *Worker) refuse(s int) {
	w.outstanding[s].dropUnsent(func(n int32) bool {
		err := w.refusal(n)
		if err != nil {
			w.noAnswer(n, err)
		}
		return err != nil
	})
}

// addLines adds text to out, each of its lines as one unit.
func addLines(out *wire.Gather, text []byte) {
	for {
		end := bytes.IndexByte(text, '\n') + 1
		out.Add(text[:end])
		if text = text[end:]; len(text) == 0 {
			return
		}
		out.NextUnit()
	}
}

// refusal returns why call n must not be sent: it reads from a server that may hold keys whose latest write it missed,
// or it would wait for a suspect that writes do without, or for which no time is left. It returns nil if the call can
// be sent.
func (w *Worker) refusal(n int32) *backend.Error {
	c := &w.planner.Calls[n]
	switch server := w.options.Servers[c.Server]; {
	case c.Reads() && server.Stale():
		return w.conns[c.Server].Refuse()
	case !c.IsCheck() && w.requests[c.Request].expired && server.Suspected():
		return w.conns[c.Server].TimedOut()
	case w.planner.Writes(n) && server.Suspected() && server.Marked() && w.barring(int(c.Server)):
		return w.conns[c.Server].Stalled()
	}
	return nil
}

// neverSent ends the calls to server s that are not sent yet.
func (w *Worker) neverSent(s int, err *backend.Error) {
	now := stats.Now()
	w.outstanding[s].dropUnsent(func(n int32) bool {
		c := &w.planner.Calls[n]
		if !c.Failed() {
			if !c.IsCheck() {
				w.requests[c.Request].Received = now
			}
			w.noAnswer(n, err)
		}
		return true
	})
}

// awaitConnection waits for the connection to server s that calls wait for, and sends the calls, or ends them. When no
// time is left, the attempt continues for a later round. It returns true if it takes longer than patience.
func (w *Worker) awaitConnection(ctx context.Context, s int, patience time.Duration) (stalled bool) {
	o, timeout := &w.outstanding[s], w.timeouts[s]
	impatient := stats.Now() + int64(patience)
	for o.unsent() {
		until := w.flushed + timeout/leastTime
		for _, n := range o.calls[o.sent:] {
			until = max(until, w.end(w.planner.Calls[n].Request, timeout)-timeout/reserve)
		}
		connected, err := w.conns[s].Await(min(until, impatient))
		switch {
		case err == nil && !connected && impatient < until:
			return true
		case err == nil && !connected:
			err = w.conns[s].NotConnected()
		}
		if err != nil {
			w.neverSent(s, err)
			return false
		}
		late := o.calls[o.sent:]
		w.sendTo(ctx, s)
		w.flushed = stats.Now()
		for _, n := range late {
			if c := &w.planner.Calls[n]; !c.IsCheck() && !c.Failed() {
				r := &w.requests[c.Request]
				r.Sent, r.Received = w.flushed, w.flushed
			}
		}
	}
	return false
}

// noAnswer ends call n without a reply.
func (w *Worker) noAnswer(n int32, err *backend.Error) {
	w.record.ServerError(int(w.planner.Calls[n].Server), err.Reason)
	w.fail(n, err)
}

// fail makes err, as an error line, the reply to call n.
func (w *Worker) fail(n int32, err *backend.Error) {
	w.noteMissed(n, err)
	if w.planner.NoAnswer(n, fmt.Appendf(nil, "SERVER_ERROR %v\r\n", err), err.Reason == stats.ReasonReset) {
		w.endStep(w.planner.Calls[n].Request)
	}
}

// noteMissed remembers for the server of call n the keys whose latest write it may not have got.
func (w *Worker) noteMissed(n int32, err *backend.Error) {
	if !w.planner.Writes(n) {
		return
	}
	c := &w.planner.Calls[n]
	server := w.options.Servers[c.Server]
	if !c.IsCheck() {
		w.noteUnmarked(c.Request, c.Server)
	}
	if all := w.planner.Missed(n, func(key []byte) { server.Missed(key, err.Err) }); all {
		server.MissedAll(err.Err)
	}
}

// leaveBehind tells the servers that held the key of requests[i] under a previous placement, and do not hold it now,
// that it is written.
func (w *Worker) leaveBehind(i int32) {
	var room, earlier [16]int
	key := w.planner.Requests[i].Key()
	holders := w.options.Router.Replicas(w.planner.Requests[i].ClientKey(), room[:0])
	for _, f := range w.options.Previous {
		for _, k := range f.Router.Replicas(key, earlier[:0]) {
			s := f.Servers[k]
			if s != nil && !slices.ContainsFunc(holders, func(h int) bool { return w.options.Servers[h] == s }) {
				s.LeaveBehind(key)
			}
		}
	}
}
