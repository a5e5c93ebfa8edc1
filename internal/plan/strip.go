package plan

import (
	"bytes"

	"mcmw/internal/protocol"
)

// A route may strip its prefix (route.Prefix.Strip). All that concerns the pool's servers then has the key as they know it: placement, locks, checks,
// what a server missed. What the client sees has its own key. A get of such a key joins none. A retrieval is asked for by lines that are made
// here, another request as renamed.

var textValue = []byte("VALUE ")

// stripped is what a request was whose only key servers know without a prefix, and what they get in its place.
type stripped struct {
	key     []byte // as the client has it
	request protocol.Request
}

// served returns r as the servers get it.
func (r *Request) served() *protocol.Request {
	if r.stripped != nil {
		return &r.stripped.request
	}
	return &r.Request.Request
}

// ClientKey returns the first key as the client has it.
func (r *Request) ClientKey() []byte {
	if r.stripped != nil {
		return r.stripped.key
	}
	return r.key
}

// addStripped is what is left of Add where servers know keys without a prefix.
func (p *Planner) addStripped(r *Request) {
	if r.NumKeys != 1 {
		p.stripAll(r)
		return
	}
	in, stored := r.in.At(r.key)
	if len(stored) < len(r.key) {
		p.strip(r, stored)
	}
	p.enter(r, in)
	if p.large != nil {
		p.admitLarge(r)
	}
}

// strip makes stored, a part of its only key, what the servers know r's key as.
func (p *Planner) strip(r *Request, stored []byte) {
	if p.renamed == len(p.renames) {
		p.renames = append(p.renames, new(stripped))
	}
	r.stripped, r.strips = p.renames[p.renamed], true
	p.renamed++
	*r.stripped = stripped{r.key, r.Request.Request}
	r.key, r.Exact = stored, false
	switch {
	case len(stored) == 0:
		r.Fail(protocol.TextBadFormat)
	case !r.Command.IsRetrieval():
		p.lines = r.stripped.request.Rename(p.lines, stored)
	}
}

// stripAll looks for keys of r, a retrieval of several, that servers know without a prefix.
func (p *Planner) stripAll(r *Request) {
	for rest := r.Keys; len(rest) > 0; {
		var key []byte
		key, rest = nextKey(rest)
		_, stored := p.options.Router.At(key)
		r.strips = r.strips || len(stored) < len(key)
		if len(stored) == 0 {
			r.Fail(protocol.TextBadFormat)
		}
	}
}

// shown returns reply, to anything but a retrieval, as r's client is to see it.
func (p *Planner) shown(r *Request, reply []byte) []byte {
	if r.stripped == nil || !r.Command.IsMeta() || len(reply) == 0 || bytes.HasPrefix(reply, []byte("SERVER_ERROR")) {
		return reply
	}
	start := len(p.lines)
	p.lines = protocol.AppendRenamed(p.lines, reply, r.key, r.stripped.key)
	return p.lines[start:]
}

// addElement adds a VALUE as the client is to see it: with key, of which the servers don't get the first strip bytes.
func addElement(out Output, element, key []byte, strip int32) {
	if strip > 0 {
		out.Add(textValue)
		out.Add(key)
		element = element[len(textValue)+len(key)-int(strip):]
	}
	out.Add(element)
}
