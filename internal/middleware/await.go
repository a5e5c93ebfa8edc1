package middleware

import (
	"context"
	"time"

	"mcmw/internal/enum"
)

// Ready says which servers must have been up once before the middleware is ready. Clients are served even before.
type Ready uint8

const (
	ReadyKeys Ready = iota // at least one holder of every key
	ReadyAll               // all
	ReadyAny               // one
)

// ReadyNames are the policies' names.
var ReadyNames = enum.New[Ready]("ready", "keys", "all", "any")

func (r Ready) String() string { return ReadyNames.Of(r) }

const (
	// readyPause is the time between two checks of the servers' states.
	readyPause = 20 * time.Millisecond
	// readyReport is the time between two progress lines about the same server.
	readyReport = 2 * time.Second
)

// awaitReady waits until Options.Ready is met, and logs from time to time which servers are missing; false means that ctx
// was done first.
func (m *Middleware) awaitReady(ctx context.Context) bool {
	begin := time.Now()
	var reported time.Time
	for {
		p := m.current.Load()
		if p.meets(p.options.Ready) {
			return true
		}
		if time.Since(reported) >= readyReport {
			reported = time.Now()
			for _, s := range p.servers {
				if h := s.Health(); !s.Readable() {
					p.options.Log.Info("waiting for a server", "server", s.Name, "address", s.Addr(), "state", h.State, "error", h.Why,
						"waited", time.Since(begin).Round(time.Second), "ready", p.options.Ready.String())
				}
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(readyPause):
		}
	}
}

// meets reports whether enough servers are up for policy.
func (p *core) meets(policy Ready) bool {
	up := 0
	for _, s := range p.servers {
		if s.Readable() {
			up++
		}
	}
	switch policy {
	case ReadyAll:
		return up == len(p.servers)
	case ReadyAny:
		return up > 0
	}
	return p.router.Covers(func(server int) bool { return p.servers[server].Readable() })
}
