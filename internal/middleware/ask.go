package middleware

import (
	"context"
	"slices"
	"sync"

	"mcmw/internal/stats"
)

// AskServers asks all servers at the same time for their statistics, until ctx ends, and returns the answers by the
// servers' names. A server that does not answer is left out.
func (m *Middleware) AskServers(ctx context.Context) map[string]stats.Memcached {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards answers
	answers := map[string]stats.Memcached{}
	c := m.current.Load()
	servers := slices.Clone(c.servers)
	for _, s := range c.shadows {
		servers = append(servers, s.inner.current.Load().servers...)
	}
	for _, s := range servers {
		wg.Go(func() {
			if answer, err := s.Ask(ctx); err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[s.Name] = answer
			}
		})
	}
	wg.Wait()
	return answers
}

// version returns what `version` answers if no server can; mcmw's own version if no server has told one.
func (m *Middleware) version() string {
	c := m.current.Load()
	for _, s := range c.servers {
		if v := s.Version(); v != "" {
			return v
		}
	}
	return "mcmw-" + c.options.Version
}
