package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// Call is one request to one server.
type Call struct {
	// Request and Server are the indexes of the request that it serves and of the server that it goes to; see IsCheck.
	Request, Server int32
	// Bytes are sent one after the other. They point into the client's buffer or the planner's lines.
	Bytes [3][]byte
	// TooLarge is the size of a value larger than Options.MaxValue, bytes, which makes the reply an error; 0: there was
	// no such value.
	TooLarge int
	state
	command protocol.Command // the command whose reply is expected
	form    form             // further requirements on the reply
	keys    []byte           // of a retrieval, and of a touch that goes with one: the keys in the order asked
	values                   // what has arrived of a retrieval
	kind    protocol.ReplyKind
	reply   []byte
	arrived int32 // order in which the calls of the round ended
}

// values says which values of a retrieval have arrived.
type values struct {
	cursor int32 // offset in the call's keys of the key after the one that came last
	next   int32 // if the keys are spread, its index in readExtra.keys; of a check: number of lines that were answered
	found  int32 // number of values that were kept
	cut    int32 // if the call is dropped: where the first key is whose value was not kept, as cursor or next say it
}

// Fence reports whether an mn is sent after Bytes, whose reply ends the call's reply.
func (c *Call) Fence() bool { return c.is(fence) }

// Reads reports whether the call must not go to a stale server.
func (c *Call) Reads() bool { return c.is(reads) }

// Dropped reports whether the caller need not keep what arrives for the call.
func (c *Call) Dropped() bool { return c.is(dropped) }

// replicas returns how many servers hold a key that call n asks about. Of a read these are the servers of its pool. Of
// a write whose key moves between pools they are those of both, or those of the larger pool.
func (p *Planner) replicas(n int32) int {
	c := &p.Calls[n]
	if r := &p.Requests[c.Request]; !r.Has(protocol.Reads) && r.in.Moving() {
		return r.in.N()
	}
	return p.options.Router.Of(int(c.Server)).N()
}

// Movable reports whether call n reads what another server can answer now. A gat does not: it writes. Nor does a read
// that shows a cas, unless it is a version: only the first server knows it.
func (p *Planner) Movable(n int32) bool {
	if p.Calls[n].IsCheck() {
		return false
	}
	r := &p.Requests[p.Calls[n].Request]
	if r.step == asking {
		return p.asksAnother(n)
	}
	return (p.replicas(n) > 1 || p.Calls[n].asksNew()) && r.step == reading && r.readsOnly() &&
		p.movable(r, p.options.Router.Of(int(p.Calls[n].Server)))
}

// Writes reports whether call n may change what its server holds, or checks whether it holds what it should. Without a
// reply such a server counts as one that has missed a write.
func (p *Planner) Writes(n int32) bool {
	return p.Calls[n].IsCheck() || p.Requests[p.Calls[n].Request].Has(protocol.Writes)
}

// call adds a call of r to server s. It sends line and data one after the other; this is op, as a whole or in
// part.
func (p *Planner) call(r *Request, s int, op *protocol.Op, line []byte, data ...[]byte) *Call {
	if r.ttl > 0 && r.Has(protocol.Writes) && p.options.Router.Of(s).IsGutter() {
		line = p.capped(r, op)
	}
	n := len(p.Calls)
	p.Calls = extend(p.Calls)
	c := &p.Calls[n]
	c.Request, c.Server, c.command, c.keys = r.number, int32(s), op.Command, op.Keys
	c.Bytes[0] = line
	copy(c.Bytes[1:], data)
	r.last = int32(n + 1)
	r.left++
	return c
}

// write returns op's line.
func (p *Planner) write(op *protocol.Op) []byte {
	start := len(p.lines)
	p.lines = op.Append(p.lines)
	return p.lines[start:]
}

// send adds a call of r that sends op to server s.
func (p *Planner) send(r *Request, s int, op *protocol.Op) *Call {
	return p.call(r, s, op, p.write(op), op.Data)
}

var crlf = []byte(protocol.CRLF)

// forward sends r to server s as it was understood, but such that the end of its reply can be recognized: a
// classic command always asks for a reply, a command that may get no reply is followed by an mn, and where replicas are
// compared a quiet command asks for its reply as well.
func (p *Planner) forward(r *Request, s int) {
	var c *Call
	switch {
	case r.Version() != 0:
		p.forwardVersioned(r, s)
		return
	case r.step >= writing && r.Has(protocol.Quiet):
		op := *r.served()
		op.Drop("q")
		c = p.send(r, s, &op)
	case r.Exact && r.ttl == 0:
		c = p.call(r, s, &r.Op, r.Raw)
		c.set(fence, r.Has(protocol.Fenced))
	default:
		c = p.send(r, s, r.served())
		c.set(fence, r.Has(protocol.Fenced))
	}
	c.set(reads, r.MustRead())
}

// deleteKey deletes the key of r on server s.
func (p *Planner) deleteKey(r *Request, s int) {
	op := r.served().Deletion()
	p.send(r, s, &op).state |= hidden
}

// findHolders finds the servers of r's only key. Those of a request stay the same in all its steps, even if a gutter
// begins or ceases to stand in for them.
func (p *Planner) findHolders(r *Request) {
	w := p.writeOf(r)
	if len(w.place) == 0 {
		w.place, w.decides = r.in.Holders(r.key, p.states, w.place)
	}
	p.place, p.decides = w.place, w.decides
	p.divide()
}

// findPlace finds the servers of key, of the pool in.
func (p *Planner) findPlace(in *route.Group, key []byte) {
	p.other, p.decides = in.Holders(key, p.states, p.other[:0])
	p.place = p.other
}

// divide finds the servers of place that store the key, and those that delete it.
func (p *Planner) divide() {
	p.holders, p.emptied = p.holders[:0], p.emptied[:0]
	for _, h := range p.place {
		switch {
		case h.Roles.Has(route.Store):
			p.holders = append(p.holders, int(h.Server))
		case h.Roles.Has(route.Drop):
			p.emptied = append(p.emptied, int(h.Server))
		}
	}
}

// readersOf returns the servers of place that answer reads without another server's word.
func (p *Planner) readersOf() []int {
	p.readers = p.readers[:0]
	for _, h := range p.place {
		if h.Roles.Has(route.Read) && !h.Roles.Has(route.Tentative) {
			p.readers = append(p.readers, int(h.Server))
		}
	}
	return p.readers
}

// rolesOf returns the roles of server s in place.
func (p *Planner) rolesOf(s int) route.Roles {
	for _, h := range p.place {
		if int(h.Server) == s {
			return h.Roles
		}
	}
	return 0
}

// planEmptied deletes the key of r on the servers in emptied: those that must not hold it during a change of
// placement, and those that others stand in for. findHolders was called before.
func (p *Planner) planEmptied(r *Request) {
	for _, s := range p.emptied {
		p.deleteKey(r, s)
		p.Calls[len(p.Calls)-1].state |= empties
	}
}
