package admin

import (
	"context"
	"sync"
	"time"

	"mcmw/internal/stats"
)

const (
	// askTimeout bounds the time that a scrape, or the live page, waits for the servers' statistics.
	askTimeout = 500 * time.Millisecond
	// askEvery is the minimum time between two requests to the servers, however often metrics and the live page are
	// requested.
	askEvery = 5 * time.Second
)

// asked holds the servers' own statistics, which are requested when they are needed.
type asked struct {
	// Static after construction.
	ask   func(ctx context.Context) map[string]stats.Memcached // nil: there are no statistics
	every time.Duration

	// mu guards the fields below. It is held while the servers are asked, so that they are not asked twice at a time.
	mu      sync.Mutex
	at      time.Time
	answers map[string]stats.Memcached
}

// get returns the statistics by server. Servers that have not answered in time are missing.
func (a *asked) get() map[string]stats.Memcached {
	if a.ask == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || time.Since(a.at) >= a.every {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		a.answers, a.at = a.ask(ctx), time.Now()
	}
	return a.answers
}

// perAnswer is the family of metrics with one series per server that has answered.
var perAnswer = keyed(func(s map[string]stats.Memcached) map[string]stats.Memcached { return s }, "server", plain)

// memcachedMetrics are the servers' own statistics.
var memcachedMetrics = []metric[map[string]stats.Memcached]{
	perAnswer.value("memcached_items", "Items that the server holds.",
		func(m stats.Memcached) any { return m.Items }),
	perAnswer.value("memcached_items_bytes", "Memory of the items that the server holds.",
		func(m stats.Memcached) any { return m.Bytes }),
	perAnswer.value("memcached_limit_bytes", "Memory that the server may use for items.",
		func(m stats.Memcached) any { return m.Limit }),
	perAnswer.value("memcached_evictions_total", "Unexpired items that the server removed to make room.",
		func(m stats.Memcached) any { return m.Evictions }),
	perAnswer.value("memcached_hits_total", "Keys that reads of all its clients found on the server.",
		func(m stats.Memcached) any { return m.Hits }),
	perAnswer.value("memcached_misses_total", "Keys that reads of all its clients did not find on the server.",
		func(m stats.Memcached) any { return m.Misses }),
	perAnswer.value("memcached_connections", "Open connections to the server.",
		func(m stats.Memcached) any { return m.Connections }),
	perAnswer.value("memcached_max_connections", "Maximum number of connections that the server accepts.",
		func(m stats.Memcached) any { return m.MaxConnections }),
}
