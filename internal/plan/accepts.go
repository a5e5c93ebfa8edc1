package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// refusals say, by kind of route, which requests it refuses, and how they are answered.
var refusals = [...]struct {
	refuses func(r *Request) bool
	text    string
}{
	route.AcceptsAll: {func(*Request) bool { return false }, ""},
	route.AcceptsReads: {
		func(r *Request) bool { return r.Has(protocol.Writes) },
		"CLIENT_ERROR the route of this key accepts only reads\r\n",
	},
	route.AcceptsNothing: {
		func(*Request) bool { return true },
		"CLIENT_ERROR the route of this key accepts nothing\r\n",
	},
}

// refuse answers r, which was added, with an error if the route of one of its keys refuses it.
func (p *Planner) refuse(r *Request) {
	for rest := r.Keys; len(rest) > 0 && !r.Fixed(); {
		var text []byte
		text, rest = nextKey(rest)
		if k := &refusals[p.options.Router.Accepts(r.clientKey(text))]; k.refuses(r) {
			r.Fail(k.text)
		}
	}
}
