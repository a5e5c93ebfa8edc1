package plan

import (
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// A pool's gutter (route.Options.Gutter) stands in for servers that are down. What the servers' states say of a key is one of
//
//	its servers      reads         writes        deletes, with each write   known as
//	are read         its servers   its servers                              shut
//	are read         its servers   its servers   in the gutter              open
//	are not read     wait          its servers   in the gutter              open
//	are all away     the gutter    the gutter    on its servers             away
//
// A middleware is away only when all others are open or away, and all are open for as long behind that as an item in the gutter may live. So
// whatever one of two reads the other one writes or deletes: open and away are compatible, open and shut are, and shut and away never meet. A write
// that begins while the gutter is shut is at most as old as all that the gutter can hold when it ends. What a server that is away does not get counts as
// missed; it is deleted there before the server is read. In the gutter every item ends after GutterTTL.
//
// While a pool's gutter is another one than before, or the pool gets keys (route.Options.Closed), nobody is away; open concerns the gutters before and behind that. A
// middleware that has changed its gutter is so compatible with one that hasn't: of two neighbouring phases (route.Phase) one at most uses a gutter, in which the other
// one deletes. A key that goes from one pool to another has no gutter, and each write deletes it in those of both.

// placedIn returns the pool in which key, which is routed to the pool in, is read and written now; if that is the gutter of in, own is in.
func (p *Planner) placedIn(in *route.Router, key []byte) (now, own *route.Router) {
	gutter := in.Gutter()
	if gutter == nil || in.Moves(key) {
		return in, nil
	}
	p.own = in.Replicas(key, p.own[:0])
	for _, s := range p.own {
		if !p.Servers[s].Away {
			return in, nil
		}
	}
	return gutter, in
}

// open reports whether the gutter may hold r's only key, which is routed to the pool in.
func (p *Planner) open(in *route.Router, key []byte) bool {
	p.own = in.Replicas(key, p.own[:0])
	for _, s := range p.own {
		if !p.Servers[s].Open {
			return false
		}
	}
	return true
}

// divert makes the gutter the pool of r's only key, if that is there now.
func (p *Planner) divert(r *Request) {
	in, own := p.placedIn(r.in, r.key)
	if own == nil {
		return
	}
	r.own, r.decided, r.version = own, r.Has(protocol.Conditional), 0
	p.enter(r, in)
	p.noteDiverted(r, own)
}

// divertKey returns the pool in which key, one of those of the read r and routed to the pool in, is read now.
func (p *Planner) divertKey(r *Request, in *route.Router, key []byte) *route.Router {
	if in.Gutter() == nil {
		return in
	}
	now, own := p.placedIn(in, key)
	if own != nil {
		p.noteDiverted(r, own)
	}
	return now
}

// noteDiverted records that a key of r, routed to the pool own, is in the gutter.
func (p *Planner) noteDiverted(r *Request, own *route.Router) {
	ttl := int64(own.GutterTTL())
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
}

// addBeside adds to emptied the servers that may hold key beside its holders, which are in the pool in: its own ones if those are in the gutter of
// own, or those of gutters.
func (p *Planner) addBeside(in, own *route.Router, key []byte) {
	if own != nil {
		p.emptied = own.Emptied(key, own.Replicas(key, p.emptied))
		return
	}
	a, b := in.Sides()
	p.addGutters(a, key)
	if b != nil {
		p.addGutters(b, key)
	}
}

// addGutters is addBeside of the gutters of the pool in, if they may hold key. While routes give it to, or take it from, one of them, the key has its place there.
func (p *Planner) addGutters(in *route.Router, key []byte) {
	if len(in.Gutters()) == 0 || !p.open(in, key) {
		return
	}
	for _, g := range in.Gutters() {
		from := len(p.emptied)
		p.emptied = g.Emptied(key, g.Replicas(key, p.emptied))
		kept := slices.DeleteFunc(p.emptied[from:], func(s int) bool { return slices.Contains(p.holders, s) || slices.Contains(p.emptied[:from], s) })
		p.emptied = p.emptied[:from+len(kept)]
	}
}

// capExpiry bounds the life of what r's call stores in a gutter. In the line of a gat of several keys that is each of them.
func (p *Planner) capExpiry(r *Request, c *Call) {
	if !r.Has(protocol.Writes) || !p.options.Router.Of(int(c.Server)).IsGutter() {
		return
	}
	start := len(p.lines)
	p.lines = protocol.AppendCapped(p.lines, c.Bytes[0], r.ttl, p.options.Today())
	c.Bytes[0] = p.lines[start:]
}
