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

// awaitServers waits until each server was reached once; false means that ctx was done before. If the servers change
// meanwhile, it waits for the new ones.
func (m *Middleware) awaitServers(ctx context.Context) bool {
	for {
		p := m.pool.Load()
		for i, s := range p.servers {
			if !m.awaitServer(ctx, p, s, len(p.servers)-i) {
				return false
			}
		}
		if m.pool.Load() == p {
			return true
		}
	}
}

// awaitServer waits for server s of p, unless p is replaced.
func (m *Middleware) awaitServer(ctx context.Context, p *pool, s *backend.Server, missing int) bool {
	begin := time.Now()
	var reported time.Time
	for {
		err := s.Reach(ctx)
		if err == nil {
			if !reported.IsZero() {
				p.options.Log.Info("server reached", "server", s.Name, "after", time.Since(begin).Round(time.Millisecond))
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if m.pool.Load() != p {
			return true
		}
		if time.Since(reported) >= awaitReport {
			reported = time.Now()
			p.options.Log.Info("waiting for a server", "server", s.Name, "address", s.Addr(), "error", err,
				"waited", time.Since(begin).Round(time.Second), "not_reached", missing)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(awaitPause):
		}
	}
}
