package admin

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcmw/internal/stats"
)

const (
	// askTimeout bounds how long a scrape, or the live page, waits for what the servers say of themselves.
	askTimeout = 500 * time.Millisecond
	// askEvery is for how long an answer counts as new, however often metrics and the live page are asked for.
	askEvery = 5 * time.Second
)

// asked is what the servers say of themselves, asked when somebody wants to know.
type asked struct {
	// Static after construction.
	ask   func(ctx context.Context) map[string]stats.Memcached // nil: nobody knows
	every time.Duration

	// mu guards the fields below. It is held while the servers are asked, so that they are asked once.
	mu      sync.Mutex
	at      time.Time
	answers map[string]stats.Memcached
}

// get returns the answers, by server; who has not answered in time is missing.
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

// memcachedMetrics are the metrics made from what servers say of themselves, by their names without "mcmw_memcached_".
var memcachedMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(m *stats.Memcached) uint64
}{
	{"items", "Items that the server holds.", prometheus.GaugeValue, func(m *stats.Memcached) uint64 { return m.Items }},
	{"items_bytes", "Memory of the items that the server holds.", prometheus.GaugeValue, func(m *stats.Memcached) uint64 { return m.Bytes }},
	{"limit_bytes", "Memory for items that the server may use.", prometheus.GaugeValue, func(m *stats.Memcached) uint64 { return m.Limit }},
	{"evictions_total", "Items that the server removed before they expired, to make room.", prometheus.CounterValue, func(m *stats.Memcached) uint64 { return m.Evictions }},
	{"hits_total", "Keys that reads found on the server, those of all its clients.", prometheus.CounterValue, func(m *stats.Memcached) uint64 { return m.Hits }},
	{"misses_total", "Keys that reads did not find on the server.", prometheus.CounterValue, func(m *stats.Memcached) uint64 { return m.Misses }},
	{"connections", "Connections to the server.", prometheus.GaugeValue, func(m *stats.Memcached) uint64 { return m.Connections }},
	{"max_connections", "Connections that the server accepts.", prometheus.GaugeValue, func(m *stats.Memcached) uint64 { return m.MaxConnections }},
}

// memcachedCollector exports what the servers say of themselves.
type memcachedCollector struct {
	asked *asked
	descs []*prometheus.Desc // of memcachedMetrics
}

func newMemcachedCollector(a *asked) *memcachedCollector {
	c := &memcachedCollector{asked: a}
	for _, m := range memcachedMetrics {
		c.descs = append(c.descs, describe("memcached_"+m.name, m.help, "server"))
	}
	return c
}

// Describe sends the descriptions of all metrics.
func (c *memcachedCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect sends the values of the servers that answered.
func (c *memcachedCollector) Collect(out chan<- prometheus.Metric) {
	answers := c.asked.get()
	for _, server := range slices.Sorted(maps.Keys(answers)) {
		answer := answers[server]
		for i, m := range memcachedMetrics {
			out <- prometheus.MustNewConstMetric(c.descs[i], m.kind, float64(m.value(&answer)), server)
		}
	}
}
