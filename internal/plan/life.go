package plan

import "mcmw/internal/protocol"

// Asked returns the server that requests[i], a get of one key, asks; -1 if there is none, for example because it has
// joined another get, or if it is a gutter's server, whose values must not be kept. So must a cas that is no version.
func (p *Planner) Asked(i int32) int {
	r := &p.Requests[i]
	if !r.Has(protocol.Reads) || r.first+1 != r.last || r.own != nil || r.warms() || r.touches() ||
		r.Has(protocol.First) &&
			!p.versioned(r.in) {
		return -1
	}
	return int(p.Calls[r.first].Server)
}

// AskLife makes the server that requests[i], planned last, asks also tell how long the item lives. The client does not
// notice.
func (p *Planner) AskLife(i int32) {
	r := &p.Requests[i]
	op := protocol.KeyText{Text: r.key}.Meta('e', "")
	c := p.send(r, int(p.Calls[r.first].Server), &op)
	c.form, c.state = formLife, hidden|reads
}

// Life returns the reply to requests[i], which has ended, nil if the key was not found, and how long its item lives at
// least, ns; see protocol.Item.Life. ok is false if that is not known.
func (p *Planner) Life(i int32) (reply []byte, life int64, ok bool) {
	r := &p.Requests[i]
	calls := p.CallsOf(i)
	if r.read != nil && r.read.ownToken && !r.is(fixed) {
		return nil, 0, true // it counts on one server only
	}
	if r.is(fixed) || r.is(cut) || r.split != nil || len(calls) != 2 || calls[1].form != formLife {
		return nil, 0, false
	}
	get, told := &calls[0], &calls[1]
	if get.kind != protocol.ReplyEnd || !told.kind.IsMeta() {
		return nil, 0, false
	}
	if get.found > 0 {
		reply = get.reply
		if r.stripped != nil {
			it, _ := protocol.DecodeItem(reply)
			it.Key = r.stripped.key
			start := len(p.lines)
			p.lines = append(it.Append(p.lines), it.Data...)
			reply = p.lines[start:]
		}
	}
	it, _ := protocol.DecodeItem(told.reply)
	return reply, it.Life(), true
}
