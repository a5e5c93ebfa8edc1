package plan

import (
	"bytes"
	"fmt"
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
	if c.is(failed) && (p.options.GetErrorMiss || r.read != nil && r.read.lacks) {
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
	r.hits = 0
	if r.split != nil {
		return p.addSplitValues(r, calls, out)
	}
	if len(calls) == 1 && !r.spread() && !r.portion() && !r.is(cut) &&
		!(calls[0].is(failed) && p.options.GetErrorMiss) {
		r.hits = calls[0].found
		out.Add(calls[0].reply)
		return -1
	}
	if r.spread() {
		rest = p.mergeValues(r, out, nil)
	} else {
		rest = r.joinValues(calls, out)
	}
	return p.endValues(r, calls, nil, rest, out)
}

// errorOf returns the call whose error answers r, a retrieval with these calls: the last that leaves one of its keys
// without an answer; nil: there is none. A key that the pool which is warmed up does not hold always has an answer, a
// miss. all: that Options.GetErrorMiss makes an error a miss does not count.
func (p *Planner) errorOf(r *Request, calls []Call, all bool) (last *Call) {
	leaves := func(c *Call) bool {
		return c.kind.IsError() && !c.cutOff() && !(c.is(failed) && p.options.GetErrorMiss && !all)
	}
	if r.spread() && !r.touches() { // an earlier step may have answered some of the keys
		for k := range r.read.keys {
			at := &r.read.keys[k]
			if c := &p.Calls[at.call]; leaves(c) && !(at.lacks && c.is(failed)) {
				last = c
			}
		}
		return last
	}
	for i := range calls {
		if c := &calls[i]; leaves(c) && c.form != formLife && !p.spares(r, c) {
			last = c
		}
	}
	return last
}

// endValues ends an answer with the values of r. Unless there is a failure, that one or one of calls, rest is what
// Answer returns.
func (p *Planner) endValues(r *Request, calls []Call, failure []byte, rest int, out Output) int {
	if c := p.errorOf(r, calls, false); c != nil && failure == nil {
		failure = c.reply
	}
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
func (r *Request) joinValues(calls []Call, out Output) (rest int) {
	offset := 0
	for i := range calls {
		c := &calls[i]
		r.hits += c.found
		switch {
		case c.cutOff():
			out.Add(c.reply)
			return offset + int(c.cut)
		case c.kind == protocol.ReplyEnd:
			out.Add(c.reply[:len(c.reply)-len(protocol.TextEnd)])
		}
		offset += len(c.keys) + len(blank)
	}
	return -1
}

// mergeValues merges the VALUEs of calls among which the keys are spread. It adds them to out, or to s unless that is
// nil.
func (p *Planner) mergeValues(r *Request, out Output, s *split) (rest int) {
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
			r.hits++
		}
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
			p.lines = fmt.Appendf(p.lines, "STAT %s:error %s", name, c.reply)
			continue
		}
		for line := range bytes.Lines(c.reply[:len(c.reply)-len(protocol.TextEnd)]) {
			word, tail, _ := bytes.Cut(line, blank)
			p.lines = fmt.Appendf(p.lines, "%s %s:%s", word, name, tail)
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
	worst, a := stats.ResultOK, p.answering(r)
	hits = int(r.SentHits + a.hits)
	if c := p.errorOf(a, p.CallsOf(i), true); c != nil {
		worst = kindResult(c.kind)
	}
	if a.split != nil && a.split.failed {
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
