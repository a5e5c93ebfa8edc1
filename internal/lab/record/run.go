package record

import "time"

// Sources of values. Others are a client or a middleware with its number, such as "client:0", and a server with its name, such
// as "server:a".
const (
	SourceClient     = "client"     // all load processes together
	SourceMiddleware = "middleware" // all middlewares together
	SourceServer     = "server:"    // what the name of a server follows
	SourceServers    = "servers"    // all servers together
	SourceHost       = "host"
	SourceLab        = "lab"  // the program that runs the experiment, where it emulates the network
	SourcePath       = "path" // the network between clients and servers, measured before the set
)

// State says how a run ended.
type State string

// The states of a run.
const (
	Complete State = "complete"
	Failed   State = "failed" // Error says why; what was measured until then may be there
)

// Run is one run of an experiment: one repetition of one point.
type Run struct {
	// ID names the run within the record. 0 lets Add choose; NextID tells beforehand, for the raw outputs.
	ID int64
	// Point is the combination of factor levels, Repetition counts the runs of it, Position is the place in the order in which the
	// runs were made. All count from 0. Only one complete run can have the same point and repetition.
	Point, Repetition, Position int
	Started                     time.Time
	Seconds                     float64 // length of the measured window, without warm-up and cool-down
	State                       State
	Error                       string // why a failed run failed

	// Factors are the levels by the factors' names, such as "workers": "64".
	Factors map[string]string
	// Results are over the measured window.
	Results []Value
	// Windows, Histograms and HostSamples are what Add takes; Runs leaves them out, and the methods of Record of these names
	// fetch them.
	Windows     []Window
	Histograms  []Bin
	HostSamples []Window
	// Warnings are the checks that the run violates.
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
	Start   float64 // seconds from the beginning of the measured window
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

// Warning is a violated check. Package check has the codes.
type Warning struct {
	Code, Message string
}

// Value returns what a metric came to at a source over the measured window, and whether that is known.
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
