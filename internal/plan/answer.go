package plan

import (
	"bytes"
	"strings"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// Output receives an answer, piece by piece.
type Output interface {
	Add(piece []byte)
	AddString(piece string)
}

// Answer adds the answer of requests[i] to out; it adds nothing if there is none. If values of a retrieval are still to
// be asked for, it adds only the values before them and returns the offset in Keys of the first missing key, where
// Postpone continues; otherwise it returns -1. statistics appends the middleware's own statistics.
func (p *Planner) Answer(i int32, out Output, statistics func(dst []byte) []byte) (rest int) {
	r := &p.Requests[i]
	calls := p.CallsOf(i)
	switch {
	case r.NoReply || r.Has(protocol.Closes):
	case r.Answer != "":
		out.AddString(r.Answer)
	case r.is(fixed):
		out.AddString(r.text)
	case r.leftOut():
		return 0
	case r.IsOverview():
		start := len(p.lines)
		p.lines = addedLists(p.lines, statistics(nil), calls)
		out.Add(p.lines[start:])
	case r.Has(protocol.Everywhere) && len(calls) > 1:
		p.addLists(r, calls, out)
	case r.Command.IsRetrieval():
		return p.addValues(p.answering(r), calls, out)
	case p.replyOf(r).cutOff():
		return 0
	case r.split != nil && r.Has(protocol.Reads) && len(r.split.values) > 0:
		p.addSplitValue(r, &r.split.values[0], r.renamed(), out)
	default:
		p.addReply(r, p.replyOf(r), out)
	}
	return -1
}

// replyOf returns the call whose reply the client gets.
func (p *Planner) replyOf(r *Request) *Call {
	if r.chosen() >= 0 {
		return &p.Calls[r.write.chosen]
	}
	return lastError(p.Calls[r.first:r.last])
}

// lastError returns the call that was answered with an error last; the first call if there is no error.
func lastError(calls []Call) *Call {
	chosen := &calls[0]
	for i := range calls {
		c := &calls[i]
		if c.kind.IsError() && (!chosen.kind.IsError() || c.arrived > chosen.arrived) {
			chosen = c
		}
	}
	return chosen
}

// addReply adds c's reply, to anything but a retrieval. In the quiet mode of a meta command the server leaves replies
// out if it was asked in that mode; replicas are never asked in quiet mode, so their replies are left out here.
// memcached before 1.6.40 answers a quiet ma that creates its item.
func (p *Planner) addReply(r *Request, c *Call, out Output) {
	if r.warms() {
		p.noteWarming(r, c)
	}
	if c.is(failed) && (p.options.GetErrorMiss || c.is(afterMiss)) {
		start, ok := len(p.lines), false
		if p.lines, ok = r.Miss(p.lines); ok {
			out.Add(p.lines[start:])
			return
		}
	}
	switch {
	case r.Command.IsMeta() && !c.is(failed):
		p.addMeta(r, c, out)
	case r.Version() != 0:
		out.Add(r.Classic(c.kind, c.reply))
	case c.is(fence) && !c.is(failed):
		out.Add(bytes.TrimSuffix(c.reply, []byte(protocol.TextMetaNoop)))
	default:
		out.Add(c.reply)
	}
}

// addMeta adds c's reply to the meta command r.
func (p *Planner) addMeta(r *Request, c *Call, out Output) {
	reply := c.reply
	if c.is(fence) {
		reply = bytes.TrimSuffix(reply, []byte(protocol.TextMetaNoop))
	}
	if changes := r.stripped != nil || p.changes(r, c); changes || r.Has(protocol.Quiet) {
		it, _ := protocol.DecodeItem(reply)
		if r.Has(protocol.Quiet) && r.LeavesOut(it.Kind) {
			return
		}
		if changes && it.Kind.IsMeta() {
			out.Add(p.shown(r, c, it, r.renamed()))
			_, reply, _ = bytes.Cut(reply, crlf)
		}
	}
	out.Add(reply)
}

// addValues adds the VALUEs of all calls in the order of the request, then END, or the error of a server that failed:
// its keys must not look like misses. It returns what Answer returns.
func (p *Planner) addValues(r *Request, calls []Call, out Output) (rest int) {
	if last := len(calls) - 1; last > 0 && calls[last].form == formLife {
		calls = calls[:last]
	}
	if r.split != nil {
		return p.addSplitValues(r, calls, out)
	}
	if len(calls) == 1 && !r.spread() && !r.portion() && !r.is(cut) &&
		!(calls[0].is(failed) && p.options.GetErrorMiss) {
		out.Add(calls[0].reply)
		return -1
	}
	if r.spread() {
		rest = p.mergeValues(r, out, nil)
	} else {
		rest = joinValues(calls, out)
	}
	return p.endValues(r, p.failureOf(r, calls), rest, out)
}

// failureOf returns the error that answers r, a retrieval with these calls; nil if there is none.
func (p *Planner) failureOf(r *Request, calls []Call) (failure []byte) {
	if r.warms() {
		return p.unansweredOf(r)
	}
	for i := range calls {
		if c := &calls[i]; c.kind.IsError() && !c.cutOff() && !(c.is(failed) && p.options.GetErrorMiss) &&
			!p.spares(r, c) {
			failure = c.reply
		}
	}
	return failure
}

// endValues ends an answer with the values of r. Unless there is a failure, rest is what Answer returns.
func (p *Planner) endValues(r *Request, failure []byte, rest int, out Output) int {
	switch {
	case failure != nil:
		out.Add(failure)
		return -1
	case rest >= 0:
		return rest
	case r.portion():
		return len(r.Keys) + len(blank)
	}
	out.AddString(protocol.TextEnd)
	return -1
}

// joinValues adds the VALUEs of calls that ask for consecutive keys.
func joinValues(calls []Call, out Output) (rest int) {
	rest = -1
	offset := 0
	for i := range calls {
		c := &calls[i]
		switch {
		case rest >= 0:
			c.found = 0 // they are asked for again
		case c.cutOff():
			out.Add(c.reply)
			rest = offset + int(c.cut)
		case c.kind == protocol.ReplyEnd:
			out.Add(c.reply[:len(c.reply)-len(protocol.TextEnd)])
		}
		offset += len(c.keys) + len(blank)
	}
	return rest
}

// mergeValues merges the VALUEs of calls among which the keys are spread. It adds them to out, or to s unless that is
// nil.
func (p *Planner) mergeValues(r *Request, out Output, s *split) (rest int) {
	for k := range r.read.keys {
		p.Calls[r.read.keys[k].call].found = 0
	}
	misses := p.options.GetErrorMiss && r.touches()
	for k := range r.read.keys {
		at := &r.read.keys[k]
		c, key := &p.Calls[at.call], at.of(r.Keys)
		if c.cutOff() && int32(k) >= c.cut {
			return int(at.key)
		}
		found := c.kind == protocol.ReplyEnd && at.end > 0
		if r.warms() {
			p.noteWarmed(key, c, at.lacks, found)
		}
		if !found || misses && p.untouched(r, key[at.strip:]) {
			continue
		}
		if at.strip == 0 {
			key = nil // the servers have it
		}
		if value := c.reply[at.start:at.end]; s != nil {
			s.values = append(s.values, splitValue{call: at.call, offset: int(at.key), element: value, key: key})
		} else {
			p.addElement(r, c, value, key, out)
		}
		c.found++
	}
	return -1
}

// addLists adds the servers' lists of statistics: as one list where programs know its names, otherwise with the
// server's name before each name. If no server answers with a list, the answer is the last error, or the first server's
// reply.
func (p *Planner) addLists(r *Request, calls []Call, out Output) {
	lists := false
	for i := range calls {
		lists = lists || calls[i].kind == protocol.ReplyEnd
	}
	if !lists {
		out.Add(lastError(calls).reply)
		return
	}
	start := len(p.lines)
	if merge := merges[string(r.Arg())]; merge != nil && r.Mode == 0 {
		p.lines = merge(p.lines, nil, calls)
		out.Add(p.lines[start:])
		return
	}
	for i := range calls {
		c := &calls[i]
		name := p.options.Names[c.Server]
		if c.kind != protocol.ReplyEnd {
			p.lines = append(append(append(append(p.lines, "STAT "...), name...), ":error "...), c.reply...)
			continue
		}
		for rest := c.reply[:len(c.reply)-len(protocol.TextEnd)]; len(rest) > 0; {
			var line []byte
			line, rest = rest[:bytes.IndexByte(rest, '\n')+1], rest[bytes.IndexByte(rest, '\n')+1:]
			word, tail, _ := bytes.Cut(line, blank)
			p.lines = append(append(p.lines, word...), ' ')
			p.lines = append(append(p.lines, name...), ':')
			p.lines = append(p.lines, tail...)
		}
	}
	p.lines = append(p.lines, protocol.TextEnd...)
	out.Add(p.lines[start:])
}

// Result classifies how requests[i] ended, and counts the keys that were found.
func (p *Planner) Result(i int32) (result stats.Result, hits int) {
	r := &p.Requests[i]
	switch {
	case r.Settled:
		return r.Request.Result, int(r.SentHits)
	case r.Answer != "":
		return textResult(r.Answer), 0
	case r.is(fixed):
		return textResult(r.text), 0
	case r.Has(protocol.Local), r.IsOverview():
		return stats.ResultOK, 0
	case !r.Command.IsRetrieval():
		return replyResult(p.replyOf(r)), 0
	}
	worst := stats.ResultOK
	hits = int(r.SentHits)
	if r.warms() {
		worst = p.worstOf(r)
		if calls := p.CallsOf(i); r.read.before.first != r.first && len(calls) > 0 {
			for n := r.read.before.first; n < r.read.before.last; n++ {
				hits += int(p.Calls[n].found)
			}
		}
	}
	calls := p.CallsOf(i)
	for n := range calls {
		if c := &calls[n]; !c.is(hidden) {
			hits += int(c.found)
			if c.kind.IsError() && !r.warms() {
				worst = kindResult(c.kind)
			}
		} else if c.is(failed) && p.untouched(r, nil) {
			worst = stats.ResultServerError
		}
	}
	if s := p.answering(r); s.split != nil && s.split.failed {
		worst = stats.ResultServerError
	}
	switch {
	case worst != stats.ResultOK:
		return worst, hits
	case hits == 0:
		return stats.ResultMiss, 0
	case hits < r.KeysAsked():
		return stats.ResultPartial, hits
	}
	return stats.ResultOK, hits
}

// NotFound reports whether the reply to requests[i], which is answered, says that there is no item; that of a quiet mg
// by saying nothing.
func (p *Planner) NotFound(i int32) bool {
	r := &p.Requests[i]
	if r.Settled || r.is(fixed) || r.Answer != "" || len(p.CallsOf(i)) == 0 {
		return false
	}
	c := p.replyOf(r)
	return c.kind.IsNotFound() || c.kind == protocol.ReplyMetaNoop && r.Verb == 'g' &&
		bytes.HasPrefix(c.reply, []byte("MN"))
}

// replyResult classifies the reply to anything but a retrieval.
func replyResult(c *Call) stats.Result {
	if c.kind == protocol.ReplyMetaNoop { // what comes before counts
		it, _ := protocol.DecodeItem(c.reply)
		return kindResult(it.Kind)
	}
	return kindResult(c.kind)
}

// kindResult classifies a reply by its kind.
func kindResult(k protocol.ReplyKind) stats.Result {
	switch {
	case k.IsRefusal():
		return stats.ResultNotStored
	case k == protocol.ReplyMetaMiss:
		return stats.ResultMiss
	case k == protocol.ReplyServerError:
		return stats.ResultServerError
	case k.IsError():
		return stats.ResultClientError
	}
	return stats.ResultOK
}

// textResult classifies an answer that was not made by a server.
func textResult(text string) stats.Result {
	switch {
	case strings.HasPrefix(text, "SERVER_ERROR"):
		return stats.ResultServerError
	case strings.HasPrefix(text, "CLIENT_ERROR"), strings.HasPrefix(text, "ERROR"):
		return stats.ResultClientError
	case strings.HasPrefix(text, "EN"): // END, or EN with what was asked for
		return stats.ResultMiss
	}
	return stats.ResultOK
}
