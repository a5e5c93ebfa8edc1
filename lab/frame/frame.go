// Package frame has the runs of a record grouped by point, with which every analysis starts, and the interactive
// response time law.
package frame

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Frame has the runs of a record, grouped by the levels of their factors.
type Frame struct{ Points []Point }

// Point is one combination of factor levels with its runs, in the order of their repetitions.
type Point struct {
	Levels     map[string]string
	Runs       []record.Run // complete ones
	Failed     []record.Run
	Confidence float64 // of the intervals of estimates, such as 0.95
}

// Of groups runs by the levels of all factors, in the order of the runs.
func Of(runs []record.Run, confidence float64) Frame {
	return group(runs, confidence, func(levels map[string]string) map[string]string { return levels })
}

// By groups runs by the levels of some factors. Points have no other levels.
func By(runs []record.Run, factors []string, confidence float64) Frame {
	return group(runs, confidence, func(levels map[string]string) map[string]string { return only(levels, factors) })
}

func group(runs []record.Run, confidence float64, key func(map[string]string) map[string]string) (f Frame) {
	places := map[string]int{}
	for _, run := range runs {
		levels := key(run.Factors)
		label := record.Label(levels, slices.Sorted(maps.Keys(levels)))
		i, ok := places[label]
		if !ok {
			i = len(f.Points)
			places[label] = i
			f.Points = append(f.Points, Point{Levels: levels, Confidence: confidence})
		}
		if p := &f.Points[i]; run.State == record.Complete {
			p.Runs = append(p.Runs, run)
		} else {
			p.Failed = append(p.Failed, run)
		}
	}
	return f
}

// only returns the levels of some factors.
func only(levels map[string]string, factors []string) map[string]string {
	levels = maps.Clone(levels)
	maps.DeleteFunc(levels, func(name, _ string) bool { return !slices.Contains(factors, name) })
	return levels
}

// Runs returns the complete runs.
func (f Frame) Runs() (runs []record.Run) {
	for _, p := range f.Points {
		runs = append(runs, p.Runs...)
	}
	return runs
}

// Tried returns the complete runs, and the failed ones of points that have no others.
func (f Frame) Tried() (runs []record.Run) {
	for _, p := range f.Points {
		if runs = append(runs, p.Runs...); len(p.Runs) == 0 {
			runs = append(runs, p.Failed...)
		}
	}
	return runs
}

