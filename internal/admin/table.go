package admin

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcmw/internal/stats"
)

// metric is one metric: its name without "mcmw_", its help text, and a function that sends its values in a snapshot.
type metric[S any] struct {
	name, help string
	labels     []string
	values     func(s S, to sink)
}

// table exports metrics, from one snapshot per scrape. It implements prometheus.Collector.
type table[S any] struct {
	snapshot func() S
	metrics  []metric[S]
	descs    []*prometheus.Desc // of metrics
	created  time.Time
}

func newTable[S any](snapshot func() S, metrics []metric[S]) *table[S] {
	t := &table[S]{snapshot: snapshot, metrics: metrics, created: time.Now()}
	for _, m := range metrics {
		t.descs = append(t.descs, prometheus.NewDesc("mcmw_"+m.name, m.help, m.labels, nil))
	}
	return t
}

// Describe sends the descriptions of all metrics.
func (t *table[S]) Describe(out chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		out <- d
	}
}

// Collect sends the values of one snapshot.
func (t *table[S]) Collect(out chan<- prometheus.Metric) {
	s := t.snapshot()
	for i, m := range t.metrics {
		m.values(s, sink{t.descs[i], t.created, out})
	}
}

// named is an enumeration.
type named interface {
	~uint8
	fmt.Stringer
}

// sink takes the values of one metric.
type sink struct {
	desc    *prometheus.Desc
	created time.Time // of the table
	out     chan<- prometheus.Metric
}

func (k sink) counter(v float64, labels ...string) {
	k.out <- prometheus.MustNewConstMetric(k.desc, prometheus.CounterValue, v, labels...)
}

// counters sends counts by the values of T, whose names are the last label.
func counters[T named](to sink, counts []uint64, labels ...string) {
	for v, n := range counts {
		to.counter(float64(n), append(slices.Clip(labels), T(v).String())...)
	}
}

func (k sink) gauge(v float64, labels ...string) {
	k.out <- prometheus.MustNewConstMetric(k.desc, prometheus.GaugeValue, v, labels...)
}

// histogram sends times, both as a classic and a native histogram.
func (k sink) histogram(h *stats.Histogram, label string) {
	k.out <- bothHistograms(k.desc, h, k.created, label)
}
