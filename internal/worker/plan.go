package worker

import (
	"context"
	"fmt"
	"slices"

	"mcmw/internal/backend"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// call is one request to one server.
type call struct {
	request int32
	server  int32
	command protocol.Command // what kind of reply is due
	// hidden: the reply is no part of the client's, unless it is an error.
	hidden bool
	// barrier: an mn follows the request, and its reply ends this one.
	barrier bool
	// dropping: what comes is not kept, from the key on that has the number cutKey and stands at offset cut in keys.
	dropping bool
	// tooLarge is the size of a value larger than Options.MaxValue, bytes, which makes the reply an error; 0: there was none.
	tooLarge int
	// skipped: the line end behind the data of such a value comes next; final: it ends the reply.
	skipped, final bool
	cutKey         int32
	cut            int

	// Of a retrieval (and of a touch that goes with one): the keys in the order asked, and how far VALUEs have come in them.
	keys    []byte
	cursor  int   // offset of the next key in keys
	ordinal int32 // number of the next key
	found   int32 // VALUEs so far
	item    int32 // items[item:item+found], if the request's keys were spread by placement
	asked   int32 // of merging: keys that were looked for in this call
	added   int32 // of merging: VALUEs that were added to the reply

	// The reply: all its bytes, and the kind of its last element, which for a list is what ends it.
	reply  []byte
	kind   protocol.ReplyKind
	failed bool // reply is an error made here, because the server gave none
	reason stats.Reason
	// arrived orders the replies of a round by the time they came.
	arrived int
}

// plan decides which servers requests[i] needs, and adds the calls to their connections' output. It reports whether the
// rest of the batch has to wait for the next round.
func (w *Worker) plan(ctx context.Context, i int32) (barrier bool) {
	r := &w.requests[i]
	if len(w.options.Previous) > 0 && r.changes() {
		w.leaveBehind(r.key)
	}
	switch {
	case r.Answer != "" && !r.HasEffect():
	case r.Answer != "" && !r.Command.IsRetrieval():
		w.planDeletion(ctx, i)
	case r.NumKeys == 0:
		w.planControl(ctx, i)
	case r.Command.IsRetrieval():
		w.planRetrieval(ctx, i)
	case r.Has(protocol.Reads):
		w.planItem(ctx, i)
	default:
		return w.planWrite(ctx, i)
	}
	return false
}

// changes reports whether r may change the value of its key.
func (r *pending) changes() bool {
	return r.NumKeys > 0 && r.Has(protocol.Writes) && !r.Has(protocol.Reads) && (r.Answer == "" || r.HasEffect())
}

// leaveBehind tells the servers that held key under a previous placement, and do not now, that it is written.
func (w *Worker) leaveBehind(key []byte) {
	holders := w.options.Router.Replicas(key, w.holders[:0])
	var room [16]int
	for _, f := range w.options.Previous {
		for _, k := range f.Router.Replicas(key, room[:0]) {
			s := f.Servers[k]
			if s != nil && !slices.ContainsFunc(holders, func(h int) bool { return w.options.Servers[h] == s }) {
				s.LeaveBehind(key)
			}
		}
	}
	w.holders = holders
}

// open adds a call of requests[i], for keys, to server s, and returns the connection to add the call's bytes to; nil if
// the server can't be reached, in which case the call has failed already.
func (w *Worker) open(ctx context.Context, i int32, s int, command protocol.Command, keys []byte) (*call, *backend.Conn) {
	n := int32(len(w.calls))
	w.calls = append(w.calls, call{request: i, server: int32(s), command: command, keys: keys, item: -1})
	r := &w.requests[i]
	r.last = n + 1
	c := &w.calls[n]
	conn := w.conns[s]
	err := w.connect(ctx, r, s, command)
	if err != nil {
		w.fail(c, err)
		w.record.ServerError(s, err.Reason)
		return c, nil
	}
	r.left++
	w.options.Servers[s].Begin(w.dequeued)
	w.fifo[s] = append(w.fifo[s], n)
	return c, conn
}

// connect makes sure that there is a connection to server s for a call of r. A server that may hold keys which missed a write
// is asked for none.
func (w *Worker) connect(ctx context.Context, r *pending, s int, command protocol.Command) *backend.Error {
	reads := r.step == stepCompare || (r.Has(protocol.Reads) && command == r.Command)
	if reads && w.options.Servers[s].Stale() {
		return w.conns[s].Refuse()
	}
	if r.expired && w.options.Servers[s].Suspected() {
		return w.conns[s].TimedOut()
	}
	if len(w.waiting(s)) > 0 {
		return nil // in use: it owes replies
	}
	w.conns[s].Until = max(w.end(r)-int64(w.options.Timeout/reserve), w.flushed+int64(w.options.Timeout/leastTime))
	if w.patient {
		return w.conns[s].Connect(ctx, 0, nil)
	}
	return w.conns[s].Connect(ctx, w.options.StallAfter, w.onStall[s])
}

// fail makes an error of err the call's reply.
func (w *Worker) fail(c *call, err *backend.Error) {
	w.arrivals++
	c.arrived = w.arrivals
	c.failed, c.found, c.reason = true, 0, err.Reason
	c.kind = protocol.ReplyServerError
	c.reply = fmt.Appendf(nil, "SERVER_ERROR %v\r\n", err)
	w.noteMissed(c, err)
}

// changes reports whether c may change what its server holds.
func (w *Worker) changes(c *call) bool { return w.requests[c.request].Has(protocol.Writes) }

// noteMissed remembers for the server of a failed call the keys whose latest write it may not have got.
func (w *Worker) noteMissed(c *call, err *backend.Error) {
	r := &w.requests[c.request]
	s := w.options.Servers[c.server]
	if w.changes(c) {
		w.unmarked = append(w.unmarked, c.server)
	}
	switch {
	case !w.changes(c):
	case r.NumKeys == 0:
		s.MissedAll(err.Err)
	case r.Command.IsRetrieval():
		for rest := c.keys; len(rest) > 0; {
			var key []byte
			key, rest = nextWord(rest)
			if len(key) > 0 {
				s.Missed(key, err.Err)
			}
		}
	default:
		s.Missed(r.key, err.Err)
	}
}

// forward sends requests[i] to server s as it was understood, but so that the end of its reply can be told: a classic command always
// asks for a reply; an administration command and a quiet meta command, which may have none, are followed by an mn; where
// replicas are to be compared a quiet meta command asks for its reply as well.
func (w *Worker) forward(ctx context.Context, i int32, s int) {
	r := &w.requests[i]
	c, conn := w.open(ctx, i, s, r.Command, r.Keys)
	c.barrier = r.Has(protocol.Fenced) && !(r.replicated() && w.options.Router.N() > 1)
	if conn == nil {
		return
	}
	switch {
	case r.Has(protocol.Quiet) && !c.barrier:
		start := len(w.lines)
		w.lines = protocol.AppendMeta(w.lines, r.Head, "q")
		conn.Out.Add(w.lines[start:])
		conn.Out.Add(r.Data)
	case r.Exact:
		conn.Out.Add(r.Raw)
	default:
		conn.Out.Add(r.Head)
		conn.Out.AddString(protocol.CRLF)
		conn.Out.Add(r.Data)
	}
	if c.barrier {
		conn.Out.NextUnit()
		conn.Out.AddString("mn\r\n")
	}
}

// planControl plans what works on servers rather than keys.
func (w *Worker) planControl(ctx context.Context, i int32) {
	r := &w.requests[i]
	switch {
	case r.Has(protocol.Everywhere):
		w.flushAll = w.flushAll || r.Has(protocol.Writes)
		for s := range w.conns {
			w.forward(ctx, i, s)
		}
	case r.Has(protocol.Closes), r.Has(protocol.Local):
	case r.Has(protocol.Fenced) && len(w.conns) > 1:
		r.text = fmt.Sprintf("CLIENT_ERROR %s is for one server and not available through mcmw in front of %d\r\n", r.Arg, len(w.conns))
	default:
		w.forward(ctx, i, 0)
	}
}
