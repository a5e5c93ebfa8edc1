package plan

import (
	"bytes"
	"slices"

	"mcmw/internal/large"
	"mcmw/internal/protocol"
)

// This file reads values that are larger than the servers' items; the drawing is in large.go.

// noteSplit notes that r has read a value that begins like a head.
func (p *Planner) noteSplit(r *Request) {
	if r.split == nil {
		p.newSplit(r)
	}
}

// beginsHead reports whether the value in element, of that size and from the server of c, begins like a head.
func (p *Planner) beginsHead(c *Call, element []byte, size int) bool {
	in := p.options.Router.Of(int(c.Server))
	return p.options.Pools[in.Number()].Large.Limit > 0 && size >= large.HeadSize && size <= p.options.MaxValue &&
		large.Begins(protocol.Value(element, size))
}

// afterSplit lists the values of a read, one of which begins like a head, and returns the step that follows.
func (p *Planner) afterSplit(r *Request) step {
	again := false
	s := r.split
	s.values, s.rest, p.readOf(r).before = s.values[:0], -1, r.span
	switch {
	case !r.Command.IsRetrieval():
		p.listValues(s, r.first, r.Keys, 0)
	case r.spread():
		s.rest = p.mergeValues(r, nil, s)
	default:
		offset := 0
		for n := r.first; n < r.last && s.rest < 0; n++ {
			c := &p.Calls[n]
			if c.form == formClient && (c.kind == protocol.ReplyEnd || c.cutOff()) {
				p.listValues(s, n, c.keys, offset)
			}
			if c.cutOff() {
				s.rest = offset + int(c.cut)
			}
			offset += len(c.keys) + len(blank)
		}
	}
	for k := range s.values {
		v := &s.values[k]
		c := &p.Calls[v.call]
		var rep protocol.Reply
		_, _, _ = protocol.DecodeReply(v.element, &rep) // it was decoded before
		v.size = rep.Data
		if !p.beginsHead(c, v.element, v.size) {
			continue
		}
		var ok bool
		v.isHead = true
		if v.head, v.inline, ok = large.Decode(protocol.Value(v.element, v.size)); !ok {
			p.missing(v)
		}
		again = again || ok && !v.head.Inline()
	}
	if again {
		return gathering
	}
	return p.afterIncomplete(r)
}

// missing notes that v cannot be put together.
func (p *Planner) missing(v *splitValue) {
	v.missing = true
	p.Large.Incomplete++
}

// listValues lists the values in the reply to call n, which asks for keys. The first of these is at offset in the
// request's Keys.
func (p *Planner) listValues(s *split, n int32, keys []byte, offset int) {
	for reply := p.Calls[n].reply; len(reply) > 0; {
		var rep protocol.Reply
		size, _, err := protocol.DecodeReply(reply, &rep)
		if err != nil || size == 0 || rep.Kind != protocol.ReplyValue && rep.Kind != protocol.ReplyMetaValue {
			return
		}
		at := offset
		for rep.Kind == protocol.ReplyValue {
			key, rest := nextKey(keys)
			at = offset
			offset += len(key) + len(blank)
			keys = rest
			if bytes.Equal(key, rep.Key) {
				break
			}
		}
		s.values = append(s.values, splitValue{call: n, offset: at, element: reply[:size]})
		reply = reply[size:]
	}
}

// planGather asks for the chunks of the values that r has read, as many values as there is memory for.
func (p *Planner) planGather(r *Request) {
	s := r.split
	for k := range s.values {
		v := &s.values[k]
		if !v.isHead || v.missing || v.head.Inline() {
			continue
		}
		if v.head.Total > p.options.MaxValue {
			v.failure = p.textTooLarge(v.head.Total)
			continue
		}
		if p.options.Hold != nil && !p.options.Hold(r.number, v.head.Total) {
			s.rest, s.values = v.offset, s.values[:k]
			if !r.Command.IsRetrieval() {
				p.Calls[v.call].state |= dropped
			}
			return
		}
		v.first = int32(len(p.Calls))
		for n := range v.head.Chunks() {
			op := protocol.KeyText{Text: v.head.AppendKey(nil, n)}.Meta('g', "vk")
			c := p.send(r, int(p.Calls[v.call].Server), &op)
			c.form, c.state = formChunk, hidden|reads
		}
		v.last = int32(len(p.Calls))
	}
}

