package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// planDecided sends r to the first server, which decides it, and fetches the resulting item if it cannot be
// known otherwise.
func (p *Planner) planDecided(r *Request, first int) {
	r.step = deciding
	p.forward(r, first)
	if r.is(versioned) && r.Has(protocol.Builds) {
		r.write.fetch = int32(len(p.Calls))
		op := r.served().KeyText().Ask(protocol.ForItem)
		c := p.send(r, first, &op)
		c.form, c.state = formItem, hidden
	}
}

// Fetches reports whether c fetches the item that its request has made, to copy it.
func (c *Call) Fetches() bool { return c.form == formItem }

// afterDeciding lets the other servers get what the first one has stored.
func (p *Planner) afterDeciding(r *Request, _ bool) step {
	r.write.chosen = r.first
	c := &p.Calls[r.first]
	if !r.is(versioned) {
		if outcomeOf(r, c) == replica.Success {
			return copying
		}
		return answered
	}
	// The first server lacks an item that is to be marked stale, but the others may hold it.
	unmarked := r.Has(protocol.Marks) && !r.Has(protocol.Conditional) && !c.is(failed) && c.kind.IsNotFound()
	if outcomeOf(r, c) != replica.Success && !unmarked {
		p.checkRefused(r)
		return answered
	}
	if r.Fetches() {
		it, _ := protocol.DecodeItem(c.reply)
		r.write.dropped = r.Version() != 0 && it.Won
		if r.write.dropped || r.HasFlag('T') {
			return copying
		}
		return answered
	}
	if r.write.fetch == 0 {
		r.write.dropped = r.Has(protocol.Deletes) || r.Has(protocol.Marks)
		return copying
	}
	fetched := &p.Calls[r.write.fetch]
	it, ok := protocol.DecodeItem(fetched.reply)
	switch {
	case fetched.is(failed):
		r.write.chosen, r.write.dropped = r.write.fetch, true
	case !ok || it.Stale:
		r.write.dropped = true // it is missing, was not kept, cannot be copied, or must exist on the first server only
	case it.CAS != r.write.version:
		return stamping
	}
	return copying
}

// planStamp gives the item that the first server has made, under a cas of its own, a version.
func (p *Planner) planStamp(r *Request) {
	it, _ := protocol.DecodeItem(p.Calls[r.write.fetch].reply)
	r.write.version = p.options.Versions.next()
	op := r.served().KeyText().Store(it, it.CAS, r.write.version)
	p.send(r, int(p.Calls[r.write.chosen].Server), &op).form = formStored
}

// afterStamp lets the other servers get a copy or lose the key, unless another request has written the key since: they
// get what that wrote.
func (p *Planner) afterStamp(r *Request, _ bool) step {
	c := &p.Calls[r.first]
	switch {
	case c.is(failed):
		r.write.chosen, r.write.dropped = r.first, true
	case c.kind.IsError(), c.kind.IsNotFound():
		r.write.dropped = true
	case c.kind != protocol.ReplyMetaDone:
		return answered
	case r.HasFlag('c'):
		answer := &p.Calls[r.write.chosen]
		it, _ := protocol.DecodeItem(answer.reply)
		it.CAS = r.write.version
		start := len(p.lines)
		p.lines = append(it.Append(p.lines), it.Data...)
		answer.reply = p.lines[start:]
	}
	return copying
}

// planCopies gives the other servers what the first one has stored. An item that is not known cannot be copied: then
// they lose the key.
func (p *Planner) planCopies(r *Request) {
	w, first := r.write, int(p.Calls[r.write.chosen].Server)
	p.findHolders(r)
	p.withholdHead(r)
	op, form, kind := *r.served(), formClient, stores
	switch {
	case !r.is(versioned) && r.Has(protocol.Marks):
		op, kind = op.Deletion(), hidden
	case !r.is(versioned):
		op.DropCondition()
	case w.dropped:
		op, kind = op.KeyText().Meta('d', ""), hidden
	case r.Fetches(): // it only changes the expiry
		op.Fields, kind = op.Fields&protocol.FieldsOf("Tb"), hidden
	case w.fetch > 0:
		it, _ := protocol.DecodeItem(p.Calls[w.fetch].reply)
		op, form = op.KeyText().Store(it, 0, w.version), formStored
	case w.version != 0:
		if !r.Command.IsMeta() {
			form = formStored
		}
		op.Stamp(w.version)
		op.Drop("CMIN")
	}
	line := p.write(&op)
	for _, s := range p.holders {
		switch {
		case s == first:
		case r.is(versioned) && w.version == 0 && !w.dropped && p.rolesOf(s).Has(route.Tentative):
			// A change of the expiry would also change that of a copy that nobody reads yet.
			p.deleteKey(r, s)
		case r.is(versioned) && w.version == 0 && kind == stores:
			p.forward(r, s)
			// A server that gets writes last may lack the key: it is not copied yet.
			p.Calls[len(p.Calls)-1].set(hidden, p.rolesOf(s).Has(route.After))
		default:
			c := p.call(r, s, &op, line, op.Data)
			c.form, c.state = form, kind
		}
	}
	p.planEmptied(r)
	if w.fetch > 0 && w.dropped {
		p.giveBack(r, first)
	}
}

// giveBack undoes what fetching a stale item has done: the next client that reads it has to renew it.
func (p *Planner) giveBack(r *Request, first int) {
	if it, _ := protocol.DecodeItem(p.Calls[r.write.fetch].reply); it.Won && it.Stale {
		op := r.served().KeyText().GiveBack(it.CAS)
		p.send(r, first, &op).state |= hidden
	}
}

// checkRefused begins a check of r's key if the first server has refused r because of its token, and another server may
// have shown that. It deletes what a client would otherwise read again and again: a copy of an item that the first
// server has lost, or has replaced in a write that was never finished.
func (p *Planner) checkRefused(r *Request) {
	c := &p.Calls[r.first]
	if !r.Has(protocol.Conditional) || r.CAS < protocol.FirstVersion || outcomeOf(r, c) != replica.Refused ||
		r.in.Read() == route.ReadPrimary ||
		p.latest(p.options.Stripe(r.key), r.in.Number(), r.served().KeyText()) !=
			nil { // a store's check must not be lost
		return
	}
	p.findHolders(r)
	p.stored = append(p.stored[:0], c.Server)
	for _, s := range p.holders {
		if s != int(c.Server) && p.Servers[s].Readable {
			p.stored = append(p.stored, int32(s))
		}
	}
	if len(p.stored) > 1 {
		p.newCheck(r, r.CAS, p.stored)
	}
}
