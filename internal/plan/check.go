package plan

import (
	"bytes"
	"slices"

	"mcmw/internal/protocol"
)

// A check follows every write that several servers stored, where there are several writers: another's may have reached them in
// another order. It begins when the last of them has acknowledged, and makes a step in each round that PlanChecks is called in:
//
//	look at all --> they agree ------------------------------------------------> end
//	   ^       '--> they differ, as in the look before --> delete what differs --.
//	   |       '--> they differ otherwise --.                                    |
//	   '------------------------------------'------------------------------------'
//
// What differs is deleted by its version, so that no later write is. The first server's copy is the one that stays; where that has
// none, the copy of one's own goes. A copy that is missing is no difference. Nothing is ever healed by storing: it could come behind
// a later delete. A later store of the key takes the place of the check: it sees all servers behind both. While another worker of the
// middleware writes the key, its write may have reached some servers: what was seen until then counts for nothing.
type check struct {
	key     protocol.KeyText // its own memory
	stripe  uint32
	pool    int    // that of the key, which may be another's key in another one
	version uint64 // of what was stored
	copies  []copied
	looks   int
	// asked: it looks in this round. again: each copy's before is that of the look before. found: a difference was seen twice.
	asked, again, found bool
	// over: all that is left to do is to give back what the looks took.
	over bool
}

// asked is a line that a server gets: what it asks of checks[check].copies[of].
type asked struct {
	check, of int32
	form      form
}

// inspection is what the checks ask of a server in a round. It is one call.
type inspection struct {
	lines []byte
	asked []asked // a line each
}

// copied is what a check knows of one server. The first is the first server, or takes its place.
type copied struct {
	server int32
	// lost: it gave no answer, and counts as having missed the write. failed: it answered the last look with an error.
	lost, failed bool
	// holds is the version that the last look saw, before that of the look before; 0: none.
	holds, before uint64
	// cut is the version that the next step deletes; 0: none.
	cut uint64
	// won: the looks made this the one that is to renew the item.
	won bool
}

// mostLooks is how often a check looks for the same difference twice. Behind that it deletes what it saw once, which costs copies that
// might have become alike; a server that answers every look with an error is left alone behind twice as many.
const mostLooks = 16

// form is what a call that the planner wrote itself asks for.
type form uint8

const (
	clients  form = iota // what the client's command is answered with
	stores               // an ms or md without flags to be shown
	counts               // an ma with its value
	looksAt              // the version
	looksAll             // the item
	tells                // how long it lives
	chunks               // a part of a value
	revisits             // the item, which was seen before
	unveils              // what the client's mg is answered with, and the version behind it
)

// named reports whether the line that asks for f is answered with the key, or with an opaque in its place: an answer about another key is none.
func (f form) named() bool {
	switch f {
	case counts, looksAt, looksAll, tells, chunks, revisits:
		return true
	}
	return false
}

// fits reports whether reply can be the reply to f.
func (f form) fits(reply []byte) bool {
	if len(reply) < len("HD\r\n") {
		return false
	}
	switch code := string(reply[:2]); f {
	case stores:
		return len(reply) == len("HD\r\n") && (code == "HD" || code == "NS" || code == "EX" || code == "NF")
	case counts:
		return code == "VA" || code == "NF" || code == "EX" || code == "NS"
	case looksAt:
		return code == "HD" || code == "EN"
	case looksAll, chunks, revisits:
		return code == "VA" || code == "EN"
	case unveils:
		_, _, _, ok := protocol.CutCAS(reply)
		return ok || code == "EN" || bytes.HasPrefix(reply, []byte("VALUE "))
	case tells:
		return code == "ME" || code == "EN"
	}
	return true
}

// ofCheck is the request of calls that belong to a check.
const ofCheck = -1

// stored begins the check of a write of r that the servers of those calls have stored.
func (p *Planner) stored(r *Request, first int32) {
	n := 0
	if first >= 0 {
		n++
	}
	for c := r.first; c < r.last; c++ {
		if p.Calls[c].storedVersion() {
			n++
		}
	}
	if n < 2 {
		return
	}
	stripe := p.options.Stripe(r.key)
	k := p.place(stripe, r.in.Number(), r.served().KeyText())
	*k = check{key: protocol.KeyText{Text: append(k.key.Text[:0], r.served().Keys...), Encoded: r.Has(protocol.Encoded)}, stripe: stripe, pool: r.in.Number(), version: r.version, copies: k.copies[:0]}
	if first >= 0 {
		k.copies = append(k.copies, copied{server: p.Calls[first].Server})
	}
	for c := r.first; c < r.last; c++ {
		if p.Calls[c].storedVersion() {
			k.copies = append(k.copies, copied{server: p.Calls[c].Server})
		}
	}
}

// place returns where the check of a store of key is to be: that of an earlier store of it, which is not needed any more, or a new one.
func (p *Planner) place(stripe uint32, pool int, key protocol.KeyText) *check {
	newest := &p.newest[stripe%uint32(len(p.newest))]
	if i := *newest - 1; i >= 0 && p.checks[i].stripe == stripe && p.checks[i].pool == pool && p.checks[i].is(key) {
		k := &p.checks[i]
		if !k.asked {
			return k
		}
		k.over = true
	}
	*newest = int32(len(p.checks) + 1)
	if len(p.checks) == cap(p.checks) {
		p.checks = append(p.checks, check{})
	} else {
		p.checks = p.checks[:len(p.checks)+1] // with the memory of the one that was here
	}
	return &p.checks[len(p.checks)-1]
}

func (k *check) is(key protocol.KeyText) bool {
	return k.key.Encoded == key.Encoded && bytes.Equal(k.key.Text, key.Text)
}

