package report

import (
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
)

// metric returns the name of a metric for the view's command: throughput, or throughput_get.
func (v View) metric(name string) string {
	if v.Command == "" {
		return name
	}
	return name + "_" + v.Command
}

// lawThroughput returns the throughput by the interactive law with R from a source. beyond is added to Z.
func lawThroughput(run record.Run, source string, beyond float64) (float64, bool) {
	l, ok := frame.LoopOf(run)
	l.Z += beyond
	r, okR := run.Value(source, "response_time_mean")
	return l.Throughput(r), ok && okR && r+l.Z > 0
}

// lawResponseTime returns the response time by the law at the clients.
func lawResponseTime(run record.Run) (float64, bool) {
	l, ok := frame.LoopOf(run)
	x, okX := run.Value(record.SourceClient, "throughput")
	return l.ResponseTime(x), ok && okX && x > 0
}

// path returns a measurement of the path: of the run, else of the set.
func (d *Data) path(run record.Run, source, metric string) (float64, bool) {
	if v, ok := run.Value(source, metric); ok {
		return v, true
	}
	return record.Find(d.Manifest.Path, source, metric)
}

// bandwidthLimit returns the lowest throughput at which a part of the network is full: the path between load and
// middleware, or a direction of a machine that has a limit.
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

// pathLimit returns the lowest throughput at which a direction of the path is full. A direction that was not measured
// has the bandwidth of the path. Machines with bandwidths of their own have no limit here: the path was measured from
// one of them to another, and theirs are compared with what each sends and receives.
func (d *Data) pathLimit(run record.Run) (limit float64, known bool) {
	if slices.ContainsFunc(d.Manifest.Machines, func(m record.Machine) bool { return m.Upload > 0 || m.Download > 0 }) {
		return 0, false
	}
	requests, ok := run.Value(record.SourceClient, "requests")
	if !ok {
		requests, ok = run.Value(record.SourceClient, "throughput")
		requests *= run.Seconds
	}
	if !ok || requests <= 0 {
		return 0, false
	}
	for _, way := range []struct{ source, bytes string }{
		{record.SourcePath + ":requests", "bytes_written"},
		{record.SourcePath + ":replies", "bytes_read"},
	} {
		bandwidth, ok := d.path(run, way.source, "bandwidth")
		if !ok {
			bandwidth, ok = d.path(run, record.SourcePath, "bandwidth")
		}
		bytes, okB := run.Value(record.SourceClient, way.bytes)
		if full := bandwidth / (bytes / requests); ok && okB && bandwidth > 0 && bytes > 0 && (!known || full < limit) {
			limit, known = full, true
		}
	}
	return limit * d.paths(run), known
}

// paths returns how many paths like the one that was measured, from one host of load to one target, carry the load of
// a run: one if everything is on one host, else as many as there are hosts of that role that has fewer. Clients are
// spread evenly over both.
func (d *Data) paths(run record.Run) float64 {
	if d.Manifest.Testbed == experiment.LocalTestbed {
		return 1
	}
	hosts := func(role, programs string) float64 {
		n, _ := run.Number(programs)
		if known := d.Manifest.Hosts(role); known > 0 {
			n = min(n, float64(known))
		}
		return max(n, 1)
	}
	targets := hosts("middleware", experiment.Middlewares)
	if n, ok := run.Number(experiment.Middlewares); ok && n == 0 {
		targets = hosts("server", experiment.Servers)
	}
	return min(hosts("load", experiment.LoadProcesses), targets)
}

// direction is a direction of the network of the machines of a role.
type direction struct {
	role string // prefix of the machines' names, such as server-0
	name string // upload or download
}

// directions are the directions whose bandwidth can be the limit.
var directions = []direction{
	{"server", "upload"},
	{"server", "download"},
	{"middleware", "upload"},
	{"middleware", "download"},
	{"load", "upload"},
	{"load", "download"},
}

// full returns the utilization of a direction at the machine with the highest one. It is unknown if the machines have
// no limits. Samples include a header for each packet that the kernel handles, limits do not: they differ by one or two
// percent.
func (d *Data) full(run record.Run, of direction) (most float64, known bool) {
	for _, m := range d.Manifest.Machines {
		limit, metric := m.Upload, "net_tx_bytes"
		if of.name == "download" {
			limit, metric = m.Download, "net_rx_bytes"
		}
		if !strings.HasPrefix(m.Name, of.role+"-") || limit <= 0 {
			continue
		}
		means, _ := d.sampled(run.ID) // none if they can't be read
		if bytes, ok := record.Find(means, record.SourceHost+":"+m.Name, metric); ok {
			most, known = max(most, bytes/limit), true
		}
	}
	return most, known
}

const (
	// limitRoom is the ratio to the highest value up to which the bandwidth limit is drawn. A higher limit would press
	// the values to the bottom.
	limitRoom = 2.5
	// sameLimit is the ratio of two bandwidth limits up to which they are drawn as one.
	sameLimit = 1.05
)

// bandwidths returns marks for the bandwidth limits of lines that are at most highest: several if they differ, as with
// different numbers of servers. A limit that differs along the x axis, as with different sizes of values, is a line.
func (a *artist) bandwidths(lines []Line, highest float64) (marks []plot.Mark) {
	limit := func(points ...frame.Point) float64 {
		e := (frame.Point{Runs: frame.Frame{Points: points}.Runs(), Confidence: a.d.Confidence}).
			Derive(a.d.bandwidthLimit)
		if !e.OK() {
			return math.NaN()
		}
		return e.Mean
	}
	same := func(x, y float64) bool { return max(x/y, y/x) <= sameLimit }
	var groups []map[float64][]frame.Point // of lines with the same limits, by position
	for _, l := range lines {
		at := map[float64][]frame.Point{}
		for _, p := range l.Points {
			if x := a.d.place(a.v, p); !math.IsNaN(limit(p)) {
				at[x] = append(at[x], p)
			}
		}
		i := slices.IndexFunc(groups, func(group map[float64][]frame.Point) bool {
			for x, points := range at {
				if len(group[x]) == 0 || !same(limit(points...), limit(group[x][0])) {
					return false
				}
			}
			return true
		})
		if i < 0 {
			groups = append(groups, at)
			continue
		}
		for x, points := range at {
			groups[i][x] = append(groups[i][x], points...)
		}
	}
	name := "bandwidth"
	for _, group := range groups {
		bound := plot.Line{Name: name, Look: plot.Bound}
		var all []frame.Point
		level := true
		for _, x := range slices.Sorted(maps.Keys(group)) {
			all = append(all, group[x]...)
			of := limit(group[x]...)
			level = level && (len(bound.Points) == 0 || same(of, bound.Points[0].Y))
			bound.Points = append(bound.Points, plot.At(x, of))
		}
		switch of := limit(all...); {
		case level && of <= highest:
			marks = append(marks, plot.Limit{Name: name, Y: of})
		case level:
			continue
		default:
			for i := range bound.Points {
				if bound.Points[i].Y > highest {
					bound.Points[i].Y = math.NaN()
				}
			}
			if !known(bound) {
				continue
			}
			marks = append(marks, bound)
		}
		name = ""
	}
	return marks
}
