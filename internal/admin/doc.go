// Package admin is the middleware's HTTP server for operators: health, metrics, profiles and a live page.
//
//	/                 the live page, drawn in the browser from /api/stats
//	/livez            200 as long as the process answers
//	/readyz           200 while clients are served, else 503
//	/metrics          metrics for Prometheus, see table
//	/api/stats        the last two minutes, one point per second, see Report
//	/api/hot-keys     the keys that are requested most
//	/api/routes       all routes, see Route
//	/debug/histogram  exact counts of times in linear steps, see Server.serveHistogram
//	/debug/pprof/     Go profiles, only if the admin address is a loopback address
//
// The statistics come from Snapshots of one stats.Registry. Nothing here is on a request's path.
package admin
