package worker

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// answerReady answers the clients whose part of the round is complete.
func (w *Worker) answerReady() {
	if len(w.ready) > 0 && (len(w.unmarked) > 0 || w.flushAll) {
		w.awaitMarks()
	}
	for _, p := range w.ready {
		w.answer(&w.parts[p])
	}
	w.ready = w.ready[:0]
}

// awaitMarks waits until a restart would find which servers missed writes that are about to be answered; and that others did
// before, where a flush_all has removed that.
func (w *Worker) awaitMarks() {
	if w.flushAll && slices.ContainsFunc(w.requests, func(r pending) bool { return r.Has(protocol.Everywhere|protocol.Writes) && r.done }) {
		w.flushAll = false
		for i, s := range w.options.Servers {
			s.Flushed()
			w.unmarked = append(w.unmarked, int32(i))
		}
	}
	for _, s := range w.unmarked {
		w.options.Servers[s].AwaitMarked(context.Background())
	}
	w.unmarked = w.unmarked[:0]
}

// answer writes the replies of a part with one write, and lets the connection go on if its batch is through.
func (w *Worker) answer(p *part) {
	w.out.Reset()
	received, answered := 0, p.last
	for i := p.first; i < p.last; i++ {
		r := &w.requests[i]
		if r.Resumed == 0 {
			received += len(r.Raw)
		}
		if !r.again {
			w.assemble(r)
		} else if rest := w.assemblePart(r); rest >= 0 {
			w.postpone(p, i, rest)
			answered = i
			break
		}
	}
	if size := w.out.Len(); size > 0 {
		if n := p.batch.Client.Reply(&w.out); n < size {
			p.stalled = true
			p.rest = w.out.AppendFrom(make([]byte, 0, size-n), n)
		}
	}
	replied := stats.Now()
	for i := p.first; i < answered; i++ {
		r := &w.requests[i]
		r.Replied = replied
		result, hits := w.result(r)
		if w.record.Count(r.Command, result, r.keysAsked(), hits, &r.Times) {
			w.log(r, result, hits)
		}
	}
	w.letGo(p)
	w.record.Flush()
	w.record.Bytes(received, w.out.Len())
	if p.batch.Answered() && !p.stalled {
		w.options.Entrance.Leave()
		p.batch.Client.Finish()
	}
}

// log hands r to the request log.
func (w *Worker) log(r *pending, result stats.Result, hits int) {
	calls := w.calls[r.first:r.last]
	e := stats.Event{
		Times: r.Times, Command: r.Command, Result: result, Keys: r.keysAsked(), Hits: hits, Bytes: len(r.Raw), Calls: len(calls),
	}
	if len(calls) > 0 {
		e.Server = w.options.Servers[calls[0].server].Name
	}
	w.record.Log(e, r.key)
}

// assemble adds the reply of r to the output.
func (w *Worker) assemble(r *pending) {
	calls := w.calls[r.first:r.last]
	switch {
	case r.NoReply || r.Has(protocol.Closes):
	case r.Answer != "":
		w.out.AddString(r.Answer)
	case r.text != "":
		w.out.AddString(r.text)
	case r.Has(protocol.Local):
		start := len(w.lines)
		w.lines = w.options.StatsText(w.lines)
		w.out.Add(w.lines[start:])
	case r.Has(protocol.Everywhere) && len(calls) > 1 && !r.Has(protocol.Writes):
		w.assembleStats(calls)
	case r.Command.IsRetrieval():
		_ = w.assembleValues(r, calls)
	default:
		w.assembleReply(r, w.reply(r, calls))
	}
}

// reply returns the call whose reply is the client's.
func (w *Worker) reply(r *pending, calls []call) *call {
	if r.chosen >= 0 {
		return &w.calls[r.chosen]
	}
	return lastError(calls)
}

// lastError returns the call that answered with an error last, the first call if none did.
func lastError(calls []call) *call {
	chosen := &calls[0]
	for i := range calls {
		c := &calls[i]
		if c.kind.IsError() && (!chosen.kind.IsError() || c.arrived > chosen.arrived) {
			chosen = c
		}
	}
	return chosen
}

// assembleReply adds c's reply, to anything but a retrieval. What a meta command's quiet mode leaves out the server did, if it was asked in that
// mode; of several replicas each was asked for its reply. memcached before 1.6.40 answers a quiet ma that makes its item.
func (w *Worker) assembleReply(r *pending, c *call) {
	if miss, ok := r.Miss(); ok && c.failed && w.options.GetErrorMiss {
		w.out.AddString(miss)
		return
	}
	switch {
	case r.Has(protocol.Quiet) && !c.failed && r.LeavesOut(c.reply):
	case c.barrier && !c.failed:
		w.out.Add(bytes.TrimSuffix(c.reply, []byte(protocol.TextMetaNoop)))
	default:
		w.out.Add(c.reply)
	}
}

