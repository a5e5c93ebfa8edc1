package plan

import (
	"bytes"
	"slices"

	"mcmw/internal/protocol"
)

// A check follows every write that several servers stored, where several mcmw instances write: another instance's write
// may have reached the servers in another order. It begins when the last server has acknowledged, and takes one step in
// each round in which PlanChecks is called:
//
//	look at all --> they agree ------------------------------------------------> end
//	   ^       '--> they differ, as in the look before --> delete what differs --.
//	   |       '--> they differ otherwise --.                                    |
//	   '------------------------------------'------------------------------------'
//
// A copy that differs is deleted by its version, so that a later write is never deleted. The first server's copy stays.
// If the first server has none, copies of the check's own write are deleted. A missing copy is no difference. A check
// never stores anything: its store could arrive after a later delete, and even where it replaces only the version that
// differs, that may be a write which has yet to reach the first server, and is newer. A later store of the key begins a
// new check in place of this one: that looks at all servers after both stores. While another worker of the same mcmw
// writes the key, its write may have reached only some servers: what was seen until then does not count.
type check struct {
	key     protocol.KeyText // in memory of the check's own
	stripe  uint32
	pool    int    // the key's pool; another pool may have an equal key
	version uint64 // of what was stored
	copies  []copyState
	looks   int
	// asked: it looks in this round. again: each copy's before is that of the previous look. found: a difference was
	// seen twice.
	asked, again, found bool
	// ended: the check has ended, and only has to give back the renewals that its looks took.
	ended bool
}

// checking are the checks, which outlive the round.
type checking struct {
	checks []check
	// newest is, by stripe, the number of the latest check, from 1 on; 0: there is none, or it is not known.
	newest [256]int32
	// inspections are, by server, what the checks ask in this round.
	inspections []inspection
}

// question is a line that a server gets: what checks[check] asks about copies[of].
type question struct {
	check, of int32
	form      form
}

// inspection is what the checks ask of one server in a round. It becomes one call.
type inspection struct {
	lines     []byte
	questions []question // one per line
}

// copyState is what a check knows of one server. copies[0] is the first server, or stands in for it.
type copyState struct {
	server int32
	// lost: it gave no answer, and counts as having missed the write. failed: it answered the last look with an error.
	lost, failed bool
	// holds is the version that the last look saw, before that of the previous look; 0: no item.
	holds, before uint64
	// cut is the version that the next step deletes; 0: none.
	cut uint64
	// won: a look took the renewal of the stale item (the flag W), so no client gets it.
	won bool
}

// mostLooks is the number of looks after which a check deletes a difference that it has seen only once. This may delete
// copies that would have become equal. A server that answers every look with an error is given up after twice as many.
const mostLooks = 16

// form is what the planner requires of the reply to a call, beyond what the command does.
type form uint8

const (
	formClient        form = iota // the client's command: nothing more
	formStored                    // an ms or md that shows no flags
	formCounter                   // an ma that shows its value
	formVersion                   // an mg that shows the version
	formItem                      // an mg that shows the whole item
	formLife                      // an me, for how long the item lives
	formChunk                     // an mg of a chunk of a value
	formHead                      // an mg of a head that was read before
	formClientVersion             // the client's mg or get, which also shows the version
	formGuard                     // an mg of a tombstone
)

// asks returns the command about key whose reply f describes, as far as that depends on it. ok is false if this is not
// known here.
func (f form) asks(key protocol.KeyText) (op protocol.Op, ok bool) {
	switch f {
	case formStored:
		return key.Meta('d', ""), true
	case formCounter:
		return key.Meta('a', "vk"), true
	case formVersion:
		return key.Ask(protocol.ForVersion), true
	case formItem, formHead:
		return key.Ask(protocol.ForItem), true
	case formLife:
		return key.Meta('e', ""), true
	case formGuard:
		return protocol.KeyText{Text: key.Text, Encoded: true}.Ask(protocol.ForVersion), true
	case formChunk:
		return protocol.KeyText{Text: key.Text}.Meta('g', "vk"), true
	}
	return op, false
}

