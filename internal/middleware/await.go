package middleware

import (
	"context"
	"time"

	"mcmw/internal/backend"
)

const (
	// awaitPause is the time between two attempts to reach a server at the start.
	awaitPause = 200 * time.Millisecond
	// awaitReport is the time between two progress lines about the same server.
	awaitReport = 2 * time.Second
)

// awaitServers returns true once every server was reached, false if ctx ends before.
func (m *Middleware) awaitServers(ctx context.Context) bool {
	for i, s := range m.servers {
		if !m.awaitServer(ctx, s, len(m.servers)-i) {
			return false
		}
	}
	return true
}

// awaitServer tries to reach s until it answers a connection; missing is how many servers are not known to be there.
func (m *Middleware) awaitServer(ctx context.Context, s *backend.Server, missing int) bool {
	begin := time.Now()
	var reported time.Time
	for {
		c, err := s.Dial(ctx)
		if err == nil {
			_ = c.Close()
			if !reported.IsZero() {
				m.options.Log.Info("server reached", "server", s.Name, "after", time.Since(begin).Round(time.Millisecond))
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if time.Since(reported) >= awaitReport {
			reported = time.Now()
			m.options.Log.Info("waiting for a server", "server", s.Name, "address", s.Addr, "error", err,
				"waited", time.Since(begin).Round(time.Second), "not_reached", missing)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(awaitPause):
		}
	}
}
