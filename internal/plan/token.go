package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// A token is the cas that a read shows, to be named by a later write. Where items have versions, equal tokens mean
// equal items. So any server may show a token; the key's first server decides the write:
//
//	token shown                                        the write that names it
//	a version, of the item on the first server         succeeds
//	a version, of any other item                       EXISTS or NOT_FOUND; a check follows
//	no version: the server has given this cas itself   the read is repeated on the first server: elsewhere such a cas may be that of another item
//
// A cas that a server has given itself belongs to an item that was not stored through mcmw, or that is about to get a
// version.

// versioned reports whether the items of the pool in have versions.
func (p *Planner) versioned(in *route.Group) bool { return p.versions[in.Number()] }

// movable reports whether servers other than a key's first server may answer the read r in the pool in.
func (p *Planner) movable(r *Request, in *route.Group) bool {
	return !r.Has(protocol.First) || r.ShowsToken() && !(r.read != nil && r.read.byFirst) && p.versioned(in)
}

// noteToken notes that server s has shown r the token cas for key.
func (p *Planner) noteToken(r *Request, s int, key []byte, cas uint64) {
	if cas >= protocol.FirstVersion || r.read != nil && r.read.byFirst {
		return
	}
	in := r.in
	if r.NumKeys > 1 {
		in, key = p.options.Router.At(key)
	}
	if in.N() == 1 || !p.versioned(in) {
		return
	}
	p.findPlace(in, key)
	if s != p.firstOf(p.readersOf(), nil) {
		p.readOf(r).ownToken = true
	}
}

// rereadFirst makes the read r ask the first servers of its keys.
func (p *Planner) rereadFirst(r *Request) step {
	if r.read.tries == 0 {
		r.read.tried.first = r.first
	}
	r.read.byFirst, r.read.tried.last = true, r.last
	return retrying
}
