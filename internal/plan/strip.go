package plan

import (
	"bytes"

	"mcmw/internal/protocol"
)

// A route can strip its prefix (route.Prefix.Strip). Everything that concerns the pool's servers then uses the key as they know it: placement, locks,
// checks, missed writes. The client sees its own key. A get of such a key never joins another. A retrieval is sent as lines that are written
// here; any other request is renamed.

var textValue = []byte("VALUE ")

// stripped keeps what the client sent in a request whose only key the servers know without a prefix, and what they get in its place.
type stripped struct {
	key []byte // as the client has it
	op  protocol.Op
}

// served returns r's command as the servers get it.
func (r *Request) served() *protocol.Op {
	if r.stripped != nil {
		return &r.stripped.op
	}
	return &r.Op
}

// ClientKey returns the first key as the client has it.
func (r *Request) ClientKey() []byte {
	if r.stripped != nil {
		return r.stripped.key
	}
	return r.key
}

// addStripped is the second half of Add if servers know keys without a prefix.
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

// strip makes the servers know r's only key as stored, which is a part of it.
func (p *Planner) strip(r *Request, stored []byte) {
	if p.renamed == len(p.renames) {
		p.renames = append(p.renames, new(stripped))
	}
	r.stripped, r.strips = p.renames[p.renamed], true
	p.renamed++
	*r.stripped = stripped{r.key, r.Op}
	r.key, r.Exact = stored, false
	switch {
	case len(stored) == 0:
		r.Fail(protocol.TextBadFormat)
	case !r.Command.IsRetrieval():
		p.lines = r.stripped.op.Rename(p.lines, stored)
	}
}

// stripAll looks for keys of r, a retrieval of several keys, that servers know without a prefix.
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

// shown returns reply, to anything but a retrieval, as r's client should see it.
func (p *Planner) shown(r *Request, reply []byte) []byte {
	if r.stripped == nil || !r.Command.IsMeta() || len(reply) == 0 || bytes.HasPrefix(reply, []byte("SERVER_ERROR")) {
		return reply
	}
	start := len(p.lines)
	p.lines = protocol.AppendRenamed(p.lines, reply, r.key, r.stripped.key)
	return p.lines[start:]
}

// addElement adds a VALUE as the client should see it: with key. The servers do not get the first strip bytes of it.
func addElement(out Output, element, key []byte, strip int32) {
	if strip > 0 {
		out.Add(textValue)
		out.Add(key)
		element = element[len(textValue)+len(key)-int(strip):]
	}
	out.Add(element)
}
