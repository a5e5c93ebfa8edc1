package plan

import (
	"bytes"

	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// planWrite sends a write to every server that holds the key. A write that depends on a cas goes only to the first
// server, which knows the cas. If other mcmw instances write the same servers, so does a write that depends on anything
// else.
func (p *Planner) planWrite(r *Request) {
	r.step = writing
	p.encloseHead(r)
	p.findHolders(r)
	if p.isAgreed(r) {
		if p.elect(r); r.is(fixed) {
			r.step = answered
			return
		}
	}
	p.withholdHead(r)
	one := len(p.holders)+len(p.emptied) == 1
	switch {
	case one && r.is(versioned) && r.Has(protocol.Builds):
		p.planDecided(r, p.holders[0])
	case one:
		r.step, r.state = direct, r.state&^decided
		p.forward(r, p.holders[0])
	case r.Has(protocol.Depends) && p.decides == route.Refused:
		r.step = answered
		r.Fail(textMoving)
	case r.Has(protocol.Depends) && !p.decides.Permits(p.deciderOf(r)):
		p.planForget(r)
	case r.is(decided):
		p.planDecided(r, p.deciderOf(r))
	default:
		if r.is(versioned) {
			p.moveToFront(p.holders, p.deciderOf(r))
		}
		if r.Version() != 0 {
			p.forwardVersioned(r, p.holders...)
		} else {
			for _, s := range p.holders {
				p.forward(r, s)
			}
		}
		p.planEmptied(r)
	}
}

// textMoving refuses a request that depends on a value which is moving to other servers; see the phase route.Late.
const textMoving = "SERVER_ERROR the key is moving to other servers; try again later\r\n"

// deciderOf returns the server that decides r: the one that all instances let decide, or decider.
func (p *Planner) deciderOf(r *Request) int {
	if r.elected() {
		return int(r.write.elect)
	}
	return p.decider()
}

// decider returns the server of place that decides a write that depends on the key, and whose copy stays where copies
// differ: the first that may decide and be read, or the first that may decide if none can be read.
func (p *Planner) decider() int {
	first := -1
	for _, h := range p.place {
		if s := int(h.Server); h.Roles.Has(route.Decide) {
			if p.mayRead(s, nil) {
				return s
			}
			if first < 0 {
				first = s
			}
		}
	}
	return first
}

// planForget answers r, which depends on an item, as if there were none, because different servers might
// decide it for different mcmw instances (route.Row.Forget). The key is deleted on all of them. An add stores nothing,
// and deletes nothing either: the item may be a lock that is held.
func (p *Planner) planForget(r *Request) {
	r.step, r.write.version = removing, 0
	if !r.Adds() {
		p.planRemoving(r)
	}
	p.answerForgotten(r)
}

// answerForgotten answers r, which depends on an item, as if there were none.
func (p *Planner) answerForgotten(r *Request) {
	start := len(p.lines)
	var kind protocol.ReplyKind
	if kind, p.lines = r.Forgotten(p.lines); r.Has(protocol.Quiet) && r.LeavesOut(kind) {
		p.lines = p.lines[:start]
	}
	r.Fail(string(p.lines[start:]))
}

// planRemoving removes the key of a value that was refused for its size, as memcached does: the old value must not
// outlive an attempt to replace it.
func (p *Planner) planRemoving(r *Request) {
	r.step = removing
	p.findHolders(r)
	for _, s := range p.holders {
		p.deleteKey(r, s)
	}
	p.planEmptied(r)
}

// afterRemoving lets servers that get writes last lose the key after all others.
func (p *Planner) afterRemoving(r *Request, _ bool) step {
	if r.is(fixed) {
		return answered
	}
	return p.afterOldFirst(r)
}

// afterWrite compares the replicas' answers and chooses the one that the client gets. The key may have to be deleted on
// some of them. After copying, first is the call of the server that has decided.
func (p *Planner) afterWrite(r *Request, _ bool) step {
	first := r.write.chosen
	p.answers, p.answered = p.answers[:0], p.answered[:0]
	if first >= 0 {
		p.answered = append(p.answered, first)
	}
	ack := p.options.Pools[r.in.Number()].Ack
	for n := r.first; n < r.last; n++ {
		c := &p.Calls[n]
		if c.is(empties) {
			// On a server that must not hold the key only a failure counts. It counts like a replica's, by the rule of
			// the server's own pool.
			of := p.options.Router.Of(int(c.Server))
			if outcomeOf(r, c) == replica.Success || c.is(failed) && of == r.own {
				continue
			}
			if p.options.Pools[of.Number()].Ack == replica.AckAll {
				ack = replica.AckAll
			}
		}
		p.answered = append(p.answered, n)
	}
	for k, n := range p.answered {
		c := &p.Calls[n]
		a := replica.Answer{Outcome: outcomeOf(r, c), Group: k, Arrived: int(c.arrived)}
		for j, m := range p.answered[:k] {
			if p.answers[j].Outcome == a.Outcome && alike(r, c, &p.Calls[m]) {
				a.Group = p.answers[j].Group
				break
			}
		}
		p.answers = append(p.answers, a)
		if r.is(versioned) {
			p.classify(r, k, first >= 0)
		}
	}
	chosen, differ := replica.Decide(ack, p.answers, p.decisions[:0])
	p.decisions = differ
	r.write.chosen = p.answered[chosen]
	if r.is(versioned) {
		if c := &p.Calls[r.write.chosen]; p.answers[chosen].Group == p.answers[0].Group ||
			(c.is(hidden) && !c.kind.IsError()) {
			r.write.chosen = p.answered[0]
		}
		if r.Version() != 0 && !r.write.dropped && p.options.Pools[r.in.Number()].Several {
			p.beginCheck(r, first)
		}
	} else {
		p.preferDeleted(r)
	}
	r.write.repairs = r.write.repairs[:0]
	for _, k := range differ {
		// A replica that gave no answer is not repaired here: its prober deletes what it missed before it serves a
		// read.
		if c := &p.Calls[p.answered[k]]; !c.is(failed) {
			r.write.repairs = append(r.write.repairs, c.Server)
		}
	}
	if len(r.write.repairs) == 0 {
		return answered
	}
	return deleting
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

// planRepairs deletes the key of r on the servers in its repairs.
func (p *Planner) planRepairs(r *Request) {
	for _, s := range r.write.repairs {
		p.deleteKey(r, int(s))
	}
}

// Dispensable reports whether call n can end without a reply although the client will be told of a success: it writes
// to a server or compares copies there, and servers that have carried the write out suffice for Ack, if its server is
// marked.
func (p *Planner) Dispensable(n int32) bool {
	c := &p.Calls[n]
	if c.IsCheck() {
		return true
	}
	r := &p.Requests[c.Request]
	switch r.step {
	case reading, retrying:
		return p.spares(r, c)
	case copying, writing:
	default:
		return false
	}
	done, needed := 0, 1
	if r.step == copying {
		done++ // on the server that has decided
	}
	for m := r.first; m < r.last; m++ {
		if c := &p.Calls[m]; c.arrived > 0 && outcomeOf(r, c) == replica.Success {
			done++
		}
	}
	switch p.options.Pools[r.in.Number()].Ack {
	case replica.AckAll:
		return false
	case replica.AckQuorum:
		needed = int(r.last-r.first)/2 + 1
	}
	return done >= needed
}

// Withhold reports whether a success is about to be reported for requests[i], a write that server did not answer. If so
// it adds to out the error that replaces the success.
func (p *Planner) Withhold(i, server int32, out Output) bool {
	r := &p.Requests[i]
	if r.touches() {
		if r.is(fixed) || p.errorOf(r, p.CallsOf(i), false) != nil {
			return false
		}
	} else if r.chosen() < 0 || p.Calls[r.write.chosen].kind.IsError() {
		return false
	}
	for n := range p.Calls {
		c := &p.Calls[n]
		if !c.is(failed) || c.Server != server || c.Request != i || r.touches() && !p.spares(r, c) {
			continue
		}
		if !r.NoReply {
			p.addReply(r, c, out)
		}
		return true
	}
	return false
}

// preferDeleted answers a deletion with the reply of a replica that had the key; now no replica has it.
func (p *Planner) preferDeleted(r *Request) {
	if !r.Has(protocol.Deletes) || !p.Calls[r.write.chosen].kind.IsNotFound() {
		return
	}
	for _, n := range p.answered {
		if c := &p.Calls[n]; !c.is(failed) && !c.kind.IsError() && !c.kind.IsNotFound() {
			r.write.chosen = n
			return
		}
	}
}

// outcomeOf classifies a replica's answer to the write r.
func outcomeOf(r *Request, c *Call) replica.Outcome {
	switch {
	case c.is(failed):
		return replica.Silent
	case c.kind.IsError():
		return replica.Failed
	case c.is(hidden):
		return replica.Success // a deletion in place of a copy: in both cases the key is gone
	case c.kind.IsNotFound() && r.Has(protocol.Deletes):
		return replica.Success
	case c.kind.IsRefusal(), c.kind == protocol.ReplyMetaMiss:
		return replica.Refused
	}
	return replica.Success
}

// alike reports whether two answers with the same outcome leave their replicas in the same state.
func alike(r *Request, a, b *Call) bool {
	switch {
	case a.is(failed) || b.is(failed):
		return a.is(failed) == b.is(failed)
	case a.is(hidden) || b.is(hidden) || (r.Has(protocol.Deletes) && !a.kind.IsError()):
		return true
	case a.kind.IsMeta() && !bytes.Equal(a.reply, b.reply):
		x, _ := protocol.DecodeItem(a.reply)
		y, _ := protocol.DecodeItem(b.reply)
		return x.Alike(&y)
	}
	return bytes.Equal(a.reply, b.reply)
}

// Disagreement returns each replica's answer and the one that the client gets. It is valid after an End that has
// found replicas to repair.
func (p *Planner) Disagreement(i int32) (replies []string, answered string) {
	for _, n := range p.answered {
		c := &p.Calls[n]
		replies = append(replies, p.options.Names[c.Server]+": "+lineOf(c))
	}
	return replies, lineOf(&p.Calls[p.Requests[i].write.chosen])
}

// lineOf returns the first line of c's reply.
func lineOf(c *Call) string {
	line, _, _ := bytes.Cut(c.reply, crlf)
	return string(line)
}
