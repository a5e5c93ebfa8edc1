package worker

import (
	"context"

	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// marks is what a restart has to find on the servers before more is answered.
type marks struct {
	unmarked []int32 // servers that missed writes
	flushAll bool    // a flush_all is under way
}

// answerReady answers the clients whose part of the round is complete, and reports whether there were any.
func (w *Worker) answerReady() bool {
	if len(w.ready) == 0 {
		return false
	}
	if len(w.marks.unmarked) > 0 || w.marks.flushAll {
		w.awaitMarks()
	}
	for _, p := range w.ready {
		w.answer(&w.parts[p])
	}
	w.ready = w.ready[:0]
	return true
}

// awaitMarks waits until a restart would find which servers missed writes that are about to be answered; and that others did
// before, where a flush_all has removed that.
func (w *Worker) awaitMarks() {
	for i := range w.requests {
		if w.marks.flushAll && w.requests[i].done && w.planner.Requests[i].IsFlush() {
			w.marks.flushAll = false
			for s, server := range w.options.Servers {
				server.Flushed()
				w.marks.unmarked = append(w.marks.unmarked, int32(s))
			}
		}
	}
	for _, s := range w.marks.unmarked {
		server := w.options.Servers[s]
		barring := w.options.Pools[w.options.Router.Of(int(s)).Number()].Barring
		if barring && !server.Marked() && !w.member.Patient {
			w.standAside(int(s)) // it takes longer than a request may
		}
		if !server.AwaitMarked(context.Background()) && barring {
			server.Withheld(w.planner.Withhold(s, func(i int32) bool { return w.requests[i].done }))
		}
	}
	w.marks.unmarked = w.marks.unmarked[:0]
}

// answer writes the replies of a part with one write, and lets the connection go on if its batch is through.
func (w *Worker) answer(p *part) {
	w.out.Reset()
	received, answered := 0, p.last
	for i := p.first; i < p.last; i++ {
		r := &w.planner.Requests[i]
		if r.Resumed == 0 {
			received += len(r.Raw)
		}
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
		switch r.NumKeys {
		case 0:
		case 1:
			w.record.Keys(r.ClientKey(), 1, replied)
		default:
			w.record.Keys(r.Keys, r.NumKeys, replied)
		}
		if w.requests[i].wanted {
			w.keepHot(i)
		}
		if w.record.Count(r.Command, result, r.KeysAsked(), hits, &r.Times) {
			w.log(i, result, hits)
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

// postpone leaves requests[i] of p, from the key at offset rest on, and those behind it to a later round. Of those that can't be repeated
// the servers' answer is kept until then.
func (w *Worker) postpone(p *part, i int32, rest int) {
	p.batch.Next -= int(p.last - i)
	w.planner.Postpone(i, rest)
	w.planner.Requests[i].Resumed = stats.Now()
	for j := i + 1; j < p.last; j++ {
		w.planner.Restore(j)
		if r := &w.planner.Requests[j]; !r.Has(protocol.Reads) && !r.Settled && (!r.Idle() || r.Fixed) {
			w.settleFor(r, j)
		}
	}
}

// settleFor keeps the answer of r, which the servers have given, until what is before it is answered.
func (w *Worker) settleFor(r *plan.Request, i int32) {
	w.aside.Reset()
	_ = w.planner.Answer(i, &w.aside, w.options.StatsText)
	text := string(w.aside.AppendFrom(nil, 0))
	r.Request.Result, _ = w.planner.Result(i)
	if w.copier != nil {
		w.copier.Write(&r.Request.Request, r.ClientKey(), r.Request.Result, w.orderOf(i))
	}
	r.Settled = true
	if text == "" {
		r.NoReply, text = true, protocol.TextStored // what is not sent
	}
	r.Answer = text
}

// log hands requests[i] to the request log.
func (w *Worker) log(i int32, result stats.Result, hits int) {
	r, calls := &w.planner.Requests[i], w.planner.CallsOf(i)
	e := stats.Event{
		Times: r.Times, Command: r.Command, Result: result, Keys: r.KeysAsked(), Hits: hits, Bytes: len(r.Raw), Calls: len(calls),
	}
	if r.HasJoined() {
		e.Calls = 0
	}
	if len(calls) > 0 {
		e.Server = w.options.Servers[calls[0].Server].Name
	}
	w.record.Log(e, r.ClientKey())
}
