package plan

import (
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// A read asks a pool that is warmed up (route.MigrationWarmUp), the new pool, before the pool that its keys are in, the
// old one. The new pool may hold copies that must not be read yet; these have a provisional version. So reads ask it
// for versions, which the client does not get:
//
//	read   ask the new pool, for versions --> ask the old one for what the new one lacks or fails to answer --> answer
//	write  ask the old pool's first server --> copy to the others; a mere change of expiry deletes the key in the new pool --> answer
//	gat    ask the old pool --> delete in the new pool --> answer
//
// If some servers of a pool are warmed up from its others, a key's cold servers take the part of the new pool, and its
// other servers that of the old one. A read then begins at a cold server only if it would go there without a warm-up,
// too.
//
// Keys that only the old pool holds are to be copied (Lacking). If the old pool does not answer for a key that the new
// pool has answered with a miss, this is no error but a miss.

// Lacking is a key that a pool being warmed up from the pool numbered Pool does not hold. Key is as the servers know
// it.
type Lacking struct {
	Pool int
	Key  []byte
}

// oldFirst reports whether servers of key, of the pool in, get writes only after its other servers.
func (p *Planner) oldFirst(in *route.Group, key []byte) bool {
	if !in.Uses(route.After) {
		return false
	}
	p.findPlace(in, key)
	return slices.ContainsFunc(p.place, func(h route.Holder) bool { return h.Roles.Has(route.After) })
}

// mayAskNew reports whether a pool that is warmed up may answer the request r: it is a read that changes nothing and
// shows no cas.
func (r *Request) mayAskNew() bool { return r.IsRead() && r.Answer == "" }

// warmServer returns the server that is warmed up and that the read r asks first for key; -1: there is none. If only
// some servers of the pool are warmed up, it is the server that would be read without a warm-up.
func (p *Planner) warmServer(r *Request, key []byte, c *choice) int {
	if !p.warmsUp || !r.mayAskNew() || r.step != reading {
		return -1
	}
	in := p.reads.In(key)
	if !in.WarmsUp() {
		return -1
	}
	p.findPlace(in, key)
	p.readers = p.readers[:0] // those that are warmed up as well
	for _, h := range p.place {
		s := int(h.Server)
		if h.Roles.Has(route.Look) && p.mayRead(s, c.avoid) && !p.Servers[s].Suspect {
			p.readOf(r).warms = true
			return s
		}
		if h.Roles.Has(route.Read) {
			p.readers = append(p.readers, s)
		}
	}
	s := p.pick(r, in, p.readers, c)
	if !p.rolesOf(s).Has(route.Tentative) || !p.mayRead(s, c.avoid) || p.Servers[s].Suspect {
		return -1
	}
	p.readOf(r).warms = true
	return s
}

// planMgOnNew sends an mg of a key of the pool in to the server that warmServer returns, and reports whether there is
// one.
func (p *Planner) planMgOnNew(r *Request, in *route.Group, c *choice) bool {
	if !in.WarmsUp() || r.Words() >= protocol.MaxMetaWords {
		return false
	}
	s := p.warmServer(r, r.key, c)
	if s < 0 {
		return false
	}
	op := *r.served()
	op.Drop("q")
	op.Fields |= protocol.FieldsOf("c")
	call := p.send(r, s, &op)
	call.form, call.state = formClientVersion, reads
	return true
}

// asksNew reports whether c is a read's question to a server that is warmed up.
func (c *Call) asksNew() bool { return c.form == formClientVersion }

// noteWarmed counts how the read of key ended with call c. lacks: the pool that is warmed up does not hold it.
func (p *Planner) noteWarmed(key []byte, c *Call, lacks, found bool) {
	pool := p.reads.In(key)
	if !pool.WarmsUp() {
		return
	}
	w := &p.Warming[pool.Number()]
	switch {
	case c.asksNew() && found:
		w.New++
	case c.is(failed):
		w.Unanswered++
	case lacks && found:
		w.Old++
		start := len(p.lines)
		p.lines = append(p.lines, key...)
		p.Lacking = append(p.Lacking, Lacking{pool.Number(), p.lines[start:]})
	case lacks:
		w.Neither++
	}
}

// noteWarming is noteWarmed for the mg r, whose reply is c's.
func (p *Planner) noteWarming(r *Request, c *Call) {
	p.noteWarmed(r.ClientKey(), c, r.read.lacks, c.kind.Shows())
}

// afterOldFirst lets the servers that get writes last be asked to delete keys or to change their expiry, after a step
// of r in which all other servers were asked at once.
func (p *Planner) afterOldFirst(r *Request) step {
	if !p.options.Router.Uses(route.After) || r.is(failed) && !r.touches() {
		return answered
	}
	if r.IsFlush() {
		return flushing
	}
	for text := range each(r.Keys) {
		if in, stored := p.options.Router.At(r.clientKey(text)); p.oldFirst(in, stored) {
			p.readOf(r).before = r.span
			return emptying
		}
	}
	return answered
}

// planEmptying deletes the keys of r on those servers. A gat deletes them only if it would otherwise change
// the expiry of copies that nobody reads yet.
func (p *Planner) planEmptying(r *Request) {
	for text := range each(r.Keys) {
		in, stored := p.options.Router.At(r.clientKey(text))
		key := protocol.KeyText{Text: stored}
		if !r.Command.IsRetrieval() { // it has one key, which may be encoded
			key = r.served().KeyText()
		}
		p.findPlace(in, stored)
		for _, h := range p.place {
			s := int(h.Server)
			switch {
			case !h.Roles.Has(route.After):
			case r.Has(protocol.Reads) && !h.Roles.Has(route.Tentative):
				p.touch(r, s, stored)
			default:
				op := key.Meta('d', "")
				p.send(r, s, &op).state |= hidden
			}
		}
	}
}

// clientKey returns the key of r whose text is that, as clients have it.
func (r *Request) clientKey(text []byte) []byte {
	if r.NumKeys == 1 {
		return r.ClientKey()
	}
	return text
}

// afterEmptying makes the answer of the gat r that of the previous step, or the error of a server on which the key
// could not be deleted.
func (p *Planner) afterEmptying(r *Request, _ bool) step {
	if r.Answer != "" || r.is(fixed) {
		return answered
	}
	for n := r.first; n < r.last; n++ {
		if c := &p.Calls[n]; c.kind.IsError() {
			r.Fail(string(c.reply))
		}
	}
	r.span = r.read.before
	if r.split == nil || r.is(fixed) {
		return answered
	}
	return p.afterSplit(r)
}
