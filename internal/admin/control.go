package admin

import "mcmw/internal/stats"

// control is the family of the metrics of configuration changes.
var control = whole[stats.ControlSnapshot]()

// controlMetrics are the metrics of configuration changes.
var controlMetrics = []metric[stats.ControlSnapshot]{
	control.by("result", "config_reloads_total", "Reloads of the configuration, by result.",
		func(s stats.ControlSnapshot) values { return byName[stats.ReloadResult](s.Reloads[:]) }),
	{
		"config_info", "Always 1; short hashes of the options and of the list of servers in use.",
		[]string{"hash", "servers"},
		func(s stats.ControlSnapshot, to sink) { to.send(1, s.Options, s.Servers) },
	},
	control.by("result", "server_lookups_total", "DNS lookups of servers, by result.",
		func(s stats.ControlSnapshot) values { return byName[stats.LookupResult](s.Lookups[:]) }),
	control.by("result", "server_list_updates_total",
		"Changes of the list of servers that DNS lookups returned, by result.",
		func(s stats.ControlSnapshot) values {
			all := byName[stats.ReloadResult](s.Updates[:])
			delete(all, stats.ReloadUnchanged.String())
			return all
		}),
	control.value("server_list_unconfirmed_seconds",
		"How long the list of servers could not be confirmed, because a name has no answer; 0: it is confirmed.",
		func(s stats.ControlSnapshot) any { return s.Unconfirmed }),
	control.by("state", "server_watches",
		"Kubernetes Services whose endpoints are watched (live), or cannot be watched now and are looked up in the "+
			"DNS instead (broken).",
		func(s stats.ControlSnapshot) values { return values{"live": s.WatchesLive, "broken": s.WatchesBroken} }),
}
