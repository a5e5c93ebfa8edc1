package plan

import "mcmw/internal/protocol"

// Limit leaves requests[i], a retrieval that is not planned yet, at most that many keys. The others are asked for when
// the client has taken the values of these; see Postpone. It reports whether there are others.
func (p *Planner) Limit(i int32, most int) (more bool) {
	r := &p.Requests[i]
	if int(r.NumKeys) <= most || r.Idle() || r.Answer != "" {
		return false
	}
	r.all, r.allKeys = r.Keys, r.NumKeys
	keys := r.Keys[:keysEnd(r.Keys, most)]
	r.Keys, r.NumKeys = keys[:len(keys)-len(blank)], int32(most)
	return true
}

// Postpone leaves the unanswered keys of requests[i], which begin at offset rest, for a later round.
func (p *Planner) Postpone(i int32, rest int) {
	r := &p.Requests[i]
	p.Restore(i)
	if !r.Command.IsRetrieval() {
		return
	}
	for answered := r.Keys[:rest]; len(answered) > 0; {
		_, answered = nextKey(answered)
		r.SentKeys++
		r.NumKeys--
	}
	r.Keys = r.Keys[rest:]
	for _, c := range p.CallsOf(i) {
		r.SentHits += c.found
	}
	for n := r.warm; n < r.warmEnd; n++ {
		r.SentHits += p.Calls[n].found
	}
}

// Restore gives requests[i] back the keys that Limit took away.
func (p *Planner) Restore(i int32) {
	if r := &p.Requests[i]; r.all != nil {
		r.Keys, r.NumKeys, r.all = r.all, r.allKeys, nil
	}
}

// Partial reports whether requests[i], which is complete, still has keys or values to ask for.
func (p *Planner) Partial(i int32) bool {
	r := &p.Requests[i]
	return r.all != nil || r.cut || p.answering(r).cut
}

// KeysAsked returns how many keys r has asked for, including earlier portions.
func (r *Request) KeysAsked() int { return int(r.NumKeys + r.SentKeys) }

// IsFlush reports whether r is a flush_all that goes to the servers.
func (r *Request) IsFlush() bool { return r.Has(protocol.Writes|protocol.Everywhere) && !r.Idle() }
