package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// A pool's gutter (route.Options.Gutter) stands in for servers that are down. The states of a key's servers put the key
// in a row of route.gutterRows: shut; open, once they are not read or until the gutter holds nothing of them any more;
// away.
//
// A mcmw instance enters away only when all others are open or away. Afterwards all stay open for as long as an item in
// the gutter can live. So of any two instances, one writes or deletes whatever the other reads: open is compatible with
// away and with shut, and shut never meets away. When a write that began while the gutter was shut ends, the gutter
// holds nothing older than the write. A deletion that does not reach a server that is away counts as missed: the key is
// deleted there before the server is read again. In the gutter every item expires after GutterTTL.
//
// While a pool's gutter changes, or the pool gets keys (route.Options.Closed), no instance is away, and open concerns
// the gutters before and after the change. So an instance that has changed its gutter is compatible with one that has
// not: of two neighbouring phases (route.Phase) at most one uses a gutter, in which the other deletes. A key that moves
// from one pool to another has no gutter, and each write deletes it in the gutters of both pools.

// divert makes the gutter the pool of r's only key, if the key is there now.
func (p *Planner) divert(r *Request) {
	if r.Has(protocol.Reads) {
		p.findPlace(r.in, r.key)
	} else {
		p.findHolders(r)
	}
	if !p.inGutter() {
		return
	}
	if r.write != nil {
		r.write.version = 0
	}
	own := r.in
	r.set(decided, r.Has(protocol.Conditional))
	p.noteDiverted(r, own)
	r.own = own
	p.enter(r, own.Gutter())
}

// inGutter reports whether a gutter stands in for the servers of place.
func (p *Planner) inGutter() bool { return p.place[0].Roles.Has(route.Brief) }

// divertKey returns the pool in which key, a key of the read r that is routed to the pool in, is read now.
func (p *Planner) divertKey(r *Request, in *route.Group, key []byte) *route.Group {
	if in.Gutter() == nil {
		return in
	}
	if p.findPlace(in, key); !p.inGutter() {
		return in
	}
	p.noteDiverted(r, in)
	return in.Gutter()
}

// noteDiverted records that a key of r, which is routed to the pool own, is in the gutter.
func (p *Planner) noteDiverted(r *Request, own *route.Group) {
	ttl := int32(own.GutterTTL())
	if r.ttl == 0 {
		d := &p.Diverted[own.Number()]
		if r.Has(protocol.Reads) {
			d.Reads++
		} else {
			d.Writes++
		}
		r.ttl = ttl
	}
	r.ttl = min(r.ttl, ttl)
	r.set(tagged, r.Has(protocol.First) && p.countsAlike(own))
}

// countsAlike reports whether the servers of the pool own and those of its gutter give their items cas that may be
// equal. Then what a gutter shows is tagged, so that a token from one side is that of no item on the other.
func (p *Planner) countsAlike(own *route.Group) bool {
	return !p.versioned(own) && !p.versioned(own.Gutter())
}

// capped returns the line of op, which serves r, for a server of a gutter: it bounds the life of what it stores. A gat
// of several keys bounds the life of each.
func (p *Planner) capped(r *Request, op *protocol.Op) []byte {
	bounded := *op
	bounded.Cap(int64(r.ttl), p.options.Today())
	if r.Has(protocol.Conditional) && (r.step == direct || r.step == deciding) && r.own != nil &&
		p.countsAlike(r.own) {
		bounded.InGutter()
	}
	return p.write(&bounded)
}
