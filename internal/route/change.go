package route

import (
	"cmp"
	"slices"
)

// Phase is a phase of a change from one placement to another, or of a migration of keys to another pool. Any two
// middlewares are in the same phase or in neighbouring ones:
//
//	change     settled  delete-new  copy  hand-over  read-new                  settled
//	routes     settled  delete-new                   read-new                  settled  late, then settled, after a start
//	migration  waiting  delete-new           copy    both       done
//	warm-up    waiting  delete-new  warm-up  copy    both       done  or instead of the last two:  back
//	fill       waiting  undecided   warm-up  copy    undecided  done
//
// A change settles in the placement that it leads to. The phases of the others follow from the clock and the
// configuration alone: before the first and in phase back the keys are placed as if there were no migration, in phase
// done as if they were routed to the new pool. See changeRows, migrationRows, warmUpRows and fillRows.
type Phase uint8

// The phases.
const (
	Settled Phase = iota
	DeleteNew
	Copy
	HandOver
	ReadNew
	Late
	MigrationWaiting
	MigrationDeleteNew
	MigrationUndecided
	MigrationWarmUp
	MigrationCopy
	MigrationBoth
	MigrationDone
	MigrationBack
	NumPhases
)

var phaseNames = [NumPhases]string{
	"settled", "delete-new", "copy", "hand-over", "read-new", "late",
	"waiting", "delete-new", "undecided", "warm-up", "copy", "both", "done", "back",
}

// String returns the phase's name, the same in metrics and logs.
func (p Phase) String() string { return phaseNames[p] }

// Announced names a change from one placement to another, as middlewares announce it on the servers.
type Announced struct{ From, To string }

// Join returns the change that a middleware joins when it starts, and the phase, given what others have announced: that
// they are in DeleteNew of a change, in Copy or HandOver, or in HandOver or ReadNew. In ReadNew they remain until
// nobody is in an earlier phase any more. Settled: nobody has announced anything. The middleware announces the phase
// before it joins in it, and looks again whether somebody is in a later one. Announcements may last longer than the
// phase.
func Join(deleting, copying, reading []Announced) (a Announced, phase Phase) {
	for _, d := range deleting {
		if slices.ContainsFunc(reading, func(r Announced) bool { return r.To == d.From }) {
			return d, DeleteNew // the next change has begun
		}
	}
	switch {
	case len(copying) > 0 && slices.Contains(reading, copying[0]):
		return copying[0], HandOver
	case len(copying) > 0:
		return copying[0], Copy
	case len(reading) > 0:
		return reading[0], ReadNew
	case len(deleting) > 0:
		return deleting[0], DeleteNew
	}
	return a, Settled
}

// Change returns the Router for a phase of the change between two placements of one pool. Its servers are those of to,
// then those of from that are not among them by name or, because a server that is renamed keeps its address, by
// address.
func Change(from, to *Router, phase Phase) *Router {
	if phase == Settled {
		return to
	}
	old, next := from.pools[0], to.pools[0]
	g := &Group{
		servers: slices.Clone(next.servers), n: max(old.n, next.n), read: next.read, zone: next.zone,
		measures: next.measures, wanted: next.wanted, previousGutter: next.previousGutter, closed: next.closed,
	}
	if changeRows[phase].New.Has(Store | After) {
		g.n = old.n + next.n // a write stores on both sides
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
			at = len(g.servers)
			g.servers = append(g.servers, s)
		}
		index = append(index, at)
	}
	g.phase, g.move = phase, newMove(changeRows[phase], old, next)
	for i := range g.move.sides {
		s := &g.move.sides[i]
		s.in.gutters = nil // Compose finds those of g
		if !s.isNew {
			s.index = index
		}
	}
	return routerOf(to.table, g)
}

// Phase returns the phase of the change that the Router was made for; Settled if there is none.
func (r *Router) Phase() Phase {
	phase := r.Rerouting()
	for _, p := range r.pools {
		phase = cmp.Or(phase, p.phase)
	}
	return phase
}

// Everywhere reports whether every server of the pool may be asked for every key.
func (g *Group) Everywhere() bool { return g.move == nil && g.n == len(g.servers) }
