package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// refuse answers r, which was added, with an error if the route of one of its keys refuses it.
func (p *Planner) refuse(r *Request) {
	for text := range each(r.Keys) {
		switch accepts := p.options.Router.Accepts(r.clientKey(text)); {
		case r.is(fixed):
			return
		case accepts == route.AcceptsNothing:
			r.Fail("CLIENT_ERROR the route of this key accepts nothing\r\n")
		case accepts == route.AcceptsReads && r.Has(protocol.Writes):
			r.Fail("CLIENT_ERROR the route of this key accepts only reads\r\n")
		}
	}
}
