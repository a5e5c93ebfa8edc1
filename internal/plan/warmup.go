package plan

import (
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
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

// findFills finds the servers that are warmed up.
func (p *Planner) findFills() {
	for s := range p.all {
		if p.options.Router.WarmsUpServer(s) {
			if p.fills == nil {
				p.fills = make([]bool, len(p.all))
			}
			p.fills[s] = true
		}
	}
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
	if p.fills == nil || !r.mayAskNew() {
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
	p.readOf(r).before = r.span
	return true
}

// asksNew reports whether call n is the read r's question to a server that is warmed up.
func (p *Planner) asksNew(r *Request, n int32) bool {
	return r.warms() && r.step != warming && p.Calls[n].form == formClientVersion
}

// afterWarming lets other servers be asked for keys of a read that were not found in the pool that is warmed up, or not
// answered.
func (p *Planner) afterWarming(r *Request) step {
	again := false
	if !r.Command.IsRetrieval() {
		c := &p.Calls[r.first]
		switch {
		case r.step != warming && !c.is(failed):
			it, _ := protocol.DecodeItem(c.reply)
			again = c.kind == protocol.ReplyMetaMiss || protocol.IsProvisional(it.CAS)
		case c.is(failed):
			again = r.step != warming || p.mayTryAgain(r, r.first)
		}
	} else {
		for k := range r.read.keys {
			at := &r.read.keys[k]
			n := at.call
			c := &p.Calls[n]
			switch {
			case n < r.first: // an earlier step has answered it
				continue
			case c.is(failed):
				at.server = keyUnread
				if c.form != formClientVersion && !p.mayTryAgain(r, n) {
					at.server = keyAnswered
				}
			case c.form != formClientVersion || c.kind != protocol.ReplyEnd || c.cutOff() && int32(k) >= c.cut:
				at.server = keyAnswered
			case at.end > 0:
				at.server = keyAnswered
			default:
				at.server, at.lacks = keyUnread, true
			}
			again = again || at.server == keyUnread
		}
	}
	if !again {
		return answered
	}
	switch r.step {
	case warming:
		r.read.tries++
	case reading:
		r.read.tried.first = r.first
	}
	r.read.tried.last = r.last
	return warming
}

// Values of readKey.server while it is not known from which server a key will be read.
const (
	keyAnswered = -1 // none: the key is answered
	keyUnread   = -2 // still to be chosen
)

// mayTryAgain reports whether another server can be asked for what call n, which failed, asked for; or the same one, if
// it closed the connection. A gat that expires its items has done so on the other servers.
func (p *Planner) mayTryAgain(r *Request, n int32) bool {
	replicas := p.replicas(n)
	if replicas > 1 {
		return r.tries() < replicas-1 && !r.Expires()
	}
	return p.Calls[n].is(lost) && r.tries() == 0
}

// planWarming asks other servers for what afterWarming has found missing.
func (p *Planner) planWarming(r *Request) {
	p.noteFailed(r)
	c := &choice{avoid: p.failed}
	if !r.Command.IsRetrieval() {
		lacks := !p.Calls[r.read.before.first].is(failed)
		p.forward(r, p.readServer(r, r.in, r.key, c))
		p.Calls[len(p.Calls)-1].set(afterMiss, lacks)
		return
	}
	keys := r.read.keys
	for _, lacks := range []bool{true, false} {
		first := len(p.Calls)
		for k := range keys {
			key := keys[k].of(r.Keys)
			if keys[k].server == keyUnread && keys[k].lacks == lacks {
				in, stored := p.reads.At(key)
				keys[k].server = int32(p.readServer(r, in, stored, c))
			}
		}
		for s := range p.all {
			p.planKeysOf(r, s, keys)
		}
		for n := first; n < len(p.Calls); n++ {
			p.Calls[n].set(afterMiss, lacks)
		}
		for k := range keys {
			if keys[k].server >= 0 {
				keys[k].server = keyAnswered
			}
		}
	}
}

// unansweredOf returns the error that answers the read r, nil if there is none: the last error of a key that has no
// answer. A key that the pool which is warmed up does not hold always has an answer, a miss.
func (p *Planner) unansweredOf(r *Request) (failure []byte) {
	for _, at := range r.read.keys {
		if c := &p.Calls[at.call]; c.kind.IsError() && !c.cutOff() &&
			!(c.is(failed) && (c.is(afterMiss) || p.options.GetErrorMiss)) {
			failure = c.reply
		}
	}
	return failure
}

// worstOf classifies unansweredOf.
func (p *Planner) worstOf(r *Request) stats.Result {
	if p.unansweredOf(r) != nil {
		return stats.ResultServerError
	}
	return stats.ResultOK
}

// noteWarmed counts how the read of key ended with call c. lacks: the pool that is warmed up does not hold it.
func (p *Planner) noteWarmed(key []byte, c *Call, lacks, found bool) {
	pool := p.reads.In(key)
	if !pool.WarmsUp() {
		return
	}
	w := &p.Warming[pool.Number()]
	switch {
	case c.form == formClientVersion && found:
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
	p.noteWarmed(r.ClientKey(), c, c.is(afterMiss), c.kind.Shows())
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
		if key := r.clientKey(text); p.oldFirst(p.options.Router.In(key), key) {
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
		key := r.clientKey(text)
		p.findPlace(p.options.Router.In(key), key)
		for _, h := range p.place {
			s := int(h.Server)
			switch {
			case !h.Roles.Has(route.After):
			case r.Has(protocol.Reads) && !h.Roles.Has(route.Tentative):
				p.touch(r, s, text)
			default:
				op := protocol.KeyText{Text: text, Encoded: r.Has(protocol.Encoded)}.Meta('d', "")
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
	r.span, r.read.before = r.read.before, span{}
	if r.split == nil || r.is(fixed) {
		return answered
	}
	return p.afterSplit(r)
}