// storedVersion reports whether c has stored an item under the request's version.
func (c *Call) storedVersion() bool {
	return c.stores && !c.Failed && c.kind == protocol.ReplyMetaLine && string(c.reply[:2]) == "HD"
}

// Checking returns how many checks wait for their next step.
func (p *Planner) Checking() int { return len(p.checks) }

// PlanChecks plans the next step of all checks, with one call for each server that they ask. It is called once in a round, behind the
// requests: these are answered first.
func (p *Planner) PlanChecks() {
	for i := range p.checks {
		k := &p.checks[i]
		k.asked = !k.over
		if k.again && p.options.Locked(k.stripe) {
			k.again = false
			k.looks--
		}
		for j := range k.copies {
			c := &k.copies[j]
			s := &p.inspections[c.server]
			ask := func(f form) { s.asked = append(s.asked, asked{int32(i), int32(j), f}) }
			switch {
			case c.lost:
			case !k.over:
				if c.cut != 0 {
					s.lines = k.key.AppendCut(s.lines, c.cut)
					ask(stores)
					c.cut = 0
				}
				s.lines = k.key.AppendLook(s.lines, false)
				ask(looksAt)
			case c.won:
				s.lines = k.key.AppendGiveBack(s.lines, c.holds)
				ask(stores)
			}
		}
	}
	for s := range p.inspections {
		if lines := p.inspections[s].lines; len(lines) > 0 {
			p.Calls = append(p.Calls, Call{Request: ofCheck, Server: int32(s), command: protocol.Meta, Bytes: [3][]byte{lines}})
		}
	}
}

// IsCheck reports whether c is no client's. It asks for a reply by each line of its Bytes.
func (c *Call) IsCheck() bool { return c.Request == ofCheck }

// checked takes the reply to the next line of a check's call.
func (p *Planner) checked(c *Call, kind protocol.ReplyKind, reply []byte) (last, ok bool) {
	lines := p.inspections[c.Server].asked
	a := lines[c.ordinal]
	k := &p.checks[a.check]
	s := &k.copies[a.of]
	_, ok = protocol.Meta.Accepts(kind, true, false)
	line, _, _ := bytes.Cut(c.Bytes[0][c.cursor:], crlf)
	if !ok || !kind.IsError() && !(a.form.fits(reply) && protocol.MetaFits(line, reply)) {
		return false, false
	}
	c.ordinal++
	c.cursor += len(line) + len(crlf)
	switch {
	case c.Failed:
	case a.form == looksAt:
		it, _ := protocol.DecodeItem(reply)
		s.holds, s.failed = it.CAS, kind.IsError()
		s.won = it.Won || s.won && it.Stale
	case string(reply[:2]) == "HD" && !k.over:
		p.Agreement.Cuts++
	}
	return int(c.ordinal) == len(lines), true
}

// uninspected says of the checks that have no reply from the server of c, and will get none, that they have lost it.
func (p *Planner) uninspected(c *Call) {
	for _, a := range p.inspections[c.Server].asked[c.ordinal:] {
		p.checks[a.check].copies[a.of].lost = true
	}
}

// missedLooks tells note the keys that c looks for.
func (p *Planner) missedLooks(c *Call, note func(key []byte)) {
	for _, a := range p.inspections[c.Server].asked {
		start := len(p.lines)
		p.lines = p.checks[a.check].key.Key(p.lines)
		note(p.lines[start:])
		p.lines = p.lines[:start]
	}
}

// judge says what follows from this round's looks. It returns false if the check is over.
func (p *Planner) judge(k *check) (more bool) {
	if !k.asked {
		return !k.over // what it took is given back
	}
	k.asked = false
	won := func() bool { return slices.ContainsFunc(k.copies, func(c copied) bool { return c.won && !c.lost }) }
	if k.over { // a later store of the key was answered meanwhile
		return won()
	}
	k.looks++
	differ, same := false, k.again
	var first *copied
	left := 0
	for i := range k.copies {
		c := &k.copies[i]
		switch {
		case c.lost:
			continue
		case first == nil:
			first = c
		}
		left++
		differ = differ || c.failed || k.differs(c, first)
		same = same && !c.failed && c.holds == c.before
		c.before = c.holds
	}
	k.again = true
	switch {
	case left < 2, !differ, k.looks > 2*mostLooks && slices.ContainsFunc(k.copies, func(c copied) bool { return c.failed }):
		p.Agreement.Checks++
		if k.found {
			p.Agreement.Disagreements++
		}
		k.over = true
		return won()
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

// differs reports whether what c holds is to go: it is not what the first server holds, or, where that has none, one's own.
func (k *check) differs(c, first *copied) bool {
	return c.holds != 0 && c.holds != first.holds && (first.holds != 0 || c.holds == k.version)
}

// judgeChecks ends a round in which checks were planned: it decides what they do next, and lets go of those that are over.
func (p *Planner) judgeChecks() {
	planned := false
	for s := range p.inspections {
		a := &p.inspections[s]
		planned = planned || len(a.asked) > 0
		a.lines, a.asked = a.lines[:0], a.asked[:0]
	}
	if !planned {
		return
	}
	kept := 0
	for i := range p.checks {
		if !p.judge(&p.checks[i]) {
			continue
		}
		p.checks[kept], p.checks[i] = p.checks[i], p.checks[kept] // each keeps its memory
		kept++
	}
	p.checks = p.checks[:kept]
	clear(p.newest[:])
	for i := range p.checks {
		p.newest[p.checks[i].stripe%uint32(len(p.newest))] = int32(i + 1)
	}
}
