package plan

import (
	"bytes"
	"fmt"

	"mcmw/internal/protocol"
)

// maxList bounds the reply to a stats or administration command, bytes: twice the size of memcached's reply to `stats
// cachedump`.
const maxList = 4 << 20

// Element takes an element of the reply to call n, its bytes start..end. ok is false if it does not fit: then the
// connection must not be used any more. last: it ends the reply. value: it is a value, which the caller may discard;
// see Cut. A value larger than Options.MaxValue consists of two elements: its line, and the line end after its data.
func (p *Planner) Element(n int32, rep *protocol.Reply, element []byte, start, end int) (last, value, ok bool) {
	c := &p.Calls[n]
	if c.IsCheck() {
		last, ok = p.checked(c, rep.Kind, element)
		return last, false, ok
	}
	r := &p.Requests[c.Request]
	if c.is(skipped) {
		c.state &^= skipped
		return c.is(final), false, len(element) == len(protocol.CRLF)
	}
	if c.form != formClient && !rep.Kind.IsError() &&
		!c.form.answers(rep.Kind, protocol.KeyText{Text: c.keys, Encoded: r.Has(protocol.Encoded)}, element) {
		return false, false, false
	}
	large := rep.Data > p.options.MaxValue
	if large {
		c.state, c.TooLarge = c.state|dropped, rep.Data
	}
	last, ok = c.command.Accepts(rep.Kind, start == 0, c.is(fence))
	switch {
	case !ok:
	case rep.Kind == protocol.ReplyValue:
		value, ok = p.takeValue(n, rep.Key, element, start, end)
		if ok && c.command.IsRetrieval() && r.ShowsToken() {
			it, _ := protocol.DecodeItem(element)
			p.noteToken(r, c, rep.Key, it.CAS)
		}
		if p.large && value && p.beginsHead(c, element, rep.Data) {
			p.noteSplit(r)
		}
	case rep.Kind.IsMeta():
		if c.form == formClient || c.form == formClientVersion {
			ok = c.command != r.Command || c.is(hidden) || c.is(failed) || r.served().Fits(element)
		}
		value = rep.Kind == protocol.ReplyMetaValue &&
			(r.readsOnly() || c.form == formItem || c.form == formChunk || c.form == formHead) && !c.is(failed)
		if c.form == formClient && r.ShowsToken() && !c.is(hidden) {
			if it, shown := protocol.DecodeItem(element); shown {
				p.noteToken(r, c, r.key, it.CAS)
			}
		}
		if p.large && value {
			value = p.takeSplit(r, c, element, rep.Data)
		}
	case !last:
		ok = end <= maxList
	}
	if large {
		c.state |= skipped
		c.set(final, last)
		return false, false, ok
	}
	return last, value, ok
}

// takeValue notes a VALUE of call n. Its key must be the next of the call's keys, or a later one if those between are
// missing.
func (p *Planner) takeValue(n int32, key, element []byte, start, end int) (value, ok bool) {
	c := &p.Calls[n]
	r := &p.Requests[c.Request]
	for int(c.cursor) < len(c.keys) {
		at := c.cursor
		next, rest := c.keys[at:], []byte(nil)
		if len(next) != len(key) { // otherwise key, which has no blank, can only be the last one
			next, rest = nextKey(next)
		}
		c.cursor = int32(len(c.keys) - len(rest))
		if r.spread() && !c.is(failed) {
			for at = c.next; r.read.keys[at].call != n; at++ {
			}
			c.next = at
		}
		c.next++
		if !bytes.Equal(next, key) {
			continue
		}
		if c.is(failed | dropped) {
			return !c.is(failed), true
		}
		c.cut = at
		if r.spread() {
			if c.form == formClientVersion {
				if v, _ := protocol.DecodeItem(element); !v.HasCAS || protocol.IsProvisional(v.CAS) {
					return true, v.HasCAS
				}
			}
			r.read.keys[at].start, r.read.keys[at].end = int32(start), int32(end)
		}
		c.found++
		return true, true
	}
	return false, false
}

// Cut says that the value which Element took last is not kept, nor anything that follows in the reply to call n: it is
// asked for again. An item that was fetched to be copied is not asked for again: instead the key is deleted on the
// other servers.
func (p *Planner) Cut(n int32) {
	c := &p.Calls[n]
	if c.is(dropped) {
		return
	}
	c.state |= dropped
	if !c.Fetches() {
		p.Requests[c.Request].state |= cut
	}
	c.found = max(0, c.found-1)
}

// cutOff reports whether some of what c asked for has to be asked for again.
func (c *Call) cutOff() bool { return c.is(dropped) && !c.is(failed) && c.TooLarge == 0 }

// Done ends call n: its reply is complete, and its last element has that kind. ended: it was the last call of its
// request's step.
func (p *Planner) Done(n int32, kind protocol.ReplyKind, reply []byte) (ended bool) {
	c := &p.Calls[n]
	if c.IsCheck() {
		return false
	}
	c.kind, c.reply = kind, reply
	if c.TooLarge > 0 {
		// The text does not name the server, so that replicas agree.
		c.found, c.kind = 0, protocol.ReplyServerError
		c.reply = p.textTooLarge(c.TooLarge)
	}
	return p.endCall(c)
}

// textTooLarge returns the answer for a value of that size.
func (p *Planner) textTooLarge(size int) []byte {
	return fmt.Appendf(nil, "SERVER_ERROR a value of %d bytes; accepted: up to %d (--max-value)\r\n", size,
		p.options.MaxValue)
}

// NoAnswer ends call n without a reply; text, an error line, takes the place of the reply. closed: the server has
// closed the connection. What still arrives for the call is dropped.
func (p *Planner) NoAnswer(n int32, text []byte, closed bool) (ended bool) {
	c := &p.Calls[n]
	c.state, c.found = c.state|failed|dropped, 0
	c.set(lost, closed)
	if c.IsCheck() {
		p.loseCopies(c)
		return false
	}
	c.kind, c.reply = protocol.ReplyServerError, text
	p.Requests[c.Request].state |= failed
	return p.endCall(c)
}

// endCall counts the end of a call. ended: it was the last one of its request's step.
func (p *Planner) endCall(c *Call) (ended bool) {
	p.arrivals++
	c.arrived = p.arrivals
	r := &p.Requests[c.Request]
	r.left--
	return r.left == 0
}

// Forget says that requests[i] is answered. It lets go of the replies of its step, unless a request that has joined it
// needs them.
func (p *Planner) Forget(i int32) {
	if r := p.answering(&p.Requests[i]); r.waiting > 0 {
		r.waiting--
		return
	}
	calls := p.CallsOf(i)
	for n := range calls {
		calls[n].reply = nil
	}
}

// Missed calls note with each key of which the server of call n, which got no reply, may hold an outdated value. all:
// any key may be outdated.
func (p *Planner) Missed(n int32, note func(key []byte)) (all bool) {
	c := &p.Calls[n]
	if c.IsCheck() {
		p.lookedAt(c, note)
		return false
	}
	r := &p.Requests[c.Request]
	switch {
	case !r.Has(protocol.Writes):
	case r.NumKeys == 0:
		return true
	case r.Has(protocol.Reads) && c.isPart(): // it touches nothing
	case r.Has(protocol.Reads):
		for key := range each(c.keys) {
			note(key)
		}
	default:
		note(r.key)
	}
	return false
}
