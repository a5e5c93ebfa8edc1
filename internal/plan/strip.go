package plan

import "mcmw/internal/protocol"

// A route can strip its prefix (route.Prefix.Strip). Everything that concerns the pool's servers then uses the key as
// they know it: placement, locks, checks, missed writes. The client sees its own key. A get of such a key never joins
// another. A retrieval is sent as lines that are written here; any other request is renamed.

// stripped keeps what the client sent in a request whose only key the servers know without a prefix, and what they get
// in its place.
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

// renamed returns r's only key as the client has it, if the servers have another one; otherwise nil.
func (r *Request) renamed() []byte {
	if r.stripped != nil {
		return r.stripped.key
	}
	return nil
}

// strip makes the servers know r's only key as stored, which is a part of it.
func (p *Planner) strip(r *Request, stored []byte) {
	if r.Buried() != nil {
		r.key = stored
		return
	}
	r.stripped, r.state = p.renames.take(), r.state|strips
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
	for key := range each(r.Keys) {
		_, stored := p.options.Router.At(key)
		r.set(strips, r.is(strips) || len(stored) < len(key))
		if len(stored) == 0 {
			r.Fail(protocol.TextBadFormat)
		}
	}
}

// shown returns the line of it, a reply of c, as r's client should see it: with key, unless that is nil; with no cas
// that it has not asked for; and with the cas of an item in a gutter as a token; see noteDiverted.
func (p *Planner) shown(r *Request, c *Call, it protocol.Item, key []byte) []byte {
	if key != nil {
		p.lines = it.Rename(p.lines, r.key, key)
	}
	it.HasCAS = it.HasCAS && c.form != formClientVersion
	if r.is(tagged) && p.options.Router.Of(int(c.Server)).IsGutter() {
		it.CAS |= protocol.FirstOfGutter
	}
	start := len(p.lines)
	p.lines = it.Append(p.lines)
	return p.lines[start:]
}

// changes reports whether shown changes replies of c.
func (p *Planner) changes(r *Request, c *Call) bool {
	return c.form == formClientVersion || r.is(tagged) && p.options.Router.Of(int(c.Server)).IsGutter()
}

// addElement adds a VALUE of c's reply as r's client should see it: with key, unless that is nil.
func (p *Planner) addElement(r *Request, c *Call, element, key []byte, out Output) {
	if key == nil && !p.changes(r, c) {
		out.Add(element)
		return
	}
	it, _ := protocol.DecodeItem(element)
	out.Add(p.shown(r, c, it, key))
	out.Add(it.Data)
}
