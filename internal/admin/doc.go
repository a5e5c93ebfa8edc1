// Package admin is the HTTP side of the middleware, for operators: health, metrics, profiles and a live page.
//
//	/              the live page, drawn in the browser from /api/stats
//	/livez         200 while the process works
//	/readyz        200 while clients are served, else 503 with the reason
//	/metrics       Prometheus text format, see Collector
//	/api/stats     the last two minutes, one point per second, see Report
//	/debug/histogram  exact counts of times in linear steps, see Server.serveHistogram
//	/debug/pprof/  Go profiles, only when the admin address is a loopback address
//
// All numbers come from Snapshots of one stats.Registry; nothing here is on a request's path.
package admin
