package plan

import "bytes"

// Limit leaves requests[i], a retrieval that is not planned yet, at most that many keys. The others are asked for when
// the client has taken the values of these; see Postpone. It reports whether there are others.
func (p *Planner) Limit(i int32, most int) (more bool) {
	r := &p.Requests[i]
	if int(r.NumKeys) <= most || r.Idle() || r.Answer != "" {
		return false
	}
	rd := p.readOf(r)
	rd.all, rd.allKeys = r.Keys, r.NumKeys
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
	n := int32(bytes.Count(r.Keys[:rest], blank))
	r.Keys, r.NumKeys, r.SentKeys = r.Keys[rest:], r.NumKeys-n, r.SentKeys+n
	r.SentHits += p.answering(r).hits
}

// Restore gives requests[i] back the keys that Limit took away.
func (p *Planner) Restore(i int32) {
	if r := &p.Requests[i]; r.portion() {
		r.Keys, r.NumKeys, r.read.all = r.read.all, r.read.allKeys, nil
	}
}

// Partial reports whether requests[i], which is complete, still has keys or values to ask for.
func (p *Planner) Partial(i int32) bool {
	r := &p.Requests[i]
	return r.portion() || r.is(cut) || p.answering(r).is(cut)
}
