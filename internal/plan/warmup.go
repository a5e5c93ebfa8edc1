package plan

import (
	"bytes"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// A pool that is warmed up (route.MigrationWarmUp) is looked into before the one that its keys are in. It may hold copies that nobody is to read yet, which have a
// provisional version; so it is asked for versions, and the client is not told:
//
//	read   ask the new pool, for versions --> ask the old one for what that has not, or does not answer --> answer
//	write  ask the old pool's first server --> copy to the others; in the new pool, a new expiry alone is a deletion --> answer
//	gat    ask the old pool --> delete in the new one --> answer
//
// Where servers of a pool are warmed up from its others, a key's servers on either side are what a pool is above; a read looks there first that would go there anyway.
//
// What is found in the old pool alone is to be copied (Lacking). An old pool that does not answer is no error for a key that the new one has answered that it
// does not hold: that is the miss of a cache.

// Lacking is a key, as servers know it, that the pool which is warmed up from that pool did not hold.
type Lacking struct {
	Pool int
	Key  []byte
}

// findFills finds the servers that are warmed up.
func (p *Planner) findFills() {
	for _, m := range p.options.Router.Migrations() {
		p.oldest = p.oldest || m.Missed && m.Phase.Active() && !m.Phase.ReadsNew()
		if m.Phase != route.MigrationWarmUp {
			continue
		}
		p.fills = make([]bool, len(p.all))
		for s := range p.fills {
			p.fills[s] = p.options.Router.WarmsUpServer(s)
		}
	}
}

// isNew reports whether server s, one of those of key in the pool in, is one to which writes come behind the old ones.
func isNew(in *route.Router, key []byte, s int) bool { return in.OldFirst(key) && in.IsNew(s) }

// looksFirst reports whether r is a read that a pool which is warmed up may answer: it changes nothing, and shows no cas.
func (r *Request) looksFirst() bool { return r.IsRead() && r.Answer == "" }

// newServer returns the server of the pool in, which is warmed up, to read key from; -1: none may be read.
func (p *Planner) newServer(in *route.Router, key []byte, avoid []bool) int {
	p.readers = in.Readers(key, p.readers[:0])
	for _, s := range p.readers {
		if p.mayRead(s, avoid) && !p.Servers[s].Suspect {
			return s
		}
	}
	return -1
}

// firstLook returns the server that is warmed up at which the read r looks for key first; -1: there is none. Where it is one of several servers of a pool, it is
// the one that would be read if none were warmed up.
func (p *Planner) firstLook(r *Request, key []byte, c *choice) int {
	if p.fills == nil || !r.looksFirst() {
		return -1
	}
	in := p.reads.In(key)
	if in.WarmsUp() == nil {
		return -1
	}
	s := -1
	if pool := in.Pooled(); pool == nil {
		s = p.newServer(in.WarmsUp(), key, c.avoid)
	} else if reads := p.readServer(r, pool, key, c); isNew(in, key, reads) && p.mayRead(reads, c.avoid) && !p.Servers[reads].Suspect {
		s = reads
	}
	r.warms = r.warms || s >= 0
	return s
}

// planUnveiled plans a mg of a key of the pool in at the server that firstLook returns, and reports whether there is one.
func (p *Planner) planUnveiled(i int32, in *route.Router, c *choice) bool {
	r := &p.Requests[i]
	if in.WarmsUp() == nil || bytes.Count(r.Head, blank)+1 >= protocol.MaxMetaWords {
		return false
	}
	s := p.firstLook(r, r.key, c)
	if s < 0 {
		return false
	}
	start := len(p.lines)
	p.lines = protocol.AppendMetaWithCAS(p.lines, r.Head)
	call := p.call(i, s, protocol.Meta, r.Keys, p.lines[start:])
	call.form, call.Reads = unveils, true
	r.warm, r.warmEnd = r.first, r.last
	return true
}

// looksFirst reports whether call n of the read r is one at which that looks first.
func (p *Planner) looksFirst(r *Request, n int32) bool {
	return r.warms && r.step != warming && p.Calls[n].form == unveils
}

// settleWarming reports whether keys of a read were not found in the pool that is warmed up, or were not answered, and are to be asked of others.
func (p *Planner) settleWarming(r *Request) (again bool) {
	if !r.Command.IsRetrieval() {
		c := &p.Calls[r.first]
		switch {
		case r.step != warming && !c.Failed:
			_, _, cas, _ := protocol.CutCAS(c.reply)
			again = c.kind == protocol.ReplyMetaLine && (string(c.reply[:2]) == "EN" || protocol.IsProvisional(cas)) ||
				c.kind == protocol.ReplyMetaValue && protocol.IsProvisional(cas)
		case c.Failed:
			again = r.step != warming || p.mayTryAgain(r, r.first)
		}
	} else {
		rest := r.Keys
		for k := range p.placed[r.keys : int(r.keys)+r.NumKeys] {
			at := &p.placed[int(r.keys)+k]
			_, rest = nextKey(rest)
			n := at.call
			c := &p.Calls[n]
			switch {
			case n < r.first: // an earlier step has answered it
				continue
			case c.Failed:
				at.server = lookedFor
				if c.form != unveils && !p.mayTryAgain(r, n) {
					at.server = answered
				}
			case c.form != unveils || c.kind != protocol.ReplyEnd || c.cutOff() && at.ordinal >= c.cutKey:
				at.server = answered
			case p.walks(c, at.ordinal):
				at.server = answered
			default:
				at.server, at.missed = lookedFor, true
			}
			again = again || at.server == lookedFor
		}
	}
	if !again {
		return false
	}
	switch r.step {
	case warming:
		r.tries++
	case sent:
		r.tried = r.first
	}
	r.step = warming
	r.triedEnd = r.last
	return true
}

// What placed.server is while it is not known where a key will be read.
const (
	answered  = -1 // it needs not be
	lookedFor = -2
)

// mayTryAgain reports whether there is another server for what call n, which failed, asked.
func (p *Planner) mayTryAgain(r *Request, n int32) bool {
	copies := p.copies(n)
	return (copies > 1 || p.Calls[n].lost) && r.tries < max(1, copies-1)
}

// walks reports whether c's reply has the key of that number. It is asked for one after the other, in their order.
func (p *Planner) walks(c *Call, ordinal int32) bool {
	switch {
	case c.walked == c.found:
		return false
	case c.walked == 0:
		c.walk = c.next
	}
	if p.items[c.walk].ordinal != ordinal {
		return false
	}
	c.walked++
	c.walk = p.items[c.walk].next
	return true
}

// planWarming asks others for what settleWarming has found missing.
func (p *Planner) planWarming(i int32) {
	r := &p.Requests[i]
	clear(p.failed)
	for n := r.tried; n < r.triedEnd; n++ {
		if c := &p.Calls[n]; c.Request == i && c.Failed {
			p.failed[c.Server] = true
		}
	}
	c := &choice{avoid: p.failed}
	if !r.Command.IsRetrieval() {
		second := !p.Calls[r.warm].Failed
		p.forward(i, p.readServer(r, r.in, r.key, c))
		p.Calls[len(p.Calls)-1].second = second
		return
	}
	keys := p.placed[r.keys : int(r.keys)+r.NumKeys]
	for _, missed := range []bool{true, false} {
		first := len(p.Calls)
		rest := r.Keys
		for k := range keys {
			var key []byte
			key, rest = nextKey(rest)
			if keys[k].server == lookedFor && keys[k].missed == missed {
				in, stored := p.reads.At(key)
				keys[k].server = int32(p.readServer(r, in, stored, c))
			}
		}
		for s := range p.all {
			p.planKeysOf(i, s, keys)
		}
		for n := first; n < len(p.Calls); n++ {
			p.Calls[n].second = missed
		}
		for k := range keys {
			if keys[k].server >= 0 {
				keys[k].server = answered
			}
		}
	}
}

// unansweredOf returns the error that the read r is answered with, nil if there is none: the last one of a key that has no answer. A key that the pool which is
// warmed up does not hold has one.
func (p *Planner) unansweredOf(r *Request) (failure []byte) {
	for _, at := range p.placed[r.keys : int(r.keys)+r.NumKeys] {
		if c := &p.Calls[at.call]; c.kind.IsError() && !c.cutOff() && !(c.Failed && (c.second || p.options.GetErrorMiss)) {
			failure = c.reply
		}
	}
	return failure
}

// worstOf classifies that error.
func (p *Planner) worstOf(r *Request) stats.Result {
	if p.unansweredOf(r) != nil {
		return stats.ResultServerError
	}
	return stats.ResultOK
}

// noteLook records that the read of key ended with call c, which found it or not. missed: the pool that is warmed up holds none.
func (p *Planner) noteLook(key []byte, c *Call, missed, found bool) {
	pool := p.reads.In(key)
	if pool.WarmsUp() == nil {
		return
	}
	w := &p.Warming[pool.Number()]
	switch {
	case c.form == unveils && found:
		w.New++
	case c.Failed:
		w.Unanswered++
	case missed && found:
		w.Old++
		start := len(p.lines)
		p.lines = append(p.lines, key...)
		p.Lacking = append(p.Lacking, Lacking{pool.Number(), p.lines[start:]})
	case missed:
		w.Neither++
	}
}

// noteWarming is noteLook of the mg r, whose reply is c's.
func (p *Planner) noteWarming(r *Request, c *Call) {
	found := c.kind == protocol.ReplyMetaValue || c.kind == protocol.ReplyMetaLine && string(c.reply[:2]) == "HD"
	p.noteLook(r.ClientKey(), c, c.second, found)
}

// keyAt returns the k-th of keys.
func keyAt(keys []byte, k int) []byte {
	key, _ := nextKey(keys[keysEnd(keys, k):])
	return key
}

// settleOldest reports whether behind a step of r, in which all servers were asked at once, the key is to be deleted on those that are to come last.
func (p *Planner) settleOldest(r *Request) (again bool) {
	if !p.oldest || r.Failed {
		return false
	}
	if r.IsFlush() {
		r.step = copying
		return true
	}
	for rest := r.Keys; len(rest) > 0 && !again; {
		var key []byte
		key, rest = r.nextKey(rest)
		again = p.options.Router.In(key).OldFirst(key)
	}
	if again {
		r.step, r.warm, r.warmEnd = emptying, r.first, r.last
	}
	return again
}

// planEmptying deletes the keys of requests[i] there.
func (p *Planner) planEmptying(i int32) {
	r := &p.Requests[i]
	for rest := r.Keys; len(rest) > 0; {
		text, _ := nextKey(rest)
		var key []byte
		key, rest = r.nextKey(rest)
		in := p.options.Router.In(key)
		p.holders = in.Emptied(key, in.Replicas(key, p.holders[:0]))
		for _, s := range p.holders {
			if isNew(in, key, s) {
				start := len(p.lines)
				p.lines = protocol.KeyText{Text: text, Encoded: r.Has(protocol.Encoded)}.AppendDeletion(p.lines)
				p.call(i, s, protocol.Meta, text, p.lines[start:]).hidden = true
			}
		}
	}
}

// nextKey is nextKey of what is left of r's keys, the key as it is routed.
func (r *Request) nextKey(rest []byte) (key, behind []byte) {
	if r.NumKeys == 1 {
		return r.ClientKey(), nil
	}
	return nextKey(rest)
}

// settleEmptying makes the answer of the gat r that of the step before, or the error of a server of which the key could not be deleted.
func (p *Planner) settleEmptying(r *Request) {
	for n := r.first; n < r.last; n++ {
		if c := &p.Calls[n]; c.kind.IsError() {
			r.Fail(string(c.reply))
		}
	}
	r.first, r.last = r.warm, r.warmEnd
}
