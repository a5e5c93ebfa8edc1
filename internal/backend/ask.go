package backend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mcmw/internal/stats"
)

// Ask returns the server's own statistics. It uses a connection of its own. A server that is down or suspect is not asked.
func (s *Server) Ask(ctx context.Context) (stats.Memcached, error) {
	if s.Down() || s.Suspected() {
		return stats.Memcached{}, s.errState()
	}
	var m stats.Memcached
	fields := map[string]*uint64{
		"bytes": &m.Bytes, "limit_maxbytes": &m.Limit, "curr_items": &m.Items, "evictions": &m.Evictions, "get_hits": &m.Hits, "get_misses": &m.Misses,
		"curr_connections": &m.Connections, "max_connections": &m.MaxConnections,
	}
	l, err := s.Link(ctx)
	if err != nil {
		return m, err
	}
	defer l.Close()
	err = l.Stats(func(name, value string) error {
		field := fields[name]
		if field == nil {
			return nil
		}
		delete(fields, name)
		var err error
		*field, err = strconv.ParseUint(value, 10, 64)
		return err
	})
	if err == nil && len(fields) > 0 {
		err = errors.New("stats without the memory and connection statistics of memcached 1.6")
	}
	return m, err
}

// mostStats is more than any memcached has general statistics.
const mostStats = 10_000

// Stats requests the general statistics and calls each for every one of them. It stops at the first error that each returns.
func (l *Link) Stats(each func(name, value string) error) error { return l.statsOf("", each) }

// statsOf is Stats for another group of statistics: a blank and its name.
func (l *Link) statsOf(group string, each func(name, value string) error) error {
	if err := l.Send("stats" + group + "\r\n"); err != nil {
		return err
	}
	for range mostStats {
		line, err := l.Line()
		if err != nil || line == "END" {
			return err
		}
		rest, ok := strings.CutPrefix(line, "STAT ")
		if !ok {
			return Unexpected(line)
		}
		name, value, _ := strings.Cut(rest, " ")
		if err := each(name, value); err != nil {
			return err
		}
	}
	return fmt.Errorf("the server sends more than %d statistics", mostStats)
}
