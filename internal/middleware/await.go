package middleware

import (
	"context"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/enum"
)

// Ready says which servers must be up, at the same time, before the middleware is ready. Clients are served even before
// that.
type Ready uint8

const (
	ReadyKeys Ready = iota // at least one holder of every key
	ReadyAll               // all servers
	ReadyAny               // one server
)

// ReadyNames are the names of the values.
var ReadyNames = enum.New[Ready]("ready", "keys", "all", "any")

func (r Ready) String() string { return ReadyNames.Of(r) }

const (
	// readyPause is the time between two checks of the servers' states.
	readyPause = 20 * time.Millisecond
	// readyReport is the time between two progress lines about the same server.
	readyReport = 2 * time.Second
)

// awaitReady waits until Options.Ready is met, and logs from time to time which servers are missing. It returns false
// if ctx is done first.
func (m *Middleware) awaitReady(ctx context.Context) bool {
	begin := time.Now()
	var reported time.Time
	for {
		c := m.current.Load()
		if c.meets(c.options.Ready) {
			return true
		}
		if time.Since(reported) >= readyReport {
			reported = time.Now()
			for _, s := range c.servers {
				if h := s.Health(); !s.Readable() {
					c.options.Log.Info("waiting for a server", "server", s.Name, "address", s.Addr(), "state", h.State,
						"error", h.Why,
						"waited", time.Since(begin).Round(time.Second), "ready", c.options.Ready.String())
				}
			}
		}
		if !backend.Pause(ctx, readyPause) {
			return false
		}
	}
}

// meets reports whether enough servers are up for policy.
func (c *core) meets(policy Ready) bool {
	up := 0
	for _, s := range c.servers {
		if s.Readable() {
			up++
		}
	}
	switch policy {
	case ReadyAll:
		return up == len(c.servers)
	case ReadyAny:
		return up > 0
	}
	return c.router.Covers(func(server int) bool { return c.servers[server].Readable() })
}
