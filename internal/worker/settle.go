package worker

import (
	"bytes"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/stats"
)

// settle is called when all calls of a request's step have their replies. It returns true if the request needs a further step, which
// planStep plans.
func (w *Worker) settle(r *pending) (again bool) {
	switch r.step {
	case stepSend, stepRetry:
		if w.retries(r) {
			if r.step == stepSend {
				r.step, r.retryFirst = stepRetry, r.first
			}
			r.retries++
			r.retryLast = r.last
			return true
		}
		if r.last-r.first < 2 || !r.replicated() {
			return false
		}
		return w.decide(r, -1)
	case stepCompare:
		c := &w.calls[r.first]
		r.chosen = r.first
		switch outcomeOf(r, c) {
		case replica.Success:
			r.step = stepCopy
			return true
		case replica.Silent:
			// It may have stored or not.
			return w.decide(r, -1)
		}
		return false
	case stepCopy:
		return w.decide(r, r.chosen)
	}
	return false
}

// retries reports whether r is a failed read that can be retried: on a server that was not asked yet, or on the same one if it closed
// the connection, as a server that was restarted does.
func (w *Worker) retries(r *pending) bool {
	if r.Answer != "" || !r.readsOnly() || r.retries >= max(1, w.options.Router.N()-1) || stats.Now() >= w.end(r) {
		return false
	}
	for n := r.first; n < r.last; n++ {
		c := &w.calls[n]
		if c.failed && !c.hidden && (w.options.Router.N() > 1 || c.reason == stats.ReasonReset) {
			return true
		}
	}
	return false
}

// readsOnly reports whether r may be repeated on another server without harm. A gat may: it touches twice.
func (r *pending) readsOnly() bool { return r.Has(protocol.Reads) }

// touches reports whether r is a retrieval that is a write as well.
func (r *pending) touches() bool { return r.Has(protocol.Reads | protocol.Writes) }

// reads reports whether r changes nothing.
func (r *pending) reads() bool { return r.readsOnly() && !r.touches() }

// replicated reports whether r is a write whose replicas must agree.
func (r *pending) replicated() bool {
	return r.Answer == "" && r.NumKeys > 0 && r.Has(protocol.Writes) && !r.readsOnly()
}

// decide compares the replicas' answers and chooses the one that the client gets. first, unless negative, is the call of the replica
// that answered in an earlier step. It returns true if replicas have to be repaired.
func (w *Worker) decide(r *pending, first int32) (repair bool) {
	w.answers, w.answered = w.answers[:0], w.answered[:0]
	if first >= 0 {
		w.answered = append(w.answered, first)
	}
	for n := r.first; n < r.last; n++ {
		w.answered = append(w.answered, n)
	}
	for k, n := range w.answered {
		c := &w.calls[n]
		a := replica.Answer{Outcome: outcomeOf(r, c), Group: k, Arrived: c.arrived}
		for j, m := range w.answered[:k] {
			if w.answers[j].Outcome == a.Outcome && alike(r, c, &w.calls[m]) {
				a.Group = w.answers[j].Group
				break
			}
		}
		w.answers = append(w.answers, a)
	}
	from := len(w.repairs)
	chosen, repairs := replica.Decide(w.options.Ack, w.answers, w.repairs)
	w.repairs = repairs
	r.chosen = w.answered[chosen]
	r.preferDeleted(w)
	if len(w.repairs) == from {
		return false
	}
	// A replica that gave no answer is not repaired here: its prober deletes what it missed before it serves a read.
	kept := w.repairs[:from]
	for _, k := range w.repairs[from:] {
		if !w.calls[w.answered[k]].failed {
			kept = append(kept, k)
		}
	}
	w.repairs = kept
	if len(w.repairs) == from {
		return false
	}
	w.note(r)
	for k := from; k < len(w.repairs); k++ {
		w.repairs[k] = int(w.calls[w.answered[w.repairs[k]]].server)
	}
	if w.locks[r.stripe].writes > 1 {
		// Later writes of this key in the round were sent already. Deleting on one replica could remove such a write there alone, so the
		// key is deleted on all.
		w.repairs = w.options.Router.Replicas(r.key, w.repairs[:from])
	}
	r.step = stepRepair
	r.repair, r.repairEnd = int32(from), int32(len(w.repairs))
	for _, s := range w.repairs[from:] {
		w.record.Repair(s)
	}
	return true
}

// preferDeleted answers a deletion with the reply of a replica that had the key: it is gone on all of them now.
func (r *pending) preferDeleted(w *Worker) {
	if !r.Has(protocol.Deletes) || !notFound(&w.calls[r.chosen]) {
		return
	}
	for _, n := range w.answered {
		if c := &w.calls[n]; !c.failed && !c.kind.IsError() && !notFound(c) {
			r.chosen = n
			return
		}
	}
}

func notFound(c *call) bool {
	return c.kind == protocol.ReplyNotFound || (c.kind == protocol.ReplyMetaLine && string(c.reply[:2]) == "NF")
}

// outcomeOf classifies a replica's answer to the write r.
func outcomeOf(r *pending, c *call) replica.Outcome {
	switch {
	case c.failed:
		return replica.Silent
	case c.kind.IsError():
		return replica.Failed
	case c.hidden:
		return replica.Success // a deletion in place of a copy: gone either way
	}
	if notFound(c) && r.Has(protocol.Deletes) {
		return replica.Success
	}
	switch c.kind {
	case protocol.ReplyNotFound, protocol.ReplyNotStored, protocol.ReplyExists:
		return replica.Refused
	case protocol.ReplyMetaLine:
		if string(c.reply[:2]) != "HD" {
			return replica.Refused
		}
	}
	return replica.Success
}

// alike reports whether two answers with the same outcome leave the replicas with the same state.
func alike(r *pending, a, b *call) bool {
	switch {
	case a.failed || b.failed:
		return a.failed == b.failed
	case a.hidden || b.hidden || (r.Has(protocol.Deletes) && !a.kind.IsError()):
		return true
	case a.kind == protocol.ReplyMetaLine || a.kind == protocol.ReplyMetaValue:
		return protocol.MetaAlike(a.reply, b.reply)
	}
	return bytes.Equal(a.reply, b.reply)
}

// limiter lets one in a second through and counts the others.
type limiter struct {
	next       int64 // ns, as stats.Now
	suppressed int
}

// disagreementEvery is the least time between two log lines of a worker about replicas that disagree, ns.
const disagreementEvery = int64(time.Second)

// note logs that replicas disagree about a write.
func (w *Worker) note(r *pending) {
	now := stats.Now()
	if now < w.disagreement.next {
		w.disagreement.suppressed++
		return
	}
	replies := make([]string, len(w.answered))
	for i, n := range w.answered {
		c := &w.calls[n]
		line, _, _ := bytes.Cut(c.reply, []byte(protocol.CRLF))
		replies[i] = w.options.Servers[c.server].Name + ": " + string(line)
	}
	line, _, _ := bytes.Cut(w.calls[r.chosen].reply, []byte(protocol.CRLF))
	w.options.Log.Warn("replicas disagree; the key is deleted where it does not have the answered state",
		"command", r.Command.String(), "replies", replies, "answered", string(line), "not_logged", w.disagreement.suppressed)
	w.disagreement = limiter{next: now + disagreementEvery}
}
