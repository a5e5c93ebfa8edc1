package plan

import (
	"bytes"
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/replica"
)

// What is different where others write the same servers; see Options.Versions.

// textStamped refuses what would take the versions out of the planner's hands.
const textStamped = "CLIENT_ERROR the flag E is not available through mcmw with several writers, which mark copies by it\r\n"

// addSeveral looks at a request that was added.
func (p *Planner) addSeveral(r *Request) {
	r.decided = r.Has(protocol.Depends) || r.in.OldFirst(r.key) && r.Has(protocol.Writes) && !r.Has(protocol.Reads)
	if r.Command.IsMeta() && r.Has(protocol.Writes) {
		switch {
		case r.Has(protocol.Stamped):
			r.Fail(textStamped)
		case !r.Has(protocol.Quiet) && bytes.Count(r.Head, blank)+1 >= protocol.MaxMetaWords: // E is one more
			r.Fail(protocol.TextMetaTooLong)
		}
	}
	if r.Has(protocol.Makes) {
		r.version = p.options.Versions.next()
	}
}

// forwardVersioned sends requests[i] to servers, under its version.
func (p *Planner) forwardVersioned(i int32, servers ...int) {
	r := &p.Requests[i]
	start := len(p.lines)
	p.lines = r.served().AppendVersioned(p.lines, r.version)
	line := p.lines[start:]
	for _, s := range servers {
		c := p.call(i, s, protocol.Meta, r.served().Keys, line, r.Data)
		c.Reads, c.stores = r.way == compare && r.depends(), true
		switch {
		case r.Command.IsMeta():
		case r.Command.IsStorage():
			c.form = stores
		default:
			c.form = counts
		}
	}
}

// firstAhead puts first, one of holders, in front of the others.
func (p *Planner) firstAhead(holders []int, first int) {
	k := slices.Index(holders, first)
	copy(holders[1:k+1], holders[:k])
	holders[0] = first
}

// planDecided asks the first server for what it decides, and for what came of it where that is not known.
func (p *Planner) planDecided(i int32, first int) {
	r := &p.Requests[i]
	r.way = compare
	p.forward(i, first)
	if r.several && r.Has(protocol.Builds) {
		r.look = int32(len(p.Calls))
		start := len(p.lines)
		p.lines = r.served().KeyText().AppendLook(p.lines, true)
		c := p.call(i, first, protocol.Meta, r.served().Keys, p.lines[start:])
		c.form, c.hidden = looksAll, true
	}
}

// LooksBack reports whether c fetches the item that its request has made, to copy it.
func (c *Call) LooksBack() bool { return c.form == looksAll }

// Grows reports whether r's item will hold what r brings and what was there, and is looked back at.
func (r *Request) Grows() bool { return r.version != 0 && r.Has(protocol.Builds) && len(r.Data) > 0 }

// settleDecided says what follows from the first server's decision.
func (p *Planner) settleDecided(r *Request) (again bool) {
	r.chosen = r.first
	c := &p.Calls[r.first]
	// What is to be marked and is not there may be on the others all the same.
	unmarked := r.Has(protocol.Marks) && !r.Has(protocol.Conditional) && !c.Failed && notFound(c)
	if outcomeOf(r, c) != replica.Success && !unmarked {
		return false
	}
	r.step = copying
	if r.Fetches() {
		it, _ := protocol.DecodeItem(c.reply)
		r.dropped = r.version != 0 && it.Won
		return r.dropped || protocol.HasFlag(r.Head, 'T')
	}
	if r.look < 0 {
		r.dropped = r.Has(protocol.Deletes) || r.Has(protocol.Marks)
		return true
	}
	look := &p.Calls[r.look]
	it, ok := protocol.DecodeItem(look.reply)
	switch {
	case look.Failed:
		r.chosen, r.dropped = r.look, true
	case !ok || it.Stale:
		r.dropped = true // it is gone, was not kept, cannot be copied, or must be found on the first server alone
	case it.CAS != r.version:
		r.step = stamping
	}
	return true
}