// assembleValues adds the VALUEs of all calls in the order of the request, then END, or the error of a server that
// failed: its keys must not look like misses. If some of the values are still to be asked for, it returns the offset in Keys of the
// first key among theirs, and adds the values before it alone; otherwise it returns -1.
func (w *Worker) assembleValues(r *pending, calls []call) (rest int) {
	if len(calls) == 1 && !r.again && !(calls[0].failed && w.options.GetErrorMiss) {
		w.out.Add(calls[0].reply)
		return -1
	}
	rest = -1
	var failure []byte
	for i := range calls {
		if calls[i].kind.IsError() && !calls[i].cutOff() && !(calls[i].failed && w.options.GetErrorMiss) {
			failure = calls[i].reply
		}
	}
	if r.keyCalls >= 0 {
		rest = w.mergeValues(r)
	} else {
		offset := 0
		for i := range calls {
			c := &calls[i]
			switch {
			case rest >= 0:
				c.found = 0 // they are asked for again
			case c.cutOff():
				w.out.Add(c.reply)
				rest = offset + c.cut
			case c.kind == protocol.ReplyEnd:
				w.out.Add(c.reply[:len(c.reply)-len(protocol.TextEnd)])
			}
			offset += len(c.keys)
		}
	}
	switch {
	case failure != nil:
		w.out.Add(failure)
		return -1
	case rest < 0 && r.all != nil:
		return len(r.Keys)
	case rest < 0:
		w.out.AddString(protocol.TextEnd)
	}
	return rest
}

// mergeValues adds the VALUEs of calls whose keys were spread over the servers, and returns what assembleValues does.
func (w *Worker) mergeValues(r *pending) (rest int) {
	for k, n := range w.keyCalls[r.keyCalls : int(r.keyCalls)+r.NumKeys] {
		c := &w.calls[^n]
		if c.cutOff() && c.asked >= c.cutKey {
			for i := range w.calls[r.first:r.last] {
				w.calls[int(r.first)+i].found = w.calls[int(r.first)+i].added
			}
			return wordsEnd(r.Keys, k)
		}
		ordinal := c.asked
		c.asked++
		if c.kind != protocol.ReplyEnd || c.added == c.found {
			continue
		}
		it := w.items[c.item+c.added]
		if it.ordinal != ordinal {
			continue
		}
		w.out.Add(c.reply[it.start:it.end])
		c.added++
	}
	return -1
}

// assembleStats adds the servers' statistics, each name with the server's name before it. Servers that answer with one
// and the same line are answered with that.
func (w *Worker) assembleStats(calls []call) {
	lists := false
	for i := range calls {
		lists = lists || calls[i].kind == protocol.ReplyEnd
	}
	if !lists {
		w.out.Add(lastError(calls).reply)
		return
	}
	start := len(w.lines)
	for i := range calls {
		c := &calls[i]
		if c.kind != protocol.ReplyEnd {
			w.lines = append(append(w.lines, "STAT "...), w.options.Servers[c.server].Name...)
			w.lines = append(append(w.lines, ":error "...), c.reply...)
			continue
		}
		for rest := c.reply[:len(c.reply)-len(protocol.TextEnd)]; len(rest) > 0; {
			var line []byte
			line, rest = rest[:bytes.IndexByte(rest, '\n')+1], rest[bytes.IndexByte(rest, '\n')+1:]
			word, tail, _ := bytes.Cut(line, []byte(" "))
			w.lines = append(append(w.lines, word...), ' ')
			w.lines = append(append(w.lines, w.options.Servers[c.server].Name...), ':')
			w.lines = append(w.lines, tail...)
		}
	}
	w.lines = append(w.lines, protocol.TextEnd...)
	w.out.Add(w.lines[start:])
}

// result classifies how r ended, and counts the keys that were found.
func (w *Worker) result(r *pending) (result stats.Result, hits int) {
	calls := w.calls[r.first:r.last]
	if r.Settled {
		return r.Result, 0
	}
	if text := r.Answer + r.text; text != "" {
		return textResult(text), 0
	}
	if len(calls) == 0 && r.chosen < 0 {
		return stats.ResultOK, 0
	}
	if !r.Command.IsRetrieval() {
		return w.replyResult(r, w.reply(r, calls)), 0
	}
	worst := stats.ResultOK
	hits = int(r.SentHits)
	for i := range calls {
		if calls[i].hidden {
			continue
		}
		hits += int(calls[i].found)
		if calls[i].kind.IsError() {
			worst = kindResult(calls[i].kind)
		}
	}
	switch {
	case worst != stats.ResultOK:
		return worst, hits
	case hits == 0:
		return stats.ResultMiss, 0
	case hits < r.keysAsked():
		return stats.ResultPartial, hits
	}
	return stats.ResultOK, hits
}

// replyResult classifies the reply to anything but a retrieval.
func (w *Worker) replyResult(r *pending, c *call) stats.Result {
	switch c.kind {
	case protocol.ReplyMetaLine, protocol.ReplyMetaNoop:
		switch string(c.reply[:2]) {
		case "EN":
			return stats.ResultMiss
		case "NF", "NS", "EX":
			return stats.ResultNotStored
		}
		return stats.ResultOK
	}
	return kindResult(c.kind)
}

func kindResult(k protocol.ReplyKind) stats.Result {
	switch k {
	case protocol.ReplyNotStored, protocol.ReplyExists, protocol.ReplyNotFound:
		return stats.ResultNotStored
	case protocol.ReplyError, protocol.ReplyClientError:
		return stats.ResultClientError
	case protocol.ReplyServerError:
		return stats.ResultServerError
	}
	return stats.ResultOK
}

// textResult classifies an answer that was made here.
func textResult(text string) stats.Result {
	switch {
	case strings.HasPrefix(text, "SERVER_ERROR"):
		return stats.ResultServerError
	case strings.HasPrefix(text, "CLIENT_ERROR"), strings.HasPrefix(text, "ERROR"):
		return stats.ResultClientError
	case text == protocol.TextEnd:
		return stats.ResultMiss
	}
	return stats.ResultOK
}