// afterGather checks the chunks.
func (p *Planner) afterGather(r *Request, inTime bool) step {
	if next := p.askOthers(r, inTime); next != answered {
		return next
	}
	s := r.split
	for k := range s.values {
		if v := &s.values[k]; v.first < v.last {
			p.judgeChunks(v)
		}
	}
	return p.afterIncomplete(r)
}

// afterReplaced reads r again if another value has replaced a head: by now a miss would be wrong.
func (p *Planner) afterReplaced(r *Request) step {
	replaced := func(v splitValue) bool { return v.replaced && v.failure == nil }
	switch {
	case r.is(fixed) || !slices.ContainsFunc(r.split.values, replaced):
	case p.readOf(r).rereads == mostRereads:
		r.Fail(textReplaced)
	default:
		r.read.rereads++
		return p.readAgain(r)
	}
	p.endSplit(r)
	return answered
}

// afterIncomplete lets heads be read again whose chunks are incomplete. A read answers such a value with a miss, so the
// key must be missing for writes, too.
func (p *Planner) afterIncomplete(r *Request) step {
	if s := r.split; !r.is(fixed) &&
		slices.ContainsFunc(s.values, func(v splitValue) bool { return v.missing && v.failure == nil }) {
		return revisiting
	}
	p.endSplit(r)
	return answered
}

// mostRereads bounds how often a request is read again because other requests replace what it reads.
const mostRereads = 16

// isPart reports whether c, a call of a read, belongs to a step that follows the heads'.
func (c *Call) isPart() bool {
	return c.form == formChunk || c.form == formHead || c.form == formStored
}

// keyOf returns the key of v, a value that r has read.
func (r *Request) keyOf(v *splitValue) protocol.KeyText {
	if !r.Command.IsRetrieval() {
		return r.KeyText()
	}
	key, _ := nextKey(r.Keys[v.offset:])
	return protocol.KeyText{Text: key}
}

// planRevisit reads the heads of r with incomplete chunks again, with their cas.
func (p *Planner) planRevisit(r *Request) {
	s := r.split
	for k := range s.values {
		if v := &s.values[k]; v.missing {
			v.revisit = int32(len(p.Calls))
			op := r.keyOf(v).Ask(protocol.ForItem)
			c := p.send(r, int(p.Calls[v.call].Server), &op)
			c.form, c.state = formHead, hidden|reads
		}
	}
}

// afterRevisit decides which heads are deleted.
func (p *Planner) afterRevisit(r *Request, inTime bool) step {
	if next := p.askOthers(r, inTime); next != answered {
		return next
	}
	again := false
	for k := range r.split.values {
		if v := &r.split.values[k]; v.missing {
			_, discards := p.judgeRevisit(r, v)
			again = again || discards
		}
	}
	if again && !r.is(fixed) {
		return discarding
	}
	return p.afterReplaced(r)
}

// judgeRevisit decides what follows from reading the head of v again: op, unless ok is false. It deletes the head by
// its cas, so that nothing that was stored later is lost, or leaves an item that has replaced the head as it was.
func (p *Planner) judgeRevisit(r *Request, v *splitValue) (op protocol.Op, ok bool) {
	c := &p.Calls[v.revisit]
	if c.kind.IsError() {
		v.failure = c.reply
		return op, false
	}
	it, found := protocol.DecodeItem(c.reply)
	still := found && !c.is(dropped) && bytes.Equal(it.Data, v.element[len(v.element)-v.size-len(crlf):])
	v.replaced = !still && (found || c.is(dropped))
	switch {
	case still && it.CAS != 0:
		return r.keyOf(v).Cut(it.CAS), true
	case v.replaced && it.Won && it.Stale:
		return r.keyOf(v).GiveBack(it.CAS), true
	}
	return op, false
}

