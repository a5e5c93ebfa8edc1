package backend

import (
	"math"
	"time"

	"mcmw/internal/stats"
)

// What is known of a server where another pool, the gutter, stands in for those that are down; package plan has the rules.

// Away reports whether keys of the server may be read and written in the gutter: no middleware reads it, and all know that.
func (s *Server) Away() bool {
	o := s.options.Load()
	switch {
	case o.Gutter == 0:
		return false
	case o.Alone:
		return s.Down() && s.Marked() // the next start knows, too
	}
	return s.away.Load()
}

// OpenUntil returns until when the gutter may hold keys of the server, ns as stats.Now, as far as is known now.
func (s *Server) OpenUntil() int64 {
	switch {
	case s.options.Load().Gutter == 0:
		return 0
	case !s.Readable():
		return math.MaxInt64
	}
	return s.open.Load()
}

// KeepOpen records that the gutter may hold keys of the server, which were stored there up to now, or, by other middlewares, for so much longer.
func (s *Server) KeepOpen(longer time.Duration) {
	if gutter := s.options.Load().Gutter; gutter != 0 {
		until := stats.Now() + int64(gutter+longer)
		for was := s.open.Load(); was < until && !s.open.CompareAndSwap(was, until); was = s.open.Load() {
		}
	}
}

// goAway says whether all middlewares heed a mark of the server.
func (s *Server) goAway(away bool) {
	if s.away.Swap(away) == away {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Load().Changes.Add(1)
	s.announce()
}
