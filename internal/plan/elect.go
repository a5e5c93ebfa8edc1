package plan

import (
	"cmp"
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// Where several mcmw instances write (Pool.Agreed), they must not let two servers decide what depends on one item
// (incr, cas, add ..), although they learn at different times that a server has failed or is back. Each server has a
// role for each instance:
//
//	role       what depends on an item whose first server it is
//	decides    it decides
//	neither    nobody decides: the request waits, and fails in the end
//	replaced   the next server of the key, or of its gutter, decides by the same rule
//
// While it is replaced for one instance, it decides for none (package marker). A decision counts only if the roles by
// which it was made last until the client is answered. So what another instance lets another server decide comes before
// it was planned, or after its copies were stored. A gutter and the servers behind it do not copy to each other: there
// no request waits, and each is decided only by a server which has had its role since before the request.

// TextUndecided answers a request that depends on an item whose decider is not known because of server s.
func (p *Planner) TextUndecided(s int) string {
	return "SERVER_ERROR " + p.options.Names[s] +
		": has failed or is back, and not every mcmw knows yet which server decides; try again\r\n"
}

// isAgreed reports whether r, a request for one key, needs a server that decides for all instances.
func (p *Planner) isAgreed(r *Request) bool {
	return r.NumKeys == 1 && r.Has(protocol.Depends) && p.options.Pools[cmp.Or(r.own, r.in).Number()].Agreed
}

// standing returns the server that decides what depends on the item of place. It sets electors to the servers whose
// roles say so. undecided: it is not known that it decides for all instances.
func (p *Planner) standing() (decider int, undecided bool) {
	p.electors = p.electors[:0]
	if p.inGutter() {
		for _, h := range p.place {
			if h.Roles.Has(route.Drop) {
				p.electors = append(p.electors, int(h.Server))
			}
		}
	}
	from := len(p.electors)
	for _, h := range p.place {
		s := int(h.Server)
		if !h.Roles.Has(route.Decide) {
			continue
		}
		p.electors = append(p.electors, s)
		if server := &p.Servers[s]; !server.Replaced {
			return s, !server.Decides
		}
	}
	return p.electors[from], false
}

// turns returns a number that changes when a role of the electors ends.
func (p *Planner) turns() (sum uint32) {
	for _, s := range p.electors {
		sum += p.Servers[s].Turn
	}
	return sum
}

// elect finds the server of place that decides r, which is agreed. If there is none, it makes that the answer.
func (p *Planner) elect(r *Request) {
	s, undecided := p.standing()
	if undecided {
		r.Fail(p.TextUndecided(s))
		return
	}
	for _, elector := range p.electors {
		if r.Created < p.Servers[elector].Since {
			r.Fail(p.TextUndecided(elector))
			return
		}
	}
	w := p.writeOf(r)
	w.elect, w.turns = int32(s), p.turns()
}

// Undecided returns a server of which it may soon be known whether it decides requests[i]; -1: there is none, or the
// request needs none.
func (p *Planner) Undecided(i int32) int {
	r := &p.Requests[i]
	if r.NumKeys != 1 || r.Idle() || !p.isAgreed(r) {
		return -1
	}
	p.findPlace(r.in, r.key)
	if s, undecided := p.standing(); undecided && p.Servers[s].RoleDue {
		return s
	}
	return -1
}

// Elected reports whether requests[i] was sent to a server that decides it for all instances. The states of the servers
// must be up to date at each End of it.
func (p *Planner) Elected(i int32) bool { return p.Requests[i].elected() }

// Electors returns the servers whose roles say which one has decided requests[i], if it has been carried out; none
// otherwise. It is valid until the next Electors.
func (p *Planner) Electors(i int32) []int {
	r := &p.Requests[i]
	if !r.elected() || r.is(fixed) {
		return nil
	}
	p.findHolders(r)
	p.standing()
	return p.electors
}

// deposed reports whether the server that has decided r ceased to decide since.
func (p *Planner) deposed(r *Request) bool {
	p.findHolders(r)
	p.standing()
	return p.turns() != r.write.turns
}

// depose ends r, a role of whose electors has ended, with an error if r has been carried out. The step that follows is
// that of afterWrite.
func (p *Planner) depose(r *Request) (next step) {
	switch r.step {
	case copying:
		next = p.afterWrite(r, false)
	case deciding:
		r.write.undone = r.first
	case stamping:
		r.write.undone = r.write.chosen
	}
	ended := slices.IndexFunc(p.electors, func(s int) bool { return s == int(r.write.elect) || !p.Servers[s].Replaced })
	r.Fail(p.TextUndecided(p.electors[max(ended, 0)]))
	return next
}

// Undone returns the call that has carried out requests[i] on a server which was deposed before the others got the
// result; -1: there is none. The client is told that the request has failed, and the server must not keep the result.
func (p *Planner) Undone(i int32) int32 {
	if r := &p.Requests[i]; r.elected() {
		return r.write.undone
	}
	return -1
}

// leader returns the copy of k that stays if copies differ: that of the server which decides. known is false if it is
// not known which one that is.
func (p *Planner) leader(k *check) (first *copyState, known bool) {
	agreed := p.options.Pools[k.pool].Agreed
	at := slices.IndexFunc(k.copies, func(c copyState) bool {
		return !c.lost && !(agreed && p.Servers[c.server].Replaced)
	})
	if at < 0 {
		return nil, false
	}
	first = &k.copies[at]
	return first, !agreed || p.Servers[first.server].Decides
}
