package plan

import "mcmw/internal/protocol"

// planAny asks a server that can answer; avoid says, by server, which ones have failed; nil: none has.
func (p *Planner) planAny(i int32, avoid []bool) {
	s := p.anyServer(avoid)
	if s < 0 {
		s = p.firstServer()
	}
	p.forward(i, s)
}

// firstServer is the one that answers if all can.
func (p *Planner) firstServer() int { return p.options.Router.Default().Base() }

// anyServer returns the first server that answers, from firstServer on; those that stall, and then none (-1), if there
// is no other.
func (p *Planner) anyServer(avoid []bool) int {
	stalls := -1
	for k := range p.all {
		s := (p.firstServer() + k) % len(p.all)
		switch server := &p.Servers[s]; {
		case !server.Readable && !server.Stale, avoid != nil && avoid[s]:
		case !server.Suspect:
			return s
		case stalls < 0:
			stalls = s
		}
	}
	return stalls
}

// asksAnother reports whether a server other than that of call n, of a request that any server can answer, may answer.
func (p *Planner) asksAnother(n int32) bool {
	c := &p.Calls[n]
	if p.Requests[c.Request].way != anyone {
		return false
	}
	p.noteFailed(c.Request)
	p.failed[c.Server] = true
	return p.anyServer(p.failed) >= 0
}

// settleAny reports whether r, which any server can answer, is sent to another server. If none can answer, the answer
// is the version that is known.
func (p *Planner) settleAny(r *Request, inTime bool) (again bool) {
	if !r.Failed {
		return false
	}
	if inTime && p.asksAnother(r.first) {
		p.triedAgain(r)
		return true
	}
	for s := range p.all {
		if known := p.options.Version; known != nil && known(s) != "" {
			r.Fail("VERSION " + known(s) + protocol.CRLF)
			break
		}
	}
	return false
}

// triedAgain makes r another read, or another attempt to ask any server.
func (p *Planner) triedAgain(r *Request) {
	if r.tries == 0 {
		r.tried = r.first
	}
	r.step = retrying
	r.tries++
	r.triedEnd = r.last
}

// noteFailed sets failed to the servers that failed requests[i] in earlier attempts.
func (p *Planner) noteFailed(i int32) {
	clear(p.failed)
	r := &p.Requests[i]
	for n := r.tried; n < r.triedEnd; n++ {
		if c := &p.Calls[n]; c.Request == i && c.Failed {
			p.failed[c.Server] = true
		}
	}
}
