package backend

import (
	"context"
	"math"
	"time"

	"mcmw/internal/stats"
)

// Where several middlewares respect each other's marks, each server has a role. Package plan says what a role means.

// role is what the marks say about a server.
type role struct {
	decides, away bool
	since         int64 // see DecidesSince
}

// Decides reports whether the server decides writes that depend on items whose first server it is: no middleware lets
// another server decide them.
func (s *Server) Decides() bool { return s.decides.Load() && s.Readable() }

// Replaced reports whether other servers decide in its place: all middlewares respect a mark of it, so none lets it
// decide.
func (s *Server) Replaced() bool { return s.away.Load() }

// Settles reports whether it will soon be known who decides, as far as can be said.
func (s *Server) Settles() bool { return !s.Decides() && !s.Replaced() && !s.unknowable.Load() }

// Turn counts how often the server ceased to decide, or to be replaced.
func (s *Server) Turn() uint32 { return s.turn.Load() }

// DecidesSince returns since when no mark of the server can have been in force, ns as stats.Now. A request that is
// older may have waited while another server decided, so this one must not decide it.
func (s *Server) DecidesSince() int64 { return s.cleared.Load() }

// RoleSince returns since when the server decides, or is replaced, ns as stats.Now; 0: since the start.
func (s *Server) RoleSince() int64 { return s.roleSince.Load() }

// HadRole reports whether the server has decided, or was replaced, since the start.
func (s *Server) HadRole() bool { return s.hadRole.Load() }

// setRole sets the server's role.
func (s *Server) setRole(to role) {
	s.cleared.Store(to.since)
	decided, away := s.decides.Swap(to.decides), s.away.Swap(to.away)
	if decided == to.decides && away == to.away {
		return
	}
	if decided && !to.decides || away && !to.away {
		s.turn.Add(1)
	}
	if (to.decides || to.away) && s.hadRole.Swap(true) {
		s.roleSince.Store(stats.Now())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Load().Changes.Add(1)
	s.notify()
}

// resign makes the server cease to decide, because it is about to be marked.
func (s *Server) resign() {
	if s.decides.Swap(false) {
		s.turn.Add(1)
		s.options.Load().Changes.Add(1)
	}
}

// AwaitRole waits while it may soon be known who decides, until the deadline at the latest.
func (s *Server) AwaitRole(ctx context.Context, deadline time.Time) {
	s.await(ctx, deadline, s.Settles)
}

// Agreed reports whether, although too few servers answer, all middlewares vouch for one.
func (r *Records) Agreed() bool { return r != nil && r.agreed.Load() }

// Marked reports whether the mark that the server missed writes is in force.
func (s *Server) Marked() bool { return stats.Now() < s.marked.Load() }

// setMarked sets the time until which the mark is in force; 0: it is not.
func (s *Server) setMarked(until int64) {
	if before := s.marked.Swap(until); (before == 0) != (until == 0) {
		s.options.Load().Changes.Add(1)
	}
}

// Unmarked reports whether the server has missed writes but the mark for that is not in force.
func (s *Server) Unmarked() bool { return s.marking.Load() && !s.Marked() }

// AwaitMarked waits until the mark of the server, if it has missed writes, is in force. It returns false if the mark
// does not come into force in time. Without records there are no marks, and it returns true.
func (s *Server) AwaitMarked(ctx context.Context) bool {
	r := s.options.Load().Records
	return r == nil || s.Marked() || r.Await(ctx, s)
}

// Withheld counts writes that the server missed and that were answered with an error because the server's mark was not
// in force.
func (s *Server) Withheld(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withheld += uint64(writes)
}

// The state of a server of a pool that has a gutter: another pool that stands in for servers that are down. Package
// plan has the rules.

// Away reports whether keys of the server may be read and written in the gutter: no middleware reads the server, and
// all of them know that it must not be read.
func (s *Server) Away() bool {
	o := s.options.Load()
	switch {
	case o.Gutter == 0:
		return false
	case o.Alone:
		return s.Down() && s.Marked() // with the mark the next start knows it, too
	}
	return s.away.Load()
}

// OpenUntil returns the time until which the gutter may hold keys of the server, ns as stats.Now, as far as is known
// now.
func (s *Server) OpenUntil() int64 {
	switch {
	case s.options.Load().Gutter == 0:
		return 0
	case !s.Readable():
		return math.MaxInt64
	}
	return s.open.Load()
}

// KeepOpen records that keys of the server may have been stored in the gutter until now, or, by other middlewares,
// until the given time after now.
func (s *Server) KeepOpen(longer time.Duration) {
	if gutter := s.options.Load().Gutter; gutter != 0 {
		until := stats.Now() + int64(gutter+longer)
		for before := s.open.Load(); before < until && !s.open.CompareAndSwap(before, until); before = s.open.Load() {
		}
	}
}