// planDiscard sends what follows from reading heads again.
func (p *Planner) planDiscard(r *Request) {
	for k := range r.split.values {
		v := &r.split.values[k]
		if !v.missing {
			continue
		}
		if op, ok := p.judgeRevisit(r, v); ok {
			v.end = int32(len(p.Calls))
			c := p.send(r, int(p.Calls[v.revisit].Server), &op)
			c.form, c.state = formStored, hidden
		}
	}
}

// afterDiscard notes which heads were deleted.
func (p *Planner) afterDiscard(r *Request, inTime bool) step {
	if next := p.askOthers(r, inTime); next != answered {
		return next
	}
	for k := range r.split.values {
		v := &r.split.values[k]
		if v.end == 0 {
			continue
		}
		switch c := &p.Calls[v.end]; {
		case c.kind.IsError():
			v.failure = c.reply
		case c.kind == protocol.ReplyMetaExists:
			v.replaced = true
		}
	}
	return p.afterReplaced(r)
}

// judgeChunks checks the chunks of v.
func (p *Planner) judgeChunks(v *splitValue) {
	sum := uint32(0)
	for n := range v.head.Chunks() {
		c := &p.Calls[v.first+int32(n)]
		start, end := v.head.Range(n)
		switch {
		case c.kind.IsError():
			v.failure = c.reply
			return
		case c.found != int32(end-start)+1:
			p.missing(v)
			return
		}
		sum = large.Sum(sum, p.chunk(v, n))
	}
	if sum != v.head.Sum {
		p.missing(v)
		return
	}
	p.Large.Read++
}

// chunk returns the n-th chunk of v, whose chunks were checked.
func (p *Planner) chunk(v *splitValue, n int) []byte {
	start, end := v.head.Range(n)
	return protocol.Value(p.Calls[v.first+int32(n)].reply, end-start)
}

// endSplit ends the steps that follow the heads'. Afterwards the calls of r are those of the heads again. It replaces
// the reply to an mg whose value is missing or could not be read.
func (p *Planner) endSplit(r *Request) {
	s := r.split
	r.span = r.read.before
	for k := range s.values {
		v := &s.values[k]
		s.failed = s.failed || v.failure != nil
		if r.Command.IsRetrieval() || !v.missing && v.failure == nil {
			continue
		}
		c := &p.Calls[v.call]
		if v.failure != nil {
			c.kind, c.reply, c.state = protocol.ReplyServerError, v.failure, c.state|failed
		} else {
			start := len(p.lines)
			c.kind, p.lines = r.Forgotten(p.lines)
			c.reply = p.lines[start:]
		}
		s.values = s.values[:0]
		return
	}
}

// addSplitValues is addValues for a request with a split.
func (p *Planner) addSplitValues(r *Request, calls []Call, out Output) (rest int) {
	s := r.split
	failure := []byte(nil)
	for k := range s.values {
		v := &s.values[k]
		switch {
		case v.failure != nil:
			if !p.options.GetErrorMiss {
				failure = v.failure
			}
		case !v.missing:
			p.addSplitValue(r, v, v.key, out)
			r.hits++
		}
	}
	return p.endValues(r, calls, failure, s.rest, out)
}

// addSplitValue adds v with key, unless that is nil.
func (p *Planner) addSplitValue(r *Request, v *splitValue, key []byte, out Output) {
	c := &p.Calls[v.call]
	if !v.isHead {
		p.addElement(r, c, v.element, key, out)
		return
	}
	it, _ := protocol.DecodeItem(v.element)
	it.Size = v.head.Total
	out.Add(p.shown(r, c, it, key))
	out.Add(v.inline)
	for n := range v.head.Chunks() {
		out.Add(p.chunk(v, n))
	}
	out.Add(crlf)
}

// takeSplit looks at a VA that the caller may keep. value is what Element returns.
func (p *Planner) takeSplit(r *Request, c *Call, element []byte, size int) (value bool) {
	switch {
	case c.form == formChunk:
		c.found = int32(size) + 1
		return false // its memory was reserved when it was asked for
	case c.form == formHead:
		return size > large.HeadSize // a head is too small to count
	case c.form == formClient && p.beginsHead(c, element, size):
		p.noteSplit(r)
	}
	return true
}
