package report

import (
	"mcmw/internal/lab/record"
)

// metric returns the name of a metric under the view's command: throughput, or throughput_get.
func (v View) metric(name string) string {
	if v.Command == "" {
		return name
	}
	return name + "_" + v.Command
}

// population returns N, the requests that a closed loop keeps outstanding: connections times pipeline. It is unknown for an
// open loop.
func population(run record.Run) (float64, bool) {
	if rate, ok := levelNumber(run.Factors["rate"]); ok && rate > 0 {
		return 0, false
	}
	n, ok := levelNumber(run.Factors["connections"])
	if pipeline, known := levelNumber(run.Factors["pipeline"]); known && pipeline > 0 {
		n *= pipeline
	}
	return n, ok && n > 0
}

// thinkTime returns Z, the time of the clients between a reply and the next request: as measured, as set, or 0.
func thinkTime(run record.Run) float64 {
	if z, ok := run.Value(record.SourceClient, "think_time_mean"); ok {
		return z
	}
	z, _ := levelNumber(run.Factors["think_time"])
	return z
}

// The interactive response time law: X = N/(R + Z), R = N/X - Z (Jain, "The Art of Computer Systems Performance Analysis",
// section 33.5).

// lawThroughput returns N/(R + Z) with R as a source measured it and a further think time beyond it.
func lawThroughput(run record.Run, source string, beyond float64) (float64, bool) {
	n, ok := population(run)
	r, okR := run.Value(source, "response_time_mean")
	r += thinkTime(run) + beyond
	return n / r, ok && okR && r > 0
}

// lawResponseTime returns N/X - Z with X as a source measured it.
func lawResponseTime(run record.Run, source string) (float64, bool) {
	n, ok := population(run)
	x, okX := run.Value(source, "throughput")
	return n/x - thinkTime(run), ok && okX && x > 0
}

// path returns what was measured of the path: of the run, or of the set.
func (d *Data) path(run record.Run, source, metric string) (float64, bool) {
	if v, ok := run.Value(source, metric); ok {
		return v, true
	}
	return record.Find(d.Manifest.Path, source, metric)
}

// The directions of the path, where its bandwidth was measured in each.
const (
	pathOfRequests = record.SourcePath + ":requests"
	pathOfReplies  = record.SourcePath + ":replies"
)

// bandwidthLimit returns the throughput that the network allows: of the path between load and middleware, and of every machine's
// directions where these have limits, what is full first.
func (d *Data) bandwidthLimit(run record.Run) (limit float64, known bool) {
	limit, known = d.pathLimit(run)
	x, ok := run.Value(record.SourceClient, "throughput")
	for _, way := range directions {
		if used, okUsed := d.full(run, way); ok && okUsed && used > 0 && (!known || x/used < limit) {
			limit, known = x/used, true
		}
	}
	return limit, known
}

// pathLimit returns the throughput at which the path is full in the direction that is full first. Where the directions
// were not measured each, both have the bandwidth of the path.
func (d *Data) pathLimit(run record.Run) (limit float64, known bool) {
	requests, ok := run.Value(record.SourceClient, "requests")
	if !ok {
		requests, ok = run.Value(record.SourceClient, "throughput")
		requests *= run.Seconds
	}
	if !ok || requests <= 0 {
		return 0, false
	}
	for _, way := range []struct{ source, bytes string }{{pathOfRequests, "bytes_written"}, {pathOfReplies, "bytes_read"}} {
		bandwidth, ok := d.path(run, way.source, "bandwidth")
		if !ok {
			bandwidth, ok = d.path(run, record.SourcePath, "bandwidth")
		}
		bytes, okB := run.Value(record.SourceClient, way.bytes)
		if full := bandwidth / (bytes / requests); ok && okB && bandwidth > 0 && bytes > 0 && (!known || full < limit) {
			limit, known = full, true
		}
	}
	return limit, known
}
