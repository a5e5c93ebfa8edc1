package worker

import (
	"bytes"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// What a client asks for can be of any size, and the client slow to take it. So a retrieval whose values are likely to be large is
// asked for in portions: it ends its part, the client gets the values that came, and its batch goes back to be served from the
// next key on, once the client has taken them. What comes beyond expectation is dropped behind maxHeld and asked for again in
// the same way. A request before such a one in the round was answered, one behind it has to wait: a read is asked for again,
// of anything else the reply is kept.
const (
	// portion is how many bytes of values a connection asks for at a time, more or less.
	portion = 1 << 20
	// maxHeld is how many bytes of values a round asks for, and how many that no client has taken it keeps; the first value always.
	maxHeld = 4 << 20
	// maxHeldStuck is the same where a read can't be repeated, because its connection writes the key behind it in the same round.
	// Beyond it the request fails.
	maxHeldStuck = 16 << 20
)

// textNoMemory is memcached's.
const textNoMemory = "SERVER_ERROR out of memory writing get response\r\n"

// valueSize is a moving average of what values take in replies, bytes, times valueWeight.
type valueSize int

const valueWeight = 64

func (s *valueSize) add(n int) { *s += valueSize(n) - *s/valueWeight }
func (s *valueSize) mean() int { return int(*s / valueWeight) }

// full reports whether the round has as much to do as it may.
func (w *Worker) full() bool { return len(w.requests) == w.options.Depth || w.expected >= maxHeld }

// likely returns how many bytes of values r is likely to bring.
func (w *Worker) likely(r *request.Request) int {
	if r.Answer != "" || !r.Command.BringsValues() {
		return 0
	}
	return r.NumKeys * w.valueSize.mean()
}

// crowded reports whether r has to wait until clients have read what they asked for.
func (w *Worker) crowded(b *request.Batch, r *request.Request) bool {
	return w.likely(r) > request.ReadSize && b.Client.Crowded()
}

// takePortion leaves r as many keys as it may ask for at a time.
func (w *Worker) takePortion(r *pending) {
	most := max(1, portion/(w.valueSize.mean()+1))
	if r.NumKeys <= most || r.all != nil || r.step != stepSend || r.Answer != "" {
		return
	}
	r.all, r.allKeys, r.again = r.Keys, r.NumKeys, true
	r.Keys, r.NumKeys = r.Keys[:wordsEnd(r.Keys, most)], most
}

// wordsEnd returns the offset behind the first n words of s.
func wordsEnd(s []byte, n int) (end int) {
	for range n {
		end += wordEnd(s[end:])
	}
	return end
}

// whole reports whether r is to be asked for as the client did.
func (r *pending) whole() bool { return r.all == nil && r.Resumed == 0 }

// waitsSince returns from when on the time counts that r may take, ns as stats.Now.
func (r *pending) waitsSince() int64 { return max(r.Created, r.Resumed) }

// keysAsked returns how many keys r has asked for, those of earlier portions included.
func (r *pending) keysAsked() int { return r.NumKeys + int(r.SentKeys) }

// cutOff reports whether some of what c asked for is to be asked for again.
func (c *call) cutOff() bool { return c.dropping && !c.failed && c.tooLarge == 0 }

// keep decides whether a value of n bytes that came for c is kept, and counts it.
func (w *Worker) keep(c *call, n int) bool {
	w.valueSize.add(n)
	r := &w.requests[c.request]
	if c.dropping || r.Answer != "" {
		return false
	}
	p := &w.parts[r.part]
	if w.held > 0 && w.held+n > maxHeld {
		w.answerReady()
	}
	if w.held > 0 && w.held+n > maxHeld {
		if w.mayRepeat(p) {
			r.again = true
			return false
		}
		if w.held+n > maxHeldStuck {
			r.text = textNoMemory
			return false
		}
	}
	w.held += n
	p.held += n
	return true
}

// keepMeta is keep for what answers a meta command, in whole.
func (w *Worker) keepMeta(c *call, k protocol.ReplyKind, n int) {
	if k == protocol.ReplyMetaValue && w.requests[c.request].reads() && !c.failed && !w.keep(c, n) {
		c.dropping = true
	}
}

// letGo ends the use of what a part that is answered holds; what its client did not take is held on.
func (w *Worker) letGo(p *part) {
	if p.held == 0 {
		return
	}
	w.held -= max(0, p.held-len(p.rest))
	for i := p.first; i < p.last; i++ {
		r := &w.requests[i]
		for n := r.first; n < r.last; n++ {
			w.calls[n].reply = nil
		}
	}
}

// repeat is whether a part's reads may be repeated.
type repeat uint8

const (
	repeatUnknown repeat = iota
	repeatYes
	repeatNo
)

// mayRepeat reports whether the reads of p can be repeated behind the round: none of its requests writes what one before it reads.
func (w *Worker) mayRepeat(p *part) bool {
	if p.repeat == repeatUnknown {
		p.repeat = repeatYes
		w.partChanges.clear()
		for i := p.last - 1; i >= p.first; i-- {
			r := &w.requests[i]
			w.stripes = w.stripesOf(r, w.stripes[:0])
			for _, s := range w.stripes {
				if r.readsOnly() && w.partChanges.has(s) {
					p.repeat = repeatNo
				}
				if !r.reads() {
					w.partChanges.add(s)
				}
			}
			if r.Has(protocol.Everywhere|protocol.Writes) && i > p.first {
				p.repeat = repeatNo
			}
		}
	}
	return p.repeat == repeatYes
}

// assemblePart is assemble for a request of which something may be left to be asked for; if so it returns the offset in Keys of the
// first key that is, otherwise -1.
func (w *Worker) assemblePart(r *pending) (rest int) {
	calls := w.calls[r.first:r.last]
	switch {
	case r.text != "":
	case r.Command.IsRetrieval():
		return w.assembleValues(r, calls)
	case w.reply(r, calls).cutOff():
		return 0
	}
	w.assemble(r)
	return -1
}

// postpone leaves requests[i] of p, from the key at offset rest on, and those behind it to a later round.
func (w *Worker) postpone(p *part, i int32, rest int) {
	p.batch.Next -= int(p.last - i)
	r := &w.requests[i]
	keys, left := r.Keys, r.NumKeys
	r.useAll()
	if r.Command.IsRetrieval() {
		behind, n := keys[rest:], 0
		for len(bytes.TrimLeft(behind, " ")) > 0 {
			_, behind = nextWord(behind)
			n++
		}
		left -= n
		for n := r.first; n < r.last; n++ {
			r.SentHits += w.calls[n].found
		}
		r.SentKeys += int32(left)
		r.Keys, r.NumKeys = bytes.TrimLeft(r.Keys[rest:], " "), r.NumKeys-left
	}
	r.Resumed = stats.Now()
	for j := i + 1; j < p.last; j++ {
		r := &w.requests[j]
		if r.useAll(); !r.readsOnly() && (r.last > r.first || r.text != "") && !r.Settled {
			w.settleFor(r)
		}
	}
}

// useAll gives r all of its keys back.
func (r *pending) useAll() {
	if r.all != nil {
		r.Keys, r.NumKeys = r.all, r.allKeys
	}
}

// settleFor keeps the reply of r, which the servers have given, until what is before it is answered.
func (w *Worker) settleFor(r *pending) {
	w.out, w.aside = w.aside, w.out
	w.assemble(r)
	text := string(w.out.AppendFrom(nil, 0))
	w.out.Reset()
	w.out, w.aside = w.aside, w.out
	r.Result, _ = w.result(r)
	r.Settled = true
	if text == "" {
		r.NoReply, text = true, protocol.TextStored // what is not sent
	}
	r.Answer = text
}
