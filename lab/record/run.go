package record

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Sources of values. There are also sources for a single client or middleware, with its number, such as "client:0", and
// for a single server, with its name, such as "server:a".
const (
	SourceClient     = "client"     // all load processes together
	SourceMiddleware = "middleware" // all middlewares together
	SourceServer     = "server:"    // the prefix before a server's name
	SourceServers    = "servers"    // all servers together
	SourceHost       = "host"
	SourceLab        = "lab"  // the program that runs the experiment, if it emulates the network
	SourcePath       = "path" // the network between clients and servers, measured before the runs
)

// State says how a run ended.
type State string

// The states of a run.
const (
	Complete State = "complete"
	Failed   State = "failed" // Error has the reason; the run may have the measurements made before the failure
)

// Run is one run of an experiment: one repetition of one point.
type Run struct {
	// ID identifies the run within the record. If it is 0, Add sets it to NextID.
	ID int64
	// Point is the number of the combination of factor levels, Repetition counts the runs of the point, Position is the
	// place in the order in which the runs were made. All count from 0. Only one complete run can have the same point
	// and repetition.
	Point, Repetition, Position int
	Started                     time.Time
	Seconds                     float64 // length of the measured window, without warm-up and cool-down
	State                       State
	Error                       string // why a failed run failed

	// Factors has the levels of the factors by name, such as "workers": "64".
	Factors map[string]string
	// Results are over the measured window.
	Results []Value
	// Windows, Histograms and HostSamples are stored by Add. Record.Runs leaves them out: Record has a method to read
	// each.
	Windows     []Window
	Histograms  []Bin
	HostSamples []Window
	// Warnings has the violated checks.
	Warnings []Warning
}

// Value is the value of a metric at a source.
type Value struct {
	Source string  `json:"source"`
	Metric string  `json:"metric"`
	Value  float64 `json:"value"` // in the metric's unit
}

// Window is the value of a metric at a source over a part of a run, usually a second.
type Window struct {
	Source  string
	Start   float64 // seconds since the beginning of the measured window
	Seconds float64 // length
	Metric  string
	Value   float64 // in the metric's unit
}

// Bin is one bin of a histogram: Count values from Lower up to Upper, which may be +Inf, in the metric's unit.
type Bin struct {
	Source, Metric string
	Command        string // get, set or multiget; empty for all together
	Lower, Upper   float64
	Count          uint64
}

// Warning is a violated check. Package check defines the codes.
type Warning struct {
	Code, Message string
}

// Value returns the value of a metric at a source over the measured window, and whether the run has it.
func (r Run) Value(source, metric string) (float64, bool) { return Find(r.Results, source, metric) }

// Find returns the value of a metric at a source, and whether there is one.
func Find(values []Value, source, metric string) (float64, bool) {
	for _, v := range values {
		if v.Source == source && v.Metric == metric {
			return v.Value, true
		}
	}
	return 0, false
}

// Varying returns the names of the factors that don't have the same level in all runs, in alphabetical order. A factor
// that only some runs have varies. Factors that depend only on the case are left out, and middlewares if it depends
// only on the system.
func Varying(runs []Run) []string {
	all := varying(runs)
	follows := func(name, from string) bool { return slices.Contains(all, from) && Follows(runs, name, from) }
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return name != "case" && follows(name, "case") || name == "middlewares" && follows(name, "system")
	})
}

// Lost returns the failed runs that were not made again: those whose point and repetition have no complete run.
func Lost(runs []Run) (lost []Run) {
	type place struct{ point, repetition int }
	complete := map[place]bool{}
	for _, run := range runs {
		if run.State == Complete {
			complete[place{run.Point, run.Repetition}] = true
		}
	}
	for _, run := range runs {
		if run.State == Failed && !complete[place{run.Point, run.Repetition}] {
			lost = append(lost, run)
		}
	}
	return lost
}

// HasLevels reports whether the wanted levels are among all.
func HasLevels(all, wanted map[string]string) bool {
	for factor, level := range wanted {
		if all[factor] != level {
			return false
		}
	}
	return true
}

// Follows reports whether the level of a factor depends only on the levels of others, as the clients of a case do.
func Follows(runs []Run, factor string, from ...string) bool {
	levels := map[string]string{}
	for _, run := range runs {
		key := Label(run.Factors, from)
		if level, ok := levels[key]; ok && level != run.Factors[factor] {
			return false
		}
		levels[key] = run.Factors[factor]
	}
	return true
}

// Same reports whether the levels of two factors always change together.
func Same(runs []Run, a, b string) bool { return Follows(runs, a, b) && Follows(runs, b, a) }

// varying returns the factors that don't have the same level in all runs.
func varying(runs []Run) []string {
	all := map[string]string{}
	for _, run := range runs {
		maps.Copy(all, run.Factors)
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return !slices.ContainsFunc(runs,
			func(run Run) bool { level, ok := run.Factors[name]; return !ok || level != all[name] })
	})
}

// Constant returns the factors that have the same level in all runs.
func Constant(runs []Run) map[string]string {
	constant := map[string]string{}
	if len(runs) == 0 {
		return constant
	}
	maps.Copy(constant, runs[0].Factors)
	for _, name := range varying(runs) {
		delete(constant, name)
	}
	return constant
}

// Label returns the levels of the named factors as text: "workers=64, clients=96". A factor without a level is left
// out.
func Label(factors map[string]string, names []string) string {
	var parts []string
	for _, name := range names {
		if level, ok := factors[name]; ok {
			parts = append(parts, name+"="+level)
		}
	}
	return strings.Join(parts, ", ")
}

// Means returns the means over time of the samples of a run's hosts.
func Means(samples []Window) (means []Value) {
	at := map[Value]int{} // by source and metric
	var seconds []float64
	for _, s := range samples {
		of := Value{Source: s.Source, Metric: s.Metric}
		i, ok := at[of]
		if !ok {
			i = len(means)
			at[of] = i
			means, seconds = append(means, of), append(seconds, 0)
		}
		means[i].Value += s.Value * s.Seconds
		seconds[i] += s.Seconds
	}
	for i := range means {
		means[i].Value /= seconds[i]
	}
	return slices.DeleteFunc(means, func(v Value) bool { return !finite(v.Value) })
}
