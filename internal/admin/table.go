package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcmw/internal/stats"
)

// metric is one metric: its name without "mcmw_", which ends in "_total" if it is a counter, its help text, and a
// function that sends its values in a snapshot.
type metric[S any] struct {
	name, help string
	labels     []string
	values     func(s S, to sink)
}

// values are the values of a metric by those of a label. A value is a number, a duration, a bool (1 or 0) or a
// *stats.Histogram.
type values map[string]any

// family is what metrics with the same labels have in common: the elements of a snapshot that have values.
type family[S, T any] struct {
	labels []string
	each   func(s S, send func(element T, labels ...string))
}

// value returns a metric with one value for each element; see values.
func (f family[S, T]) value(name, help string, value func(element T) any) metric[S] {
	return metric[S]{name, help, f.labels, func(s S, to sink) {
		f.each(s, func(element T, labels ...string) { to.send(value(element), labels...) })
	}}
}

// by returns a metric with several values for each element, by a further label.
func (f family[S, T]) by(label, name, help string, all func(element T) values) metric[S] {
	return metric[S]{name, help, append(slices.Clip(f.labels), label), func(s S, to sink) {
		f.each(s, func(element T, labels ...string) {
			for of, v := range all(element) {
				to.send(v, append(slices.Clip(labels), of)...)
			}
		})
	}}
}

// info returns a metric that is always 1, with further labels for each element.
func (f family[S, T]) info(name, help string, more func(element T) []string, labels ...string) metric[S] {
	return metric[S]{name, help, slices.Concat(f.labels, labels), func(s S, to sink) {
		f.each(s, func(element T, labels ...string) { to.send(1, slices.Concat(labels, more(element))...) })
	}}
}

// whole returns the family of the metrics of a snapshot without labels.
func whole[S any]() family[S, S] {
	return family[S, S]{nil, func(s S, send func(S, ...string)) { send(s) }}
}

// listed returns the family of the metrics with these labels, whose values of returns, for each element of a list.
func listed[S, E any](list func(s S) []E, of func(e *E) []string, labels ...string) family[S, *E] {
	return family[S, *E]{labels, func(s S, send func(*E, ...string)) {
		all := list(s)
		for i := range all {
			send(&all[i], of(&all[i])...)
		}
	}}
}

// keyed returns the family of the metrics with this label, whose values are the keys of a map as shown shows them.
func keyed[S, E any](all func(s S) map[string]E, label string, shown func(key string) string) family[S, E] {
	return family[S, E]{[]string{label}, func(s S, send func(E, ...string)) {
		for key, element := range all(s) {
			send(element, shown(key))
		}
	}}
}

// plain shows a name as it is.
func plain(name string) string { return name }

// named is an enumeration: its values begin at 0 and have names.
type named interface {
	~uint8
	fmt.Stringer
}

// byName returns counts by the names of T's values.
func byName[T named](counts []uint64) values {
	all := values{}
	for v, n := range counts {
		all[T(v).String()] = n
	}
	return all
}

// histograms is byName for histograms.
func histograms[T named](list []stats.Histogram) values {
	all := values{}
	for v := range list {
		all[T(v).String()] = &list[v]
	}
	return all
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
		kind := prometheus.GaugeValue
		if strings.HasSuffix(m.name, "_total") {
			kind = prometheus.CounterValue
		}
		m.values(s, sink{t.descs[i], kind, t.created, out})
	}
}

// sink takes the values of one metric.
type sink struct {
	desc    *prometheus.Desc
	kind    prometheus.ValueType // ignored for histograms
	created time.Time            // of the table
	out     chan<- prometheus.Metric
}

// send sends one of values, with the values of all labels.
func (k sink) send(value any, labels ...string) {
	if h, ok := value.(*stats.Histogram); ok {
		k.out <- bothHistograms(k.desc, h, k.created, labels...)
		return
	}
	k.out <- prometheus.MustNewConstMetric(k.desc, k.kind, number(value), labels...)
}

// number returns the float64 that is exported for a value that is no histogram.
func number(value any) float64 {
	switch v := value.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		return v
	}
	return value.(time.Duration).Seconds() // values allows no other types
}
