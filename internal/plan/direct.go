package plan

import (
	"fmt"

	"mcmw/internal/protocol"
)

// planDirect sends r to one server, or to all.
func (p *Planner) planDirect(r *Request) {
	switch {
	case r.Has(protocol.Everywhere):
		for s := range p.all {
			if server := &p.Servers[s]; !r.IsOverview() || (server.Readable || server.Stale) && !server.Suspect {
				p.forward(r, s)
			}
		}
	case r.Has(protocol.Fenced) && len(p.all) > 1:
		r.Fail(fmt.Sprintf("CLIENT_ERROR %s is for one server and not available through mcmw in front of %d\r\n",
			r.Arg(), len(p.all)))
	default:
		p.forward(r, p.firstServer())
	}
}

// afterDirect lets servers that get writes last get a flush_all again, after all others.
func (p *Planner) afterDirect(r *Request, _ bool) step {
	if !r.IsFlush() {
		return answered
	}
	return p.afterOldFirst(r)
}

// planAny asks a server that can answer and has not failed r.
func (p *Planner) planAny(r *Request) {
	p.noteFailed(r)
	s := p.anyServer(p.failed)
	if s < 0 {
		s = p.firstServer()
	}
	p.forward(r, s)
}

// afterAny sends r to another server if one failed. If none can answer, the answer is the version that is known.
func (p *Planner) afterAny(r *Request, inTime bool) step {
	if !r.is(failed) {
		return answered
	}
	if inTime && p.asksAnother(r.first) {
		p.tried(r).tries++
		return asking
	}
	for s := range p.all {
		if known := p.options.Version; known != nil && known(s) != "" {
			r.Fail("VERSION " + known(s) + protocol.CRLF)
			break
		}
	}
	return answered
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

// asksAnother reports whether a server other than that of call n, of a request in the step asking, may answer.
func (p *Planner) asksAnother(n int32) bool {
	c := &p.Calls[n]
	p.noteFailed(&p.Requests[c.Request])
	p.failed[c.Server] = true
	return p.anyServer(p.failed) >= 0
}
