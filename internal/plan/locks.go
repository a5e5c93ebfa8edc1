package plan

import (
	"slices"

	"mcmw/internal/keylock"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// LockKind says how a request uses key locks.
type LockKind uint8

// The kinds.
const (
	LockNone  LockKind = iota
	LockWait           // it waits until no other worker holds them, and takes none
	LockHold           // it holds them until it is answered
	LockAlone          // likewise, and no later write may be planned before that
	LockAll            // it holds all locks
)

// Locks are the key locks that a request needs if keys have several replicas.
type Locks struct {
	Kind    LockKind
	Stripes []uint32 // valid until the next Locks; none with LockAll
}

// Locks returns the key locks that requests[i] needs. ok is false if it must not be planned in this round, because an
// earlier read of its part names one of its keys. That read might have to be repeated on another server (afterRead),
// after the requests that follow it in the round: then a later read could miss another client's write that it has seen,
// and it could see the effect of a later write of its own client. A get may join an earlier one of the same key. more:
// other requests follow it in the part.
func (p *Planner) Locks(i int32, more bool) (l Locks, ok bool) {
	r := &p.Requests[i]
	switch {
	case !p.Locking() || r.Idle():
		return Locks{}, true
	case r.IsFlush():
		return Locks{Kind: LockAll}, true
	}
	p.stripes = p.appendStripes(p.stripes[:0], r)
	if slices.ContainsFunc(p.stripes, p.part.read.has) && !p.joinsOwn(r) {
		return Locks{}, false
	}
	l.Stripes = p.stripes
	switch {
	case len(p.stripes) == 0:
	case r.is(decided | chunked | guarded), r.in.Gutter() != nil &&
		r.Has(protocol.Depends): // the gutter may decide it differently
		l.Kind = LockAlone
	case r.Has(protocol.Writes):
		l.Kind = LockHold
	default:
		l.Kind = LockWait
		if more {
			for _, s := range p.stripes {
				p.part.read.add(s)
			}
		}
	}
	return l, true
}

// appendStripes appends the stripes of r's keys.
func (p *Planner) appendStripes(stripes []uint32, r *Request) []uint32 {
	if r.NumKeys == 1 {
		return append(stripes, p.options.Stripe(r.key))
	}
	for key := range each(r.Keys) {
		_, key = p.options.Router.At(key)
		stripes = append(stripes, p.options.Stripe(key))
	}
	return stripes
}

// Repeatable reports whether the reads among requests[first:last], those of a part, can be repeated after the round:
// none of the requests writes what an earlier one reads, or is a gat that ends the life of what it reads.
func (p *Planner) Repeatable(first, last int32) bool {
	p.changed.clear()
	for i := last - 1; i >= first; i-- {
		r := &p.Requests[i]
		if r.IsFlush() && i > first || r.Expires() {
			return false
		}
		p.stripes = p.appendStripes(p.stripes[:0], r)
		for _, s := range p.stripes {
			if r.Has(protocol.Reads) && p.changed.has(s) {
				return false
			}
			if !r.readsOnly() {
				p.changed.add(s)
			}
		}
	}
	return true
}

// Troubled returns a server in trouble without which requests[i] cannot be served; -1 if there is none.
func (p *Planner) Troubled(i int32) int {
	r := &p.Requests[i]
	switch {
	case r.Idle(), r.IsOverview():
		return -1
	case r.Has(protocol.Everywhere):
		return p.suspectOf(p.all)
	case r.Command.IsForAnyServer():
		if s := p.anyServer(nil); s >= 0 && p.Servers[s].Suspect {
			return s
		}
		return -1
	case r.NumKeys == 0:
		return p.suspectOf(p.all[p.firstServer():][:1])
	case r.NumKeys == 1:
		return p.troubledKey(r, r.in, r.key)
	}
	for key := range each(r.Keys) {
		in, stored := p.routerOf(r).At(key)
		if s := p.troubledKey(r, in, stored); s >= 0 {
			return s
		}
	}
	return -1
}

// troubledKey returns a server in trouble without which r cannot be served for key, of the pool in; -1 if there is
// none.
func (p *Planner) troubledKey(r *Request, in *route.Group, key []byte) int {
	if p.findPlace(in, key); p.inGutter() {
		in = in.Gutter()
	}
	if p.divide(); r.Has(protocol.Writes) {
		if s := p.awaitedOf(p.holders); s >= 0 {
			return s
		}
		if s := p.awaitedOf(p.emptied); s >= 0 {
			return s
		}
	}
	if p.isAgreed(r) {
		if s, undecided := p.standing(); undecided && p.Servers[s].RoleDue {
			return s
		}
	}
	if !r.MustRead() {
		return -1
	}
	if in.WarmsUp() && r.mayAskNew() {
		for _, h := range p.place {
			looks := h.Roles.Has(route.Look) || h.Roles.Has(route.Read|route.Tentative) && p.readsAny(r, in)
			if s := int(h.Server); looks && p.mayRead(s, nil) && !p.Servers[s].Suspect {
				return -1
			}
		}
	}
	first, recovers := -1, -1
	for _, s := range p.readersOf() {
		switch server := &p.Servers[s]; {
		case server.Readable:
			if !server.Suspect && (first < 0 || (r.readsOnly() && p.readsAny(r, in))) {
				return -1
			}
			if first < 0 {
				first = s
			}
		case recovers < 0 && server.Recovers:
			recovers = s
		}
	}
	if first >= 0 {
		return first
	}
	return recovers
}

// awaitedOf is suspectOf for a write, which does without a server that is marked.
func (p *Planner) awaitedOf(servers []int) int {
	for _, s := range servers {
		if p.Servers[s].Suspect && !p.Servers[s].Marked {
			return s
		}
	}
	return -1
}

// suspectOf returns the first of servers that is suspect; -1 if none is.
func (p *Planner) suspectOf(servers []int) int {
	for _, s := range servers {
		if p.Servers[s].Suspect {
			return s
		}
	}
	return -1
}

// stripeSet is a set of key-lock stripes. Its zero value is empty.
type stripeSet struct {
	bits    [keylock.Stripes / 64]uint64
	members []uint32
}

// clear removes all members.
func (s *stripeSet) clear() {
	for _, m := range s.members {
		s.bits[m/64] = 0
	}
	s.members = s.members[:0]
}

// has reports whether stripe is a member.
func (s *stripeSet) has(stripe uint32) bool { return s.bits[stripe/64]&(1<<(stripe%64)) != 0 }

// add makes stripe a member.
func (s *stripeSet) add(stripe uint32) {
	if !s.has(stripe) {
		s.bits[stripe/64] |= 1 << (stripe % 64)
		s.members = append(s.members, stripe)
	}
}
