package experiment

import (
	"slices"
	"strings"
	"time"
)

// Experiment is the content of an experiment file.
type Experiment struct {
	Name, Title string
	Testbed     string // its kind
	// CPUs has the processors that the programs of a role can use; a role without an entry can use all. Roles are those
	// of package testbed: server, middleware, load.
	CPUs map[string][]int
	// Machines are those of the testbed vm, by role. Delay is the travel time of a packet from one machine to another.
	// Dilation is the number of real seconds in one second of the emulated machines, at least 1. All times and rates of
	// an experiment are in the time of the emulated machines.
	Machines map[string]Machine
	Delay    time.Duration
	Dilation float64
	// Inventory is the path of the inventory for the testbed ssh. Kubernetes configures the testbed on a cluster.
	Inventory  string
	Kubernetes Kubernetes

	// Systems has the built-in systems, except direct, and those of the file, by name.
	Systems map[string]SystemKind

	Factors []Factor // the varying settings; empty for a listed design
	Points  []Point
	Order   Order
	Seed    uint64 // of the order and of the load
	Phases  Phases
	// Repetitions is the number of runs of each point, if there is no stop rule.
	Repetitions int
	Stop        *Stop
	Quality     *Quality // nil if the file has none

	Text []byte   // the unchanged file
	Set  []string // the settings by which it was changed before it was read; see Set
}

var roles = []string{"server", "middleware", "load"}

// Factor is a varying setting.
type Factor struct {
	Name   string
	Levels []string
}

// Point is one combination of levels.
type Point struct {
	Number int // from 0
	Values Values
	// Varied has the settings whose values differ between points, in the file's order.
	Varied []string
}

// String returns the values of the varied settings: "clients=8 workers=16".
func (p Point) String() string {
	if len(p.Varied) == 0 {
		return "the only point"
	}
	parts := make([]string, len(p.Varied))
	for i, name := range p.Varied {
		parts[i] = name + "=" + p.Values[name]
	}
	return strings.Join(parts, " ")
}

// Phases are the phases of a run.
type Phases struct {
	// Populate stores every key once before the load.
	Populate bool
	// Restart starts servers and middlewares for every run. Otherwise those of the previous run are reused if they fit
	// the point.
	Restart  bool
	WarmUp   time.Duration // load that isn't measured
	Duration time.Duration // load that is measured
	CoolDown time.Duration // pause before the next run
	// ForeignLoad is how much of the processor time in use may be others'; a run with more is made again. 0: any.
	ForeignLoad float64
}

// overhead is the estimated time for starting and connecting, used until the first run has ended. It is real time: what
// programs do then is not slowed down.
const overhead = 1500 * time.Millisecond

// RunTime returns the approximate length of a run in real time.
func (e *Experiment) RunTime() time.Duration {
	return Dilated(e.Phases.WarmUp+e.Phases.Duration+e.populateTime(), e.Dilation) + overhead + e.Phases.CoolDown
}

// storedAtOnce is the number of keys that package load stores at the same time through a middleware.
const storedAtOnce = 16

// populateTime returns the approximate time for which the sets of all keys travel to the server and back, in the mean
// of the points. Without a middleware many are under way at once.
func (e *Experiment) populateTime() (mean time.Duration) {
	if !e.Phases.Populate {
		return 0
	}
	for _, p := range e.Points {
		if p.Values.Int(Middlewares) > 0 {
			trips := float64(p.Values.Int(Keys)) / storedAtOnce / float64(len(e.Points))
			mean += time.Duration(min(trips*2*float64(e.Delay), float64(maxTime)/float64(len(e.Points))))
		}
	}
	return mean
}

// Dilated converts a time on machines with a dilation to real time.
func Dilated(d time.Duration, dilation float64) time.Duration {
	return time.Duration(float64(d) * dilation)
}

// Order is the order of the runs.
type Order string

// The orders.
const (
	// Interleaved: every round measures each point once, each round in another random order. Slow changes of the
	// machine then affect all points alike.
	Interleaved Order = "interleaved"
	// Random: all runs in one random order.
	Random Order = "random"
	// Paired: every round measures the points in the file's order, in which the levels of the last factor are adjacent.
	// Each round begins with another of these levels, so that each comes first in turn. The levels of the last factor
	// are thus measured within seconds.
	Paired Order = "paired"
	// Listed: the file's order, all repetitions of a point in a row.
	Listed Order = "listed"
)

var orders = []string{string(Interleaved), string(Paired), string(Random), string(Listed)}

// Runs returns the least and the largest possible number of runs.
func (e *Experiment) Runs() (least, most int) {
	least, most = e.limits()
	points := len(e.Points)
	if e.Quality != nil && e.Quality.GiveUp > 0 {
		points = min(points, e.Quality.GiveUp*len(e.lines()))
	}
	return points * least, len(e.Points) * most
}

// Uses reports whether a setting has a value at any point.
func (e *Experiment) Uses(name, value string) bool {
	return slices.ContainsFunc(e.Points, func(p Point) bool { return p.Values[name] == value })
}

func (e *Experiment) setVaried() {
	var varied []string
	for _, f := range e.Factors {
		varied = append(varied, f.Name)
	}
	if len(e.Factors) == 0 && len(e.Points) > 0 {
		for _, s := range Settings {
			if slices.ContainsFunc(e.Points,
				func(p Point) bool { return p.Values[s.Name] != e.Points[0].Values[s.Name] }) {
				varied = append(varied, s.Name)
			}
		}
	}
	for i := range e.Points {
		e.Points[i].Varied = varied
	}
}
