package worker

import (
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// answerReady answers the clients whose part of the round is complete, and reports whether there are any.
func (w *Worker) answerReady() bool {
	if len(w.ready) == 0 {
		return false
	}
	if w.marks.flushAll {
		w.noteFlush()
	}
	for _, p := range w.ready {
		w.answer(&w.parts[p])
	}
	w.ready = w.ready[:0]
	return true
}

// answer writes the replies of a part with one write, and finishes its batch at the client if all of it is answered.
func (w *Worker) answer(p *part) {
	w.out.Reset()
	if w.marks.any {
		w.leaveUnmarked(p)
	}
	received, answered := 0, p.last
	for i := p.first; i < p.last; i++ {
		r := &w.planner.Requests[i]
		if r.Resumed == 0 {
			received += len(r.Raw)
		}
		w.requests[i].replyAt = w.out.Len()
		rest := -1
		if w.copier == nil {
			rest = w.planner.Answer(i, &w.out, w.options.StatsText)
		} else {
			rest = w.answerCopied(i)
		}
		if rest >= 0 {
			w.postpone(p, i, rest)
			answered = i
			break
		}
	}
	if w.copier != nil {
		w.copier.HandOver()
	}
	if size := w.out.Len(); size > 0 {
		if n := p.batch.Client.Reply(&w.out); n < size {
			p.stalled = true
			p.rest = w.out.AppendFrom(make([]byte, 0, size-n), n)
		}
	}
	replied := stats.Now()
	w.replied = replied
	for i := p.first; i < answered; i++ {
		r := &w.planner.Requests[i]
		r.Replied = replied
		result, hits := w.planner.Result(i)
		if r.NumKeys > 0 && !w.record.Skips(int(r.NumKeys)) {
			w.sample(p, i, result, hits)
		}
		if w.tracks(r, hits) {
			w.track(p, i, result, hits)
		}
		if w.requests[i].wanted {
			w.keepHot(i)
		}
		if r.Command.IsMeta() || r.Has(protocol.Conditional) || r.Command.IsRetrieval() && r.Has(protocol.Writes) {
			w.countAs(i, result, hits)
		}
		if w.record.Count(r.Command, result, r.KeysAsked(), hits, &r.Times) {
			w.log(i, result, hits)
		}
	}
	w.letGo(p)
	w.record.Bytes(received, w.out.Len())
	w.record.Flush()
	if p.batch.Answered() && !p.stalled {
		w.options.Entrance.Leave()
		p.batch.Client.Finish()
	}
}

// postpone leaves requests[i] of p, from the key at offset rest on, and the requests after it to a later round.
func (w *Worker) postpone(p *part, i int32, rest int) {
	w.planner.Postpone(i, rest)
	w.requests[i].Resumed = stats.Now()
	w.deferFrom(p, i)
}

// deferFrom leaves requests[i] of p and the requests after it to a later round. If one of these is answered and cannot
// be repeated, its answer is kept until then.
func (w *Worker) deferFrom(p *part, i int32) {
	p.batch.Next -= int(p.last - i)
	for j := i + 1; j < p.last; j++ {
		r := &w.planner.Requests[j]
		repeats := r.Has(protocol.Reads) && (w.planner.Partial(j) || w.mayRepeat(p))
		w.planner.Restore(j)
		if !repeats && !r.Settled && (!r.Idle() || r.Fixed()) {
			w.settleFor(j, w.unmarkedOf(j))
		}
	}
}

// settleFor keeps the servers' answer to requests[i] until the requests before it are answered, and unmarked has no
// server left.
func (w *Worker) settleFor(i int32, unmarked *request.Unmarked) {
	r := &w.planner.Requests[i]
	w.aside.Reset()
	_ = w.planner.Answer(i, &w.aside, w.options.StatsText)
	text := string(w.aside.AppendFrom(nil, 0))
	result, hits := w.planner.Result(i)
	r.Request.Result, r.SentHits = result, int32(hits)
	if w.copier != nil {
		w.copier.Write(&r.Request.Request, r.ClientKey(), r.Request.Result, w.orderOf(i))
	}
	r.Settled, r.Unmarked = true, unmarked
	setAnswer(r.Request, text)
}

// setAnswer makes text the answer to r, which is settled.
func setAnswer(r *request.Request, text string) {
	if r.NoReply = text == ""; r.NoReply {
		text = protocol.TextStored // any text: it is not sent
	}
	r.Answer = text
}

// log hands requests[i] to the request log.
func (w *Worker) log(i int32, result stats.Result, hits int) {
	r, calls := &w.planner.Requests[i], w.planner.CallsOf(i)
	e := stats.Event{
		Times: r.Times, Command: r.Command, Result: result, Keys: r.KeysAsked(), Hits: hits, Bytes: len(r.Raw),
		Calls: len(calls),
	}
	if r.HasJoined() {
		e.Calls = 0
	}
	if len(calls) > 0 {
		e.Server = w.options.Servers[calls[0].Server].Name
	}
	w.record.Log(e, r.ClientKey())
}
