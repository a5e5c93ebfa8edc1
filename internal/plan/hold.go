package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
)

// Clients of a pool that follows another one may read a database that lags behind. After a delivered delete a tombstone
// of the key (protocol.Bury) stays on the key's servers for some seconds, and in a pool with Pool.Holds what stores
// on a condition (add, cas ..) does not bring the key back meanwhile. In each step that stores:
//
//	store, then ask the same server for the tombstone --> there is none -------------> as in other pools
//	     '--> there is one, or no readable server says so --> delete the key [removing] --> answer
//
// A server gets both on one connection, in this order, and a delivery's delete after its tombstone. So the tombstone is
// seen, or the delete comes after what was stored. This holds for each server alone, because a delivery may reach them
// one after the other.

const textUnguarded = "SERVER_ERROR no server says whether the key was deleted a moment ago; try again\r\n"

// planGuards asks the servers that the planned step of r stores on for the tombstone of its key.
func (p *Planner) planGuards(r *Request) {
	start := len(p.lines)
	p.lines = protocol.AppendTombstone(p.lines, r.ClientKey())
	op := protocol.KeyText{Text: p.lines[start:], Encoded: true}.Ask(protocol.ForVersion)
	for n, last := r.first, r.last; n < last; n++ {
		if c := &p.Calls[n]; !c.is(hidden) {
			c = p.send(r, int(c.Server), &op)
			c.form, c.state = formGuard, hidden
		}
	}
}

// undoes takes the guards out of r's step, which has ended. It reports whether what the step has stored is to be
// deleted; then the answer is that of an item that is not there, or an error.
func (p *Planner) undoes(r *Request) bool {
	stored, buried, known := r.step == copying, false, r.step == copying
	for ; r.first < r.last && p.Calls[r.last-1].form == formGuard; r.last-- {
		c := &p.Calls[r.last-1]
		buried = buried || c.kind == protocol.ReplyMetaDone
		known = known || c.kind == protocol.ReplyMetaMiss && p.Servers[c.Server].Readable
	}
	for n := r.first; n < r.last; n++ {
		c := &p.Calls[n]
		stored = stored || !c.is(hidden) && outcomeOf(r, c) == replica.Success
	}
	switch {
	case !stored || known && !buried:
		return false
	case buried:
		p.answerForgotten(r)
	default:
		r.Fail(textUnguarded)
	}
	return true
}
