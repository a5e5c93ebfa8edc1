package admin

import "mcmw/internal/stats"

// controlMetrics are the metrics of configuration changes.
var controlMetrics = []metric[stats.ControlSnapshot]{
	{
		"config_reloads_total", "Reloads of the configuration, by result.",
		[]string{"result"},
		func(s stats.ControlSnapshot, to sink) { counters[stats.ReloadResult](to, s.Reloads[:]) },
	},
	{
		"config_info", "Always 1; short hashes of the options and of the list of servers in use.",
		[]string{"hash", "servers"},
		func(s stats.ControlSnapshot, to sink) { to.gauge(1, s.Options, s.Servers) },
	},
	{
		"server_lookups_total", "DNS lookups of servers, by result.",
		[]string{"result"},
		func(s stats.ControlSnapshot, to sink) { counters[stats.LookupResult](to, s.Lookups[:]) },
	},
	{
		"server_list_updates_total", "Changes of the list of servers that DNS lookups returned, by result.",
		[]string{"result"},
		func(s stats.ControlSnapshot, to sink) {
			for _, r := range []stats.ReloadResult{stats.ReloadApplied, stats.ReloadRefused} {
				to.counter(float64(s.Updates[r]), r.String())
			}
		},
	},
	{
		"server_list_unconfirmed_seconds",
		"How long the list of servers could not be confirmed, because a name has no answer; 0: it is confirmed.", nil,
		func(s stats.ControlSnapshot, to sink) { to.gauge(s.Unconfirmed.Seconds()) },
	},
	{
		"server_watches",
		"Kubernetes Services whose endpoints are watched (live), or cannot be watched now and are looked up in the " +
			"DNS instead (broken).",
		[]string{"state"},
		func(s stats.ControlSnapshot, to sink) {
			to.gauge(float64(s.WatchesLive), "live")
			to.gauge(float64(s.WatchesBroken), "broken")
		},
	},
}