// planStamp gives what the first server has made, under a cas of its own, a version.
func (p *Planner) planStamp(i int32) {
	r := &p.Requests[i]
	it, _ := protocol.DecodeItem(p.Calls[r.look].reply)
	r.version = p.options.Versions.next()
	start := len(p.lines)
	p.lines = r.served().KeyText().AppendStore(p.lines, it, it.CAS, r.version)
	p.call(i, int(p.Calls[r.chosen].Server), protocol.Meta, r.served().Keys, p.lines[start:], it.Data).form = stores
}

// settleStamp reports whether something is left to be done for the others. Not if another has written behind it: the others get
// what that wrote.
func (p *Planner) settleStamp(r *Request) (again bool) {
	c := &p.Calls[r.first]
	switch {
	case c.Failed:
		r.chosen, r.dropped = r.first, true
	case c.kind.IsError(), notFound(c):
		r.dropped = true
	case string(c.reply[:2]) != "HD":
		return false
	case protocol.HasFlag(r.Head, 'c') && r.Command.IsMeta():
		answer := &p.Calls[r.chosen]
		start := len(p.lines)
		p.lines = protocol.AppendWithCAS(p.lines, answer.reply, r.version)
		answer.reply = p.lines[start:]
	}
	r.step = copying
	return true
}

// planVersionedCopies gives the other servers what the first one decided.
func (p *Planner) planVersionedCopies(i int32) {
	r := &p.Requests[i]
	first := int(p.Calls[r.chosen].Server)
	p.findHolders(r)
	p.withholdHead(r)
	var it protocol.Item
	start, data, form := len(p.lines), r.Data, clients
	switch {
	case r.dropped:
		p.lines = r.served().KeyText().AppendDeletion(p.lines)
	case r.Fetches():
		p.lines = r.served().AppendTouch(p.lines)
	case r.look >= 0:
		it, _ = protocol.DecodeItem(p.Calls[r.look].reply)
		p.lines = r.served().KeyText().AppendStore(p.lines, it, 0, r.version)
		data, form = it.Data, stores
	default:
		p.lines = r.served().AppendVersionedCopy(p.lines, r.version)
		if !r.Command.IsMeta() {
			form = stores
		}
	}
	line := p.lines[start:]
	hidden := r.dropped || r.Fetches()
	if hidden {
		data = nil
	}
	for _, s := range p.holders {
		switch {
		case s == first:
			continue
		case r.version == 0 && !r.dropped && isNew(r.in, r.key, s):
			// What changes the expiry alone would change that of a copy that nobody reads yet, too.
			p.deleteKey(i, s)
			continue
		case r.version == 0 && !hidden:
			p.forward(i, s)
			continue
		}
		c := p.call(i, s, protocol.Meta, r.served().Keys, line, data)
		c.form, c.hidden, c.stores = form, hidden, !hidden
	}
	p.planEmptied(i)
	if r.look >= 0 && r.dropped {
		p.giveBack(i, first)
	}
}

// giveBack undoes what a look at a stale item has done: the next client to read it is to renew it.
func (p *Planner) giveBack(i int32, first int) {
	r := &p.Requests[i]
	if it, _ := protocol.DecodeItem(p.Calls[r.look].reply); it.Won && it.Stale {
		start := len(p.lines)
		p.lines = r.served().KeyText().AppendGiveBack(p.lines, it.CAS)
		p.call(i, first, protocol.Meta, r.served().Keys, p.lines[start:]).hidden = true
	}
}

// classify is outcomeOf and alike for the k-th of the answers, where others write the same servers: what was asked of the first server alone
// has succeeded there, a touch is answered by the first server, and what was stored under one version is the same.
func (p *Planner) classify(r *Request, k int, decided bool) {
	a, first := &p.answers[k], &p.answers[0]
	definite := func(o replica.Outcome) bool { return o == replica.Success || o == replica.Refused }
	switch {
	case k == 0 && decided && !p.Calls[p.answered[0]].Failed:
		a.Outcome = replica.Success
	case k == 0:
	case r.version == 0 && !r.Has(protocol.Deletes) && !decided && definite(a.Outcome) && definite(first.Outcome):
		a.Outcome, a.Group = first.Outcome, 0
	case r.version != 0 && a.Outcome == replica.Success:
		for j := range p.answers[:k] {
			if p.answers[j].Outcome == replica.Success {
				a.Group = p.answers[j].Group
				return
			}
		}
	}
}
