package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"mcmw/internal/stats"
)

// ControlCollector exports a stats.Control as Prometheus metrics:
//
//	mcmw_config_reloads_total{result}           times the configuration was read again
//	mcmw_config_info{hash,servers}              1; short hashes, the same where the configuration is
//	mcmw_server_lookups_total{result}           lookups of names under which servers are found
//	mcmw_server_list_updates_total{result}      changed lists of servers that lookups returned
//	mcmw_server_list_unconfirmed_seconds        for how long a name of servers has had no answer
//	mcmw_server_watches{state}                  services whose endpoints are watched, or should be
type ControlCollector struct {
	control *stats.Control

	reloads, info, lookups, updates, watches, unconfirmed *prometheus.Desc
}

// NewControlCollector returns a ControlCollector of c.
func NewControlCollector(c *stats.Control) *ControlCollector {
	return &ControlCollector{
		control: c,
		reloads: prometheus.NewDesc("mcmw_config_reloads_total",
			"How often the configuration was read again, by what came of it.", []string{"result"}, nil),
		info: prometheus.NewDesc("mcmw_config_info",
			"Short hashes of the options and of the list of servers that hold; always 1.", []string{"hash", "servers"}, nil),
		lookups: prometheus.NewDesc("mcmw_server_lookups_total", "Lookups of names under which servers are found.", []string{"result"}, nil),
		updates: prometheus.NewDesc("mcmw_server_list_updates_total",
			"Changed lists of servers that lookups of names brought, by what came of them.", []string{"result"}, nil),
		unconfirmed: prometheus.NewDesc("mcmw_server_list_unconfirmed_seconds",
			"For how long the list of servers could not be confirmed, because a name has no answer; 0: it is confirmed.", nil, nil),
		watches: prometheus.NewDesc("mcmw_server_watches",
			"Services whose endpoints are watched (live), or should be and are looked up in the DNS meanwhile (broken).", []string{"state"}, nil),
	}
}

// Describe sends the descriptions of all metrics.
func (c *ControlCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.reloads, c.info, c.lookups, c.updates, c.watches, c.unconfirmed} {
		out <- d
	}
}

// Collect sends the values of one snapshot.
func (c *ControlCollector) Collect(out chan<- prometheus.Metric) {
	s := c.control.Snapshot()
	counter := func(d *prometheus.Desc, n uint64, label string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label)
	}
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, s.Options, s.Servers)
	out <- prometheus.MustNewConstMetric(c.unconfirmed, prometheus.GaugeValue, s.Unconfirmed.Seconds())
	out <- prometheus.MustNewConstMetric(c.watches, prometheus.GaugeValue, float64(s.WatchesLive), "live")
	out <- prometheus.MustNewConstMetric(c.watches, prometheus.GaugeValue, float64(s.WatchesBroken), "broken")
	for i, n := range s.Reloads {
		counter(c.reloads, n, stats.ReloadResult(i).String())
	}
	for i, n := range s.Lookups {
		counter(c.lookups, n, stats.LookupResult(i).String())
	}
	for _, r := range []stats.ReloadResult{stats.ReloadApplied, stats.ReloadRefused} {
		counter(c.updates, s.Updates[r], r.String())
	}
}
