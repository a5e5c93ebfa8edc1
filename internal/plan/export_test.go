package plan

import (
	"fmt"
	"slices"
)

// AppendState appends a text that is equal for two planners with one request per round if and only if they behave
// equally from now on.
func (p *Planner) AppendState(dst []byte) []byte {
	if p.options.Versions != nil {
		dst = fmt.Appendf(dst, "%d ", p.options.Versions.last)
	}
	for i := range p.Requests {
		r := &p.Requests[i]
		w, rd := writeExtra{chosen: -1}, readExtra{}
		if r.write != nil {
			w = *r.write
		}
		if r.read != nil {
			rd = *r.read
		}
		dst = fmt.Appendf(dst, "%q %d %t %d %d %d %d %d %d %t %v %d %d %t %t\n", r.Raw, r.step, r.Failed(),
			r.first, r.last, r.left, rd.tries, w.version, w.fetch, w.dropped, w.repairs, w.chosen, rd.tried.first,
			r.own != nil, r.split != nil)
		dst = fmt.Appendf(dst, "%t %t\n", rd.ownToken, rd.byFirst)
		if s := r.split; s != nil {
			dst = fmt.Appendf(dst, "%v %d %d %q %q\n", rd.before, s.rest, len(s.values), s.refusal, s.lost)
		}
	}
	// The order in which replies arrived makes a difference only if one of them is not a success.
	ordered := slices.ContainsFunc(p.Calls,
		func(c Call) bool { return c.reply != nil && (len(c.reply) < 2 || string(c.reply[:2]) != "HD") })
	for i := range p.Calls {
		c := &p.Calls[i]
		dst = fmt.Appendf(dst, "%d %d %s %t %d %q %d", c.Server, c.Request, c.Bytes, c.Failed(), c.kind, c.reply,
			c.next)
		if ordered {
			dst = fmt.Appendf(dst, " %d", c.arrived)
		}
		dst = append(dst, '\n')
	}
	for i := range p.checks {
		k := &p.checks[i]
		if k.looks >= mostLooks {
			panic("a check has looked so often that it behaves differently: add the number of its looks to its state")
		}
		dst = fmt.Appendf(dst, "%d %v %t %t %t\n", k.version, k.copies, k.asked, k.again, k.ended)
	}
	return dst
}
