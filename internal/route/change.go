package route

import (
	"cmp"
	"slices"
)

// Phase is a phase of the change from one placement to another; see changeRows. In phase Settled there is only one
// side.
type Phase uint8

// The phases.
const (
	Settled Phase = iota
	DeleteNew
	ReadNew
	Late
	NumPhases
)

var phaseNames = [NumPhases]string{"settled", "delete-new", "read-new", "late"}

// String returns the phase's name, the same in metrics and logs.
func (p Phase) String() string { return phaseNames[p] }

// Announced names a change from one placement to another, as middlewares announce it on the servers.
type Announced struct{ From, To string }

// Join returns the change that a middleware joins when it starts, and the phase, given what others have announced: that
// they are in DeleteNew of a change, or in ReadNew, in which they remain until nobody is in DeleteNew any more.
// Settled: nobody has announced anything. The middleware announces DeleteNew before it joins in it, and looks again
// whether somebody is in ReadNew. Announcements may last longer than the phase.
func Join(deleting, reading []Announced) (a Announced, phase Phase) {
	for _, d := range deleting {
		if slices.ContainsFunc(reading, func(r Announced) bool { return r.To == d.From }) {
			return d, DeleteNew // the next change has begun
		}
	}
	switch {
	case len(reading) > 0:
		return reading[0], ReadNew
	case len(deleting) > 0:
		return deleting[0], DeleteNew
	}
	return a, Settled
}

// Change returns the Router for a phase of the change between two placements. Its servers are those of to, then those
// of from that are not among them by name or, because a server that is renamed keeps its address, by address.
func Change(from, to *Router, phase Phase) *Router {
	if phase == Settled {
		return to
	}
	r := &Router{
		servers: slices.Clone(to.servers), n: max(from.n, to.n), read: to.read, zone: to.zone,
		measures: to.measures, wanted: to.wanted, previousGutter: to.previousGutter, closed: to.closed,
	}
	var index []int
	for _, s := range from.servers {
		at := slices.IndexFunc(to.servers, func(t Server) bool { return t.Name == s.Name })
		if at < 0 && s.Addr != "" {
			at = slices.IndexFunc(to.servers, func(t Server) bool {
				return t.Addr == s.Addr && !slices.ContainsFunc(from.servers,
					func(f Server) bool { return f.Name == t.Name })
			})
		}
		if at < 0 {
			at = len(r.servers)
			r.servers = append(r.servers, s)
		}
		index = append(index, at)
	}
	r.phase, r.move = phase, newMove(changeRows[phase], from, to)
	for i := range r.move.sides {
		s := &r.move.sides[i]
		s.in.gutters = nil // Compose finds those of r
		if !s.isNew {
			s.index = index
		}
	}
	return r
}

// Phase returns the phase of the change that the Router was made for; Settled if there is none.
func (r *Router) Phase() Phase {
	phase := cmp.Or(r.Rerouting(), r.phase)
	for _, p := range r.pools {
		phase = cmp.Or(phase, p.phase)
	}
	return phase
}

// Everywhere reports whether every server may be asked for every key. With several pools it is false.
func (r *Router) Everywhere() bool {
	return r.move == nil && r.pools == nil && r.n == len(r.servers)
}

// Gained reports whether the change makes server a holder of key.
func (r *Router) Gained(server int, key []byte) bool {
	if r, key = r.At(key); r.move == nil {
		return false
	}
	var gains bool
	for i := range r.move.sides {
		s := &r.move.sides[i]
		holders, _ := s.hold(key, nil, nil)
		holds := slices.ContainsFunc(holders, func(h Holder) bool { return int(h.Server) == server-r.base })
		if holds && !s.isNew {
			return false
		}
		gains = gains || holds
	}
	return gains
}