// Factors returns the names of all factors, sorted.
func (f Frame) Factors() []string {
	seen := map[string]bool{}
	for _, p := range f.Points {
		for name := range p.Levels {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Levels returns the levels of a factor, in their order. A point without the factor has the level "".
func (f Frame) Levels(factor string) []string {
	seen := map[string]bool{}
	for _, p := range f.Points {
		seen[p.Levels[factor]] = true
	}
	return slices.SortedFunc(maps.Keys(seen), record.CompareLevels)
}

// Where returns the points that have some levels. It returns an error for a factor or a level that no point has.
func (f Frame) Where(levels map[string]string) (Frame, error) {
	for _, factor := range slices.Sorted(maps.Keys(levels)) {
		if names := f.Factors(); !slices.Contains(names, factor) {
			return f, fmt.Errorf("there is no factor %q: expected one of %s", factor, strings.Join(names, ", "))
		}
		all := slices.DeleteFunc(f.Levels(factor), func(level string) bool { return level == "" })
		if !slices.Contains(all, levels[factor]) {
			return f, fmt.Errorf("factor %s has no level %q: expected one of %s", factor, levels[factor],
				strings.Join(all, ", "))
		}
	}
	return Frame{slices.DeleteFunc(slices.Clone(f.Points), func(p Point) bool { return !p.Has(levels) })}, nil
}

// Line has the points with the same levels of some factors, by ascending level of another one.
type Line struct {
	Levels map[string]string // of those factors
	Points []Point
}

// Name returns the line's levels as text: "depth=1, workers=64".
func (l Line) Name() string { return record.Label(l.Levels, slices.Sorted(maps.Keys(l.Levels))) }

// Lines groups the points by the levels of some factors, by which the lines are ordered. over is the factor that varies
// on a line.
func (f Frame) Lines(over string, by []string) (lines []Line) {
	places := map[string]int{}
	for _, p := range f.Points {
		label := record.Label(p.Levels, by)
		i, ok := places[label]
		if !ok {
			i = len(lines)
			places[label] = i
			lines = append(lines, Line{Levels: only(p.Levels, by)})
		}
		lines[i].Points = append(lines[i].Points, p)
	}
	for _, l := range lines {
		slices.SortStableFunc(l.Points,
			func(a, b Point) int { return record.CompareLevels(a.Levels[over], b.Levels[over]) })
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return Compare(a.Levels, b.Levels, by) })
	return lines
}

// Compare orders by the levels of factors, of which the first counts most.
func Compare(a, b map[string]string, factors []string) (order int) {
	for _, factor := range factors {
		order = cmp.Or(order, record.CompareLevels(a[factor], b[factor]))
	}
	return order
}

// Has reports whether the point has these levels.
func (p Point) Has(levels map[string]string) bool { return record.HasLevels(p.Levels, levels) }

// Number returns the level of a factor as a number, in base units.
func (p Point) Number(factor string) (float64, bool) { return record.Level(p.Levels[factor]).Number() }

// Warned returns the number of violated checks of the runs, failed ones included.
func (p Point) Warned() (n int) {
	for _, run := range slices.Concat(p.Runs, p.Failed) {
		n += len(run.Warnings)
	}
	return n
}

// Values returns the values of a metric at a source in the runs that have it.
func (p Point) Values(source, metric string) []float64 {
	return p.values(func(r record.Run) (float64, bool) { return r.Value(source, metric) })
}

// Estimate returns the mean of a metric at a source.
func (p Point) Estimate(source, metric string) sample.Estimate {
	return sample.Of(p.Values(source, metric)).Estimate(p.Confidence)
}

// Derive returns the mean of the values that f computes from the runs; runs without a value do not count.
func (p Point) Derive(f func(record.Run) (float64, bool)) sample.Estimate {
	return sample.Of(p.values(f)).Estimate(p.Confidence)
}

// PairedRatio returns the ratio of a value of p to that of another point, over the pairs of runs of one repetition that
// have it.
func (p Point) PairedRatio(to Point, value func(record.Run) (float64, bool), confidence float64) sample.Estimate {
	var of, base []float64
	for _, run := range p.Runs {
		for _, other := range to.Runs {
			x, ok := value(run)
			y, ok2 := value(other)
			if run.Repetition == other.Repetition && ok && ok2 {
				of, base = append(of, x), append(base, y)
			}
		}
	}
	return sample.PairedRatio(of, base, confidence)
}

func (p Point) values(f func(record.Run) (float64, bool)) (values []float64) {
	for _, run := range p.Runs {
		if v, ok := f(run); ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	return values
}

// Metric is a metric at a source.
type Metric struct{ Source, Name string }

// Of returns the value of the metric in a run.
func (m Metric) Of(run record.Run) (float64, bool) { return run.Value(m.Source, m.Name) }

// ParseMetric reads SOURCE.METRIC, such as server:a.throughput, or METRIC of a source. The names of metrics have no
// dot. It returns an error, too, for an unknown metric and without a source.
func ParseMetric(text, source string) (m Metric, err error) {
	m = Metric{source, text}
	if i := strings.LastIndexByte(text, '.'); i >= 0 {
		m = Metric{text[:i], text[i+1:]}
	}
	if _, known := record.Describe(m.Name); !known || m.Source == "" {
		err = fmt.Errorf("%.60q: expected a source and a metric such as client.response_time_p99", text)
	}
	return m, err
}

// Loop is a closed loop: N is the number of requests that the clients keep outstanding or think about, Z the time
// between a reply and the next request, in seconds. The interactive response time law holds for it: X = N/(R + Z), R =
// N/X - Z (Jain, "The Art of Computer Systems Performance Analysis", section 33.4).
type Loop struct{ N, Z float64 }

// LoopOf returns the loop of a run with the think time of the clients as Z; false for an open loop, which has no N, or
// if N is unknown.
func LoopOf(run record.Run) (l Loop, ok bool) {
	n, ok := run.Number("clients")
	if OpenLoop(run) || !ok {
		return l, false
	}
	if pipeline, ok := run.Number("pipeline"); ok {
		n *= pipeline
	}
	z, ok := run.Value(record.SourceClient, "think_time_mean")
	if !ok {
		z, _ = run.Number("think_time")
	}
	return Loop{n, z}, n > 0
}

// OpenLoop reports whether requests were sent by a schedule.
func OpenLoop(run record.Run) bool {
	rate, ok := run.Factors["rate"]
	return ok && rate != "" && rate != "0" && rate != "closed"
}

// Throughput returns X for a response time.
func (l Loop) Throughput(r float64) float64 { return l.N / (r + l.Z) }

// ResponseTime returns R for a throughput.
func (l Loop) ResponseTime(x float64) float64 { return l.N/x - l.Z }

// ByLaw returns the response time by the law with the throughput of a source, and the one that the clients measured;
// false for an open loop, or if a value was not measured.
func ByLaw(run record.Run, source string) (predicted, measured float64, ok bool) {
	l, closed := LoopOf(run)
	x, okX := run.Value(source, "throughput")
	measured, okR := run.Value(record.SourceClient, "response_time_mean")
	return l.ResponseTime(x), measured, closed && okX && okR && x > 0 && measured > 0
}
