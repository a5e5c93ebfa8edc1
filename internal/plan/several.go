package plan

import (
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// This file has what differs if items have versions; see Pool.Versions. Other mcmw instances may write the same
// servers.

// textStamped refuses a cas that the client chooses: mcmw stores its versions there.
const textStamped = "CLIENT_ERROR the flag E is not available through mcmw with several writers: mcmw stores its " +
	"versions there\r\n"

// addSeveral checks and prepares a request that was added.
func (p *Planner) addSeveral(r *Request) {
	refusal := ""
	if r.Command.IsMeta() && r.Has(protocol.Writes) {
		switch {
		case r.Has(protocol.Stamped):
			refusal = textStamped
		case !r.Has(protocol.Quiet) && r.Words() >= protocol.MaxMetaWords: // E is one more word
			refusal = protocol.TextMetaTooLong
		}
	}
	// Where nobody else writes, replicas do not differ without a version. So a command that deletes an item, or leaves
	// one that is stale or empty, reaches all replicas in the same form, and each of them shows what one server would.
	if !p.options.Pools[r.in.Number()].Several &&
		(refusal != "" || r.Has(protocol.Deletes) || r.Has(protocol.Marks) || r.Fetches() && r.Has(protocol.Writes)) {
		r.state &^= versioned
		return
	}
	r.set(decided, r.Has(protocol.Depends) || r.Has(protocol.Writes) && !r.Has(protocol.Reads) && p.oldFirst(r.in, r.key))
	if refusal != "" {
		r.Fail(refusal)
	}
	if r.Has(protocol.Makes) {
		p.writeOf(r).version = p.options.Versions.next()
	}
}

// forwardVersioned sends requests[i] to servers, under its version.
func (p *Planner) forwardVersioned(r *Request, servers ...int) {
	op := *r.served()
	op.Stamp(r.write.version)
	line := p.write(&op)
	for _, s := range servers {
		c := p.call(r, s, &op, line, op.Data)
		c.state = stores
		c.set(reads, r.depends())
		switch {
		case r.Command.IsMeta():
		case r.Command.IsStorage():
			c.form = formStored
		default:
			c.form = formCounter
		}
	}
}

// moveToFront moves first, one of holders, to the front.
func (p *Planner) moveToFront(holders []int, first int) {
	k := slices.Index(holders, first)
	copy(holders[1:k+1], holders[:k])
	holders[0] = first
}

// planDecided sends requests[i] to the first server, which decides it, and fetches the resulting item if it cannot be
// known otherwise.
func (p *Planner) planDecided(r *Request, first int) {
	r.step = deciding
	p.forward(r, first)
	if r.is(versioned) && r.Has(protocol.Builds) {
		r.write.look = int32(len(p.Calls))
		op := r.served().KeyText().Ask(protocol.ForItem)
		c := p.send(r, first, &op)
		c.form, c.state = formItem, hidden
	}
}

// LooksBack reports whether c fetches the item that its request has made, to copy it.
func (c *Call) LooksBack() bool { return c.form == formItem }

// settleDecided returns the step that follows the first server's decision.
func (p *Planner) settleDecided(r *Request) step {
	r.write.chosen = r.first
	c := &p.Calls[r.first]
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
	if r.write.look == 0 {
		r.write.dropped = r.Has(protocol.Deletes) || r.Has(protocol.Marks)
		return copying
	}
	look := &p.Calls[r.write.look]
	it, ok := protocol.DecodeItem(look.reply)
	switch {
	case look.is(failed):
		r.write.chosen, r.write.dropped = r.write.look, true
	case !ok || it.Stale:
		r.write.dropped = true // it is missing, was not kept, cannot be copied, or must exist on the first server only
	case it.CAS != r.write.version:
		return stamping
	}
	return copying
}

// planStamp gives the item that the first server has made, under a cas of its own, a version.
func (p *Planner) planStamp(r *Request) {
	it, _ := protocol.DecodeItem(p.Calls[r.write.look].reply)
	r.write.version = p.options.Versions.next()
	op := r.served().KeyText().Store(it, it.CAS, r.write.version)
	p.send(r, int(p.Calls[r.write.chosen].Server), &op).form = formStored
}

// settleStamp lets the other servers get a copy or lose the key, unless another request has written the key since: they
// get what that wrote.
func (p *Planner) settleStamp(r *Request, _ bool) step {
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

// planVersionedCopies gives the other servers what the first one decided.
func (p *Planner) planVersionedCopies(r *Request) {
	first := int(p.Calls[r.write.chosen].Server)
	p.findHolders(r)
	p.withholdHead(r)
	op, form := *r.served(), formClient
	switch {
	case r.write.dropped:
		op = op.KeyText().Meta('d', "")
	case r.Fetches():
		op.Fields &= protocol.FieldsOf("Tb") // it only changes the expiry
	case r.write.look > 0:
		it, _ := protocol.DecodeItem(p.Calls[r.write.look].reply)
		op, form = op.KeyText().Store(it, 0, r.write.version), formStored
	case r.Version() != 0:
		if !r.Command.IsMeta() {
			form = formStored
		}
		op.Stamp(r.write.version)
		op.Drop("CMIN")
	}
	line := p.write(&op)
	kind := stores
	if r.write.dropped || r.Fetches() {
		kind = hidden
	}
	for _, s := range p.holders {
		switch {
		case s == first:
			continue
		case r.Version() == 0 && !r.write.dropped && p.rolesOf(s).Has(route.Tentative):
			// A change of the expiry would also change that of a copy that nobody reads yet.
			p.deleteKey(r, s)
			continue
		case r.Version() == 0 && kind == stores:
			p.forward(r, s)
			// A server that gets writes last may lack the key: it is not copied yet.
			p.Calls[len(p.Calls)-1].set(hidden, p.rolesOf(s).Has(route.After))
			continue
		}
		c := p.call(r, s, &op, line, op.Data)
		c.form, c.state = form, kind
	}
	p.planEmptied(r)
	if r.write.look > 0 && r.write.dropped {
		p.giveBack(r, first)
	}
}

// giveBack undoes what a look at a stale item has done: the next client that reads it has to renew it.
func (p *Planner) giveBack(r *Request, first int) {
	if it, _ := protocol.DecodeItem(p.Calls[r.write.look].reply); it.Won && it.Stale {
		op := r.served().KeyText().GiveBack(it.CAS)
		p.send(r, first, &op).state |= hidden
	}
}

// classify corrects the outcome and the group of the k-th answer, if other mcmw instances write the same servers. A
// write that only the first server decided has succeeded there, the first server's answer to a touch counts, and copies
// stored under one version are equal.
func (p *Planner) classify(r *Request, k int, decided bool) {
	a, first := &p.answers[k], &p.answers[0]
	definite := func(o replica.Outcome) bool { return o == replica.Success || o == replica.Refused }
	switch {
	case k == 0 && decided && !p.Calls[p.answered[0]].is(failed):
		a.Outcome = replica.Success
	case k == 0:
	case r.Version() == 0 && !r.Has(protocol.Deletes) && !decided && definite(a.Outcome) && definite(first.Outcome):
		a.Outcome, a.Group = first.Outcome, 0
	case r.Version() != 0 && a.Outcome == replica.Success:
		for j := range p.answers[:k] {
			if p.answers[j].Outcome == replica.Success {
				a.Group = p.answers[j].Group
				return
			}
		}
	}
}
