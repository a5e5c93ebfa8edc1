package experiment

import (
	"slices"
	"strings"
	"time"
)

// Experiment is what a file describes.
type Experiment struct {
	Name, Title string
	Testbed     string
	// CPUs are the processors that the programs of a role may use; a role without an entry may use all. Roles are those of
	// package testbed: server, middleware, load.
	CPUs map[string][]int
	// Machines are those of the testbed vm, by role; Delay is how long a packet travels from one to another.
	// Dilation is how many seconds pass on this machine while one passes on the emulated ones, at least 1. All times and rates of an
	// experiment are in the time of the emulated machines.
	Machines map[string]Machine
	Delay    time.Duration
	Dilation float64
	// Inventory is the path of the inventory of a testbed over ssh; Kubernetes is how the testbed on a cluster is made.
	Inventory  string
	Kubernetes Kubernetes

	// Systems are the built-in systems and those of the file, by name, but for direct.
	Systems map[string]SystemKind

	Factors []Factor // what varies; empty for a listed design, whose points say it themselves
	Points  []Point
	Order   Order
	Seed    uint64 // of the order and of the load
	Phases  Phases
	// Repetitions is how often each point is measured, unless Stop says when it is enough.
	Repetitions int
	Stop        *Stop
	Quality     *Quality // nil: none is said

	Text []byte // the file as it was
}

var roles = []string{"server", "middleware", "load"}

// Factor is a setting that varies.
type Factor struct {
	Name   string
	Levels []string
}

// Point is one combination of levels.
type Point struct {
	Number int // from 0
	Values Values
	// Varied are the settings whose values differ between points, in the file's order.
	Varied []string
}

// String returns the point's values of the varied settings: "clients=8 workers=16".
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

// Phases are what a run consists of.
type Phases struct {
	// Populate stores every key once before the load.
	Populate bool
	// Restart starts servers and middlewares for every run; else those of the run before are used again if they fit the point.
	Restart  bool
	WarmUp   time.Duration // load that isn't measured
	Duration time.Duration // load that is measured
	CoolDown time.Duration // rest before the next run
}

// overhead estimates the time of starting, connecting and populating, before the first run has been timed.
const overhead = 1500 * time.Millisecond

// RunTime returns about how long a run takes.
func (e *Experiment) RunTime() time.Duration {
	return Dilated(e.Phases.WarmUp+e.Phases.Duration+overhead, e.Dilation) + e.Phases.CoolDown
}

// Dilated returns how long something takes on this machine that takes d on machines of that dilation.
func Dilated(d time.Duration, dilation float64) time.Duration {
	return time.Duration(float64(d) * dilation)
}

// Order says in which order the runs are made.
type Order string

// The orders.
const (
	// Interleaved: every round measures each point once, each round in another random order. What changes slowly on the
	// machine then affects all points alike.
	Interleaved Order = "interleaved"
	// Random: all runs in one random order.
	Random Order = "random"
	// Paired: every round measures the points in the file's order, in which the levels of the last factor are adjacent. Each round begins with
	// another of these levels. Levels that are compared are thus measured within seconds, and each comes first in turn.
	Paired Order = "paired"
	// Listed: the order of the file, with all repetitions of a point in a row.
	Listed Order = "listed"
)

var orders = []string{string(Interleaved), string(Paired), string(Random), string(Listed)}

// Runs returns how many runs there are at least and at most.
func (e *Experiment) Runs() (least, most int) {
	least, most = e.limits()
	points := len(e.Points)
	if e.Quality != nil && e.Quality.GiveUp > 0 {
		points = min(points, e.Quality.GiveUp*len(e.lines()))
	}
	return points * least, len(e.Points) * most
}

// Uses reports whether a setting has that value at any point.
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
			if slices.ContainsFunc(e.Points, func(p Point) bool { return p.Values[s.Name] != e.Points[0].Values[s.Name] }) {
				varied = append(varied, s.Name)
			}
		}
	}
	for i := range e.Points {
		e.Points[i].Varied = varied
	}
}
