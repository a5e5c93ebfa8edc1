package report

import (
	"fmt"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Near is the part of the highest throughput by which a throughput may be lower and still count as near it: 6 %. With
// it the rule finds the points of saturation that the 2018 report chose by eye for 8, 16, 32 and 64 workers in its
// section 4.2 (48, 72, 96 and 144 clients, table 5).
const Near = 0.06

// Saturation describes where the throughput of a line stops growing. The means decide where that is. The confidence
// intervals decide whether it is significant: points with overlapping intervals cannot be told apart.
type Saturation struct {
	Index   int // of the point of saturation in Line.Points; -1: no throughput is known
	Highest int // of the point with the highest throughput
	// From is the first point whose interval overlaps that of the highest throughput. If it is before Index, the line
	// may saturate anywhere between them.
	From int
	// Single: some points have one repetition, and so no interval. Whether the result is significant is then unknown.
	Single bool
	// Growing: the point of saturation is the last point, and its throughput is more than Near above that of the point
	// before. The maximum may be beyond.
	Growing bool
	// Falling: at the highest load the throughput is lower than the highest by more than Near: the system is
	// over-saturated there. Unsure: only the means say so; the intervals overlap.
	Falling, Unsure bool
	// Bottleneck is the bottleneck at the point with the highest throughput. At the point of saturation, which comes
	// earlier, the limiting component is not yet fully used.
	Bottleneck Bottleneck
}

// saturate finds the point of saturation of a line: the least load whose throughput is near the highest of the line.
// Beyond it more load increases the response time, and hardly the throughput.
func saturate(points []frame.Point, v View) Saturation {
	s := Saturation{Index: -1, Highest: -1}
	x := make([]sample.Estimate, len(points))
	for i, p := range points {
		if x[i] = v.throughput(p); x[i].OK() && (s.Highest < 0 || x[i].Mean > x[s.Highest].Mean) {
			s.Highest = i
		}
		s.Single = s.Single || x[i].N == 1
	}
	if s.Highest < 0 {
		return s
	}
	for i := len(x) - 1; i >= 0; i-- {
		if x[i].OK() && x[i].Mean >= (1-Near)*x[s.Highest].Mean {
			s.Index = i
		}
	}
	s.From = s.Index
	for i := s.Index - 1; i >= 0; i-- {
		if overlap(x[i], x[s.Highest]) {
			s.From = i
		}
	}
	last := len(x) - 1
	s.Growing = s.Index == last && (last == 0 || x[last].Mean > x[last-1].Mean*(1+Near))
	if x[last].OK() && x[last].Mean < (1-Near)*x[s.Highest].Mean {
		s.Unsure = overlap(x[last], x[s.Highest])
		s.Falling = !s.Unsure
	}
	return s
}

// overlap reports whether the intervals of two means overlap. Single runs have no interval.
func overlap(a, b sample.Estimate) bool {
	return a.Known() && b.Known() && a.Overlaps(b.Interval)
}

// saturated returns the point of saturation, if any.
func (l Line) saturated() []frame.Point {
	if l.Index < 0 {
		return nil
	}
	return l.Points[l.Index : l.Index+1]
}

// Words says where the line saturates, and how that was decided.
func (l Line) Words(v View) string {
	if l.Index < 0 {
		return "no throughput was measured"
	}
	p, highest, first := l.Points[l.Index], l.Points[l.Highest], l.Points[l.From]
	rate := func(p frame.Point) string { return plot.OpsPerSecond.Format(v.throughput(p).Mean) }
	level := func(p frame.Point) string { return fmt.Sprintf("%s = %s", label(v.X), p.Levels[v.X]) }
	at := "at the only point"
	if v.X != "" {
		at = "at " + level(p)
	}
	_, load := p.Number(v.X)
	switch {
	case len(l.Points) == 1:
		return fmt.Sprintf("%s %s; one load was measured, which does not show saturation", rate(p), at)
	case !load:
		return fmt.Sprintf("the highest throughput is %s, at %s", rate(highest), level(highest))
	case l.From < l.Index:
		unknown, falls := "where it saturates", l.falls()
		if l.Unsure {
			unknown, falls = "where it saturates, and whether the throughput falls at the highest load,", ""
		}
		return fmt.Sprintf("%s can't be told: from %s on, the confidence intervals of the throughput overlap (%s "+
			"there, %s at %s)", unknown, level(first),
			shownAs(v.throughput(first), plot.OpsPerSecond), shownAs(v.throughput(p), plot.OpsPerSecond),
			p.Levels[v.X]) + falls + l.chance()
	case l.Growing:
		return fmt.Sprintf("not saturated: the throughput still grew by more than %.0f %% up to the highest load, "+
			"%s %s", 100*Near, rate(p), at) + l.chance()
	}
	text := fmt.Sprintf("saturated %s (%s), the least load within %.0f %% of the highest throughput", at, rate(p),
		100*Near)
	if l.Highest != l.Index {
		text += fmt.Sprintf(" (%s at %s)", rate(highest), highest.Levels[v.X])
	}
	return text + l.falls() + l.chance()
}

// falls says whether the throughput falls at the highest load.
func (s Saturation) falls() string {
	switch {
	case s.Falling:
		return "; over-saturated at the highest load: the throughput falls"
	case s.Unsure:
		return "; whether the throughput falls at the highest load can't be told, because the confidence intervals " +
			"overlap"
	}
	return ""
}

// chance warns of points without an interval.
func (s Saturation) chance() string {
	if !s.Single {
		return ""
	}
	return "; some loads were measured in a single run, so this may be chance"
}

// client returns the estimate of a metric at the clients, or in the middlewares if the clients did not measure it.
func (v View) client(p frame.Point, metric string) sample.Estimate {
	if e := p.Estimate(record.SourceClient, v.metric(metric)); e.OK() {
		return e
	}
	return p.Estimate(record.SourceMiddleware, v.metric(metric))
}

func (v View) throughput(p frame.Point) sample.Estimate { return v.client(p, "throughput") }
