package admin

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// newMemcachedCollector returns a collector of the servers' own statistics. Servers that do not answer have no values.
func newMemcachedCollector(a *asked) prometheus.Collector {
	var metrics []metric[map[string]stats.Memcached]
	add := func(name, help string, send func(to sink, v float64, labels ...string),
		value func(m *stats.Memcached) uint64,
	) {
		values := func(answers map[string]stats.Memcached, to sink) {
			for server, m := range answers {
				send(to, float64(value(&m)), server)
			}
		}
		metrics = append(metrics, metric[map[string]stats.Memcached]{
			"memcached_" + name, help,
			[]string{"server"},
			values,
		})
	}
	add("items", "Items that the server holds.", sink.gauge, func(m *stats.Memcached) uint64 { return m.Items })
	add("items_bytes", "Memory of the items that the server holds.", sink.gauge, func(m *stats.Memcached) uint64 {
		return m.Bytes
	})
	add("limit_bytes", "Memory that the server may use for items.", sink.gauge, func(m *stats.Memcached) uint64 {
		return m.Limit
	})
	add("evictions_total", "Unexpired items that the server removed to make room.", sink.counter,
		func(m *stats.Memcached) uint64 { return m.Evictions })
	add("hits_total", "Keys that reads of all its clients found on the server.", sink.counter,
		func(m *stats.Memcached) uint64 { return m.Hits })
	add("misses_total", "Keys that reads of all its clients did not find on the server.", sink.counter,
		func(m *stats.Memcached) uint64 { return m.Misses })
	add("connections", "Open connections to the server.", sink.gauge, func(m *stats.Memcached) uint64 {
		return m.Connections
	})
	add("max_connections", "Maximum number of connections that the server accepts.", sink.gauge,
		func(m *stats.Memcached) uint64 { return m.MaxConnections })
	return newTable(a.get, metrics)
}