// answers reports whether reply, of that kind, can be the reply to f's command about key.
func (f form) answers(kind protocol.ReplyKind, key protocol.KeyText, reply []byte) bool {
	switch {
	case f == formStored && kind == protocol.ReplyMetaDone, f == formStored && len(reply) != len("HD\r\n"):
		return len(reply) == len("HD\r\n")
	case f == formClientVersion:
		it, _ := protocol.DecodeItem(reply)
		return it.HasCAS || kind == protocol.ReplyMetaMiss || kind == protocol.ReplyValue || kind == protocol.ReplyEnd
	}
	op, known := f.asks(key)
	return !known || kind.IsMeta() && op.Fits(reply)
}

// ofCheck is Call.Request of the calls of checks.
const ofCheck = -1

// beginCheck begins the check of a write of r if at least two servers have stored it. first, unless negative, is a call
// of an earlier step.
func (p *Planner) beginCheck(r *Request, first int32) {
	p.stored = p.stored[:0]
	if first >= 0 {
		p.stored = append(p.stored, p.Calls[first].Server)
	}
	for n := r.first; n < r.last; n++ {
		if c := &p.Calls[n]; c.storedVersion() {
			p.stored = append(p.stored, c.Server)
		}
	}
	if len(p.stored) > 1 {
		p.newCheck(r, r.write.version, p.stored)
	}
}

// newCheck begins a check of r's key on those servers. It takes the place of the latest check of the key.
func (p *Planner) newCheck(r *Request, version uint64, servers []int32) {
	stripe := p.options.Stripe(r.key)
	k := p.checkFor(stripe, r.in.Number(), r.served().KeyText())
	*k = check{key: protocol.KeyText{
		Text:    append(k.key.Text[:0], r.served().Keys...),
		Encoded: r.Has(protocol.Encoded),
	}, stripe: stripe, pool: r.in.Number(), version: version, copies: k.copies[:0]}
	for _, s := range servers {
		k.copies = append(k.copies, copyState{server: s})
	}
}

// latest returns the latest check of key; nil: there is none, or it is not known.
func (p *Planner) latest(stripe uint32, pool int, key protocol.KeyText) *check {
	i := p.newest[stripe%uint32(len(p.newest))] - 1
	if i >= 0 && p.checks[i].stripe == stripe && p.checks[i].pool == pool && p.checks[i].is(key) {
		return &p.checks[i]
	}
	return nil
}

// checkFor returns the check for a store of key: the one of an earlier store of the key, which is not needed any more,
// or a new one.
func (p *Planner) checkFor(stripe uint32, pool int, key protocol.KeyText) *check {
	if k := p.latest(stripe, pool, key); k != nil {
		if !k.asked {
			return k
		}
		k.ended = true
	}
	p.newest[stripe%uint32(len(p.newest))] = int32(len(p.checks) + 1)
	p.checks = extend(p.checks) // keeps the memory of the previous check in this place
	return &p.checks[len(p.checks)-1]
}

// is reports whether k is a check of key.
func (k *check) is(key protocol.KeyText) bool {
	return k.key.Encoded == key.Encoded && bytes.Equal(k.key.Text, key.Text)
}

// storedVersion reports whether c has stored an item under the request's version.
func (c *Call) storedVersion() bool {
	return c.is(stores) && !c.is(failed) && c.kind == protocol.ReplyMetaDone
}

// Checking returns how many checks have steps left.
func (p *Planner) Checking() int { return len(p.checks) }

// PlanChecks plans the next step of all checks, with one call for each server that they ask. It is called at most once
// in a round, after the requests were planned, because clients wait for those.
func (p *Planner) PlanChecks() {
	for i := range p.checks {
		k := &p.checks[i]
		k.asked = !k.ended
		if k.again && p.options.Locked(k.stripe) {
			k.again = false
			k.looks--
		}
		for j := range k.copies {
			c := &k.copies[j]
			s := &p.inspections[c.server]
			ask := func(f form, op protocol.Op) {
				s.lines = op.Append(s.lines)
				s.questions = append(s.questions, question{int32(i), int32(j), f})
			}
			switch {
			case c.lost:
			case !k.ended:
				if c.cut != 0 {
					ask(formStored, k.key.Cut(c.cut))
					c.cut = 0
				}
				ask(formVersion, k.key.Ask(protocol.ForVersion))
			case c.won:
				ask(formStored, k.key.GiveBack(c.holds))
			}
		}
	}
	for s := range p.inspections {
		if lines := p.inspections[s].lines; len(lines) > 0 {
			p.Calls = append(p.Calls, Call{
				Request: ofCheck, Server: int32(s), command: protocol.Meta,
				Bytes: [3][]byte{lines},
			})
		}
	}
}

