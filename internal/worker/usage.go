package worker

import (
	"bytes"

	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// sample counts those keys of requests[i] of p, which is answered, that are in the worker's sample.
func (w *Worker) sample(p *part, i int32, result stats.Result, hits int) {
	r := &w.planner.Requests[i]
	keys := r.Keys
	if r.NumKeys == 1 {
		keys = r.ClientKey()
	}
	sampled := w.record.Sampled(keys, int(r.NumKeys), w.replied)
	lookup, found := w.looksUp(r, result), hits > 0
	if r.Fetches() {
		found = result == stats.ResultOK && !w.planner.NotFound(i)
	}
	reply := w.replyOf(p, i)
	size := len(r.Raw) + len(reply)
	for _, key := range sampled {
		if r.NumKeys > 1 {
			value := 0
			if found = hits > 0; found {
				value, found = valueIn(reply, key)
			}
			size = len(" ") + len(key) + value
		}
		use := stats.Use{Requests: 1, Bytes: uint64(size), Timed: 1, Time: uint64(max(r.Response(), 0))}
		if lookup && found {
			use.Hits = 1
		} else if lookup {
			use.Misses = 1
		}
		w.options.Usage.Add(key, p.batch.Client.User(), use, w.replied)
	}
}

// looksUp reports whether r, which ended with result, is a lookup: its result says which keys have items.
func (w *Worker) looksUp(r *plan.Request, result stats.Result) bool {
	return result < stats.ResultClientError && (r.Command.IsRetrieval() || r.Fetches())
}

// replyOf returns the reply to requests[i] of p, valid until the next call.
func (w *Worker) replyOf(p *part, i int32) []byte {
	from, to := w.requests[i].replyAt, w.out.Len()
	if i+1 < p.last {
		to = w.requests[i+1].replyAt
	}
	if w.reply = w.out.AppendFrom(w.reply[:0], from); cap(w.reply) > keepReply {
		defer func() { w.reply = nil }()
	}
	return w.reply[:to-from]
}

// keepReply is the capacity, in bytes, up to which memory for a reply is kept.
const keepReply = 64 << 10

// valueIn returns the size of the element of key in the reply to a retrieval, bytes; found is false if there is none.
func valueIn(reply, key []byte) (size int, found bool) {
	for len(reply) > 0 {
		var rep protocol.Reply
		size, _, err := protocol.DecodeReply(reply, &rep)
		switch {
		case err != nil || size == 0 || rep.Kind != protocol.ReplyValue:
			return 0, false
		case bytes.Equal(rep.Key, key):
			return size, true
		}
		reply = reply[size:]
	}
	return 0, false
}

// trackShare is of how many multi-gets with misses one is looked at.
const trackShare = 32

// tracks reports whether track is told of r, with a result for hits keys: it is a write, or has missed items.
func (w *Worker) tracks(r *plan.Request, hits int) bool {
	if hits == r.KeysAsked() && !r.Has(protocol.Writes) {
		return false
	}
	if r.NumKeys <= 1 {
		return true
	}
	w.misses++
	return w.misses%trackShare == 0
}

// track tells the usage what requests[i] of p, which is answered, has done to the item of its key, or that it has
// missed items.
func (w *Worker) track(p *part, i int32, result stats.Result, hits int) {
	r, u := &w.planner.Requests[i], w.options.Usage
	failed := result >= stats.ResultClientError
	switch {
	case r.NumKeys == 0:
		if r.IsFlush() {
			u.Flushed()
		}
	case r.NumKeys > 1:
		if !failed {
			w.trackKeys(p, i)
		}
	case failed:
		if r.Has(protocol.Writes) {
			u.Deleted(r.ClientKey()) // it may have been
		}
	case w.looksUp(r, result) && hits == 0 && (!r.Fetches() || result == stats.ResultMiss || w.planner.NotFound(i)):
		u.Missed(r.ClientKey(), p.batch.Client.User(), 1, r.Dequeued, w.replied)
	case !r.Has(protocol.Writes) || result != stats.ResultOK:
	case r.Has(protocol.Deletes):
		u.Deleted(r.ClientKey())
	case !r.Has(protocol.Makes):
		u.Touched(r.ClientKey(), r.Expiry, w.replied)
	case r.BringsValue() && !r.Joins():
		u.Stored(r.ClientKey(), r.Expiry, w.replied)
	}
}

// trackKeys is track for a request with several keys, some of which it has missed.
func (w *Worker) trackKeys(p *part, i int32) {
	r, u := &w.planner.Requests[i], w.options.Usage
	var reply []byte
	for key := range bytes.SplitSeq(r.Keys, []byte(" ")) {
		if !u.Tracks(key) {
			continue
		}
		if reply == nil {
			reply = w.replyOf(p, i)
		}
		if _, found := valueIn(reply, key); !found {
			u.Missed(key, p.batch.Client.User(), trackShare, r.Dequeued, w.replied)
		}
	}
}
