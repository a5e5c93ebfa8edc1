package backend

import (
	"context"
	"errors"

	"mcmw/internal/link"
	"mcmw/internal/stats"
)

// Ask returns the server's own statistics. It uses a connection of its own. A server that is down or suspect is not
// asked.
func (s *Server) Ask(ctx context.Context) (m stats.Memcached, err error) {
	if s.Down() || s.Suspected() {
		return m, s.errState()
	}
	names := []string{
		"bytes", "limit_maxbytes", "curr_items", "evictions", "get_hits", "get_misses",
		"curr_connections", "max_connections",
	}
	err = s.Talk(ctx, func(l *link.Link) error {
		told, err := l.Stats("", names...)
		if err == nil && len(told) < len(names) {
			err = errors.New("stats without the memory and connection statistics of memcached 1.6")
		}
		for i, to := range []*uint64{
			&m.Bytes, &m.Limit, &m.Items, &m.Evictions, &m.Hits, &m.Misses, &m.Connections,
			&m.MaxConnections,
		} {
			*to = told[names[i]]
		}
		return err
	})
	return m, err
}
