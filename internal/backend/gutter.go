package backend

import (
	"math"
	"time"

	"mcmw/internal/stats"
)

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
