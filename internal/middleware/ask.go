package middleware

import (
	"context"
	"slices"
	"sync"
	"time"

	"mcmw/internal/stats"
)

// AskServers asks all servers at the same time for their statistics, until ctx ends, and returns the answers by the servers' names. A server that
// does not answer is left out.
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

// asked is what the servers said when `stats` asked them last.
type asked struct {
	// mu guards the fields below. Its holder never waits for anything else.
	mu      sync.Mutex
	asking  bool
	at      time.Time // when they had answered
	answers map[string]stats.Memcached
}

const (
	// askAgain is how old the servers' answers are when `stats` asks again.
	askAgain = time.Second
	// askFor is how long it waits for answers.
	askFor = 5 * time.Second
)

// askInBackground asks the servers for their statistics, unless that was done shortly before. It does not wait, and `stats` does not: a server may stall.
func (m *Middleware) askInBackground() {
	m.asked.mu.Lock()
	defer m.asked.mu.Unlock()
	if m.asked.asking || time.Since(m.asked.at) < askAgain {
		return
	}
	m.asked.asking = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), askFor)
		defer cancel()
		answers := m.AskServers(ctx)
		m.asked.mu.Lock()
		defer m.asked.mu.Unlock()
		m.asked.asking, m.asked.at, m.asked.answers = false, time.Now(), answers
	}()
}

// sums returns the sums over the servers of what they answered last; ok is false if none has. It has them asked again.
func (m *Middleware) sums() (sums stats.Memcached, ok bool) {
	m.askInBackground()
	servers := m.current.Load().servers
	m.asked.mu.Lock()
	defer m.asked.mu.Unlock()
	for _, s := range servers {
		if a, answered := m.asked.answers[s.Name]; answered {
			ok = true
			sums.Items += a.Items
			sums.Bytes += a.Bytes
			sums.Limit += a.Limit
			sums.Evictions += a.Evictions
		}
	}
	return sums, ok
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