// IsCheck reports whether c belongs to checks and not to a client's request. Such a call gets a reply to each line of
// its Bytes.
func (c *Call) IsCheck() bool { return c.Request == ofCheck }

// checked takes the reply to the next line of a call of checks.
func (p *Planner) checked(c *Call, kind protocol.ReplyKind, reply []byte) (last, ok bool) {
	lines := p.inspections[c.Server].questions
	a := lines[c.next]
	k := &p.checks[a.check]
	s := &k.copies[a.of]
	_, ok = protocol.Meta.Accepts(kind, true, false)
	if !ok || !kind.IsError() && !a.form.answers(kind, k.key, reply) {
		return false, false
	}
	c.next++
	switch {
	case c.is(failed):
	case a.form == formVersion:
		it, _ := protocol.DecodeItem(reply)
		s.holds, s.failed = it.CAS, kind.IsError()
		s.won = it.Won || s.won && it.Stale
	case kind == protocol.ReplyMetaDone && !k.ended:
		p.Agreement.Cuts++
	}
	return int(c.next) == len(lines), true
}

// loseCopies notes that c gets no more replies: the checks that still wait for one have lost the server.
func (p *Planner) loseCopies(c *Call) {
	for _, a := range p.inspections[c.Server].questions[c.next:] {
		p.checks[a.check].copies[a.of].lost = true
	}
}

// lookedAt calls note with each key that c looks at.
func (p *Planner) lookedAt(c *Call, note func(key []byte)) {
	for _, a := range p.inspections[c.Server].questions {
		start := len(p.lines)
		p.lines = p.checks[a.check].key.Key(p.lines)
		note(p.lines[start:])
		p.lines = p.lines[:start]
	}
}

// judge decides what follows from this round's looks. It returns false if the check has ended.
func (p *Planner) judge(k *check) (more bool) {
	if !k.asked {
		return !k.ended // what it took has been given back
	}
	k.asked = false
	won := func() bool { return slices.ContainsFunc(k.copies, func(c copyState) bool { return c.won && !c.lost }) }
	if k.ended { // a later store of the key was acknowledged meanwhile
		return won()
	}
	k.looks++
	differ, same := false, k.again
	first, known := p.leader(k)
	left := 0
	for i := range k.copies {
		c := &k.copies[i]
		if c.lost {
			continue
		}
		left++
		differ = differ || c.failed || first == nil || k.differs(c, first)
		same = same && !c.failed && c.holds == c.before
		c.before = c.holds
	}
	k.again = true
	switch {
	case left < 2, !differ, k.looks > 2*mostLooks &&
		slices.ContainsFunc(k.copies, func(c copyState) bool { return c.failed }):
		p.Agreement.Checks++
		if k.found {
			p.Agreement.Disagreements++
		}
		k.ended = true
		return won()
	case !known:
		k.looks-- // which copy differs is not known yet
	case same, k.looks >= mostLooks:
		k.again, k.found = false, true
		for i := range k.copies {
			if c := &k.copies[i]; !c.lost && k.differs(c, first) {
				c.cut = c.holds
			}
		}
	}
	return true
}

// differs reports whether c's copy has to be deleted: it is not what the first server holds, or, if that holds none, it
// is the check's own write.
func (k *check) differs(c, first *copyState) bool {
	return c.holds != 0 && c.holds != first.holds && (first.holds != 0 || c.holds == k.version)
}

// judgeChecks ends a round in which checks were planned: it decides what each does next, and drops those that have
// ended.
func (p *Planner) judgeChecks() {
	planned := false
	for s := range p.inspections {
		a := &p.inspections[s]
		planned = planned || len(a.questions) > 0
		a.lines, a.questions = a.lines[:0], a.questions[:0]
	}
	if !planned {
		return
	}
	kept := 0
	for i := range p.checks {
		if !p.judge(&p.checks[i]) {
			continue
		}
		p.checks[kept], p.checks[i] = p.checks[i], p.checks[kept] // a swap, so that each keeps its memory
		kept++
	}
	p.checks = p.checks[:kept]
	clear(p.newest[:])
	for i := range p.checks {
		p.newest[p.checks[i].stripe%uint32(len(p.newest))] = int32(i + 1)
	}
}
