package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Confidence is the confidence level of the measurements' intervals.
const Confidence = 0.95

// Setting is the setting of a point.
type Setting struct {
	Clients     int // outstanding requests: connections times pipeline
	Workers     int // of each middleware
	Middlewares int
	Depth       int // requests that a worker takes at a time
	Servers     int
	Replicas    int // servers that a write goes to
	// Behind names the levels of servers, replicas and pool if they vary within the record, Rest those of the other
	// factors that do.
	Behind, Rest string
	// PerServer: each server has its own workers and a writer (--pool per-server).
	PerServer bool
}

// AllWorkers is the number of workers of all middlewares.
func (s Setting) AllWorkers() int { return s.workersOfEach() * s.Middlewares }

// workersOfEach is the number of workers of a middleware, without the writers, which don't wait for answers.
func (s Setting) workersOfEach() int {
	if s.PerServer {
		return s.Workers * s.Servers
	}
	return s.Workers
}

// Configuration describes the setting without its clients. Settings of a record that differ in more than these have
// different descriptions.
func (s Setting) Configuration() string {
	text := fmt.Sprintf("%d workers", s.Workers)
	switch {
	case s.Middlewares > 1:
		text = fmt.Sprintf("%d x %d workers", s.Middlewares, s.Workers)
	case s.Workers == 1:
		text = "1 worker"
	}
	if s.PerServer {
		text += " per server"
	}
	for _, more := range []string{s.Behind, s.Rest} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

// Point has the measurements at one setting. Times are seconds per request. NaN: unknown.
type Point struct {
	Setting
	X, R, P99 sample.Estimate // at the clients
	Most      float64         // largest throughput of a run
	// At the middlewares:
	Arrivals float64 // throughput
	Inside   float64 // response time
	Net      float64 // net stage
	Wait     float64 // queue stage
	Service  float64 // worker, server and reply stages: the time for which a worker has the request
	Busy     float64 // busy workers of all middlewares
	Think    float64 // Z, between a client's reply and its next request; 0 if it was not measured
	Classes  []Class
}

// Class has the measurements of one command at a point.
type Class struct {
	Name    string  // get, set or multiget; "all" if commands were not distinguished
	X, R    float64 // at the clients
	Inside  float64 // response time at the middlewares
	Service float64 // Inside less net and queue stages, whose times are those of all commands
	Worker  float64 // worker stage of all commands
}

// Data is the input of the models.
type Data struct {
	Name      string
	Points    []Point // by configuration, then clients
	RoundTrip float64 // of the path without load, s; 0 if it was not measured
	// Notes are sentences about missing and left-out measurements.
	Notes []string
}

// Configurations returns the names of the configurations in the order of the points.
func (d *Data) Configurations() []string {
	var names []string
	for _, p := range d.Points {
		if name := p.Configuration(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Sweep returns the points of a configuration.
func (d *Data) Sweep(configuration string) []Point {
	return slices.DeleteFunc(slices.Clone(d.Points), func(p Point) bool { return p.Configuration() != configuration })
}

// handled are the factors from which the numbers of a Setting are computed. Other factors are in its Rest.
var handled = []string{
	"clients", "pipeline", "load_processes", "load_threads", "workers", "middlewares",
	"depth", "servers", "replicas", "pool", "think_time",
}

// serverFactors are those of handled that are in its Behind if they vary.
var serverFactors = []string{"servers", "replicas", "pool"}

// FromRuns returns the models' input from runs of a record with manifest m.
func FromRuns(m record.Manifest, runs []record.Run) (*Data, error) {
	d := &Data{Name: m.Name}
	if rtt, ok := record.Find(m.Path, record.SourcePath, "round_trip_time_mean"); ok {
		d.RoundTrip = rtt
	} else {
		d.Notes = append(d.Notes, "The record does not have the round-trip time of the path; the networks use 0.")
	}
	varying := record.Varying(runs)
	behind := slices.DeleteFunc(slices.Clone(serverFactors),
		func(name string) bool { return !slices.Contains(varying, name) })
	varying = slices.DeleteFunc(varying, func(name string) bool { return slices.Contains(handled, name) })
	leftOut := map[string]int{} // points by reason
	saturated := 0
	for _, p := range frame.Of(runs, Confidence).Points {
		saturated += removeSaturated(&p)
		point, why, err := newPoint(p, behind, varying)
		if err != nil {
			return nil, fmt.Errorf("point %s: %w", record.Label(p.Levels, record.Varying(runs)), err)
		}
		if why != "" {
			leftOut[why]++
			continue
		}
		d.Points = append(d.Points, point)
	}
	for _, why := range slices.Sorted(maps.Keys(leftOut)) {
		d.Notes = append(d.Notes, fmt.Sprintf("Points %s are left out: %d.", why, leftOut[why]))
	}
	if saturated > 0 {
		d.Notes = append(d.Notes,
			fmt.Sprintf("Runs in which the load generator or its machine was the limit are left out: %d. Their "+
				"points have other runs.", saturated))
	}
	if len(d.Points) == 0 {
		return nil,
			fmt.Errorf("no point can be modelled: expected complete runs of a closed loop through a middleware with "+
				"stage times (%s)", strings.Join(d.Notes, " "))
	}
	slices.SortStableFunc(d.Points, func(a, b Point) int {
		return cmp.Or(
			cmp.Compare(a.Rest, b.Rest), cmp.Compare(a.Middlewares, b.Middlewares), cmp.Compare(a.Workers, b.Workers),
			cmp.Compare(a.Servers, b.Servers), cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(a.Behind, b.Behind),
			cmp.Compare(a.Clients, b.Clients),
		)
	})
	return d, nil
}

// removeSaturated removes the runs in which the load generator was the limit, unless it was in all, and returns their
// number.
func removeSaturated(p *frame.Point) int {
	saturated := func(r record.Run) bool {
		v, ok := r.Value(record.SourceClient, "saturated")
		return ok && v > 0
	}
	sound := slices.DeleteFunc(slices.Clone(p.Runs), saturated)
	if len(sound) == 0 {
		return 0
	}
	removed := len(p.Runs) - len(sound)
	p.Runs = sound
	return removed
}

// newPoint returns the point, or the reason why it cannot be modelled.
func newPoint(p frame.Point, behind, varying []string) (Point, string, error) {
	out := Point{}
	if p.Levels["middlewares"] == "0" {
		return out, "without a middleware", nil
	}
	runs := p.Runs
	if len(runs) == 0 {
		return out, "without a complete run", nil
	}
	if frame.OpenLoop(runs[0]) {
		return out, "of an open loop, in which clients don't wait for replies,", nil
	}
	if _, ok := runs[0].Number("workers"); p.Levels["workers"] == "" || record.Level(p.Levels["workers"]) ==
		record.AsDefault && !ok {
		return out, "without the number of workers", nil
	}
	var err error
	if out.Setting, err = newSetting(runs[0], behind, varying); err != nil {
		return out, "", err
	}
	mean := func(source, metric string) float64 { return stat.Mean(p.Values(source, metric), nil) } // NaN of no values
	measured := func(metric string) sample.Estimate {
		e := p.Estimate(record.SourceClient, metric)
		if !e.OK() {
			e.Mean = math.NaN()
		}
		return e
	}
	out.X, out.R, out.P99 = measured("throughput"), measured("response_time_mean"), measured("response_time_p99")
	out.Most = slices.Max(append(p.Values(record.SourceClient, "throughput"), 0))
	const mw = record.SourceMiddleware
	out.Arrivals, out.Inside, out.Net, out.Wait = mean(mw, "throughput"), mean(mw, "response_time_mean"),
		mean(mw, "stage_net_mean"), mean(mw, "stage_queue_mean")
	out.Service = mean(mw, "stage_worker_mean") + mean(mw, "stage_server_mean") + mean(mw, "stage_reply_mean")
	out.Busy = mean(mw, "busy_workers_mean")
	if out.Think = mean(record.SourceClient, "think_time_mean"); math.IsNaN(out.Think) {
		out.Think = 0
	}
	if !(out.X.Mean > 0) || !(out.R.Mean > 0) || !(out.Service > 0) {
		return out, "without throughput, response time or stages of the middleware", nil
	}
	if math.IsNaN(out.Arrivals) {
		out.Arrivals = out.X.Mean
	}
	if math.IsNaN(out.Busy) {
		// Little's law at the workers.
		out.Busy = out.Arrivals * out.Service
	}
	out.Classes = newClasses(&out, mean)
	return out, "", nil
}

// newClasses returns the classes by command; one class of all requests if nothing was measured by command.
func newClasses(p *Point, mean func(source, metric string) float64) []Class {
	const mw = record.SourceMiddleware
	worker := mean(mw, "stage_worker_mean")
	var classes []Class
	for _, name := range record.Commands {
		c := Class{
			Name: name, X: mean(record.SourceClient, "throughput_"+name),
			R:      mean(record.SourceClient, "response_time_mean_"+name),
			Inside: mean(mw, "response_time_mean_"+name), Worker: worker,
		}
		if c.X > 0 && c.R > 0 {
			c.Service = c.Inside - p.Net - p.Wait
			classes = append(classes, c)
		}
	}
	if len(classes) == 0 {
		classes = []Class{{Name: "all", X: p.X.Mean, R: p.R.Mean, Inside: p.Inside, Service: p.Service, Worker: worker}}
	}
	return classes
}

// newSetting returns the setting of a run. The levels of behind are in its Behind, those of varying in its Rest.
func newSetting(run record.Run, behind, varying []string) (Setting, error) {
	var s Setting
	factors := run.Factors
	var problems []error
	number := func(name string, otherwise int) int {
		level, ok := factors[name]
		if !ok && otherwise > 0 {
			return otherwise
		}
		v, known := run.Number(name)
		n := int(v)
		if !known || float64(n) != v || n < 1 {
			problems = append(problems, fmt.Errorf("factor %s is %q: expected a whole number above 0", name, level))
		}
		return n
	}
	s.Clients = number("clients", 0) * number("pipeline", 1)
	s.Workers, s.Middlewares, s.Depth, s.Servers = number("workers", 0), number("middlewares", 1), number("depth", 1),
		number("servers", 1)
	s.Replicas = s.Servers
	if level := factors["replicas"]; level != "" && level != "all" {
		s.Replicas = min(number("replicas", 1), s.Servers)
	}
	s.PerServer = factors["pool"] == "per-server"
	levels := func(names []string) (all []string) {
		for _, name := range names {
			all = append(all, name+" "+factors[name])
		}
		return all
	}
	rest := levels(varying)
	if s.Depth > 1 {
		rest = slices.Insert(rest, 0, fmt.Sprintf("depth %d", s.Depth))
	}
	s.Behind, s.Rest = strings.Join(levels(behind), ", "), strings.Join(rest, ", ")
	return s, errors.Join(problems...)
}
