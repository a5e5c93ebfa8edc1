package report

import (
	"fmt"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
)

// Near is how much less than the highest throughput counts as having reached it: 6 %. With it the rule finds the points of saturation
// that the 2018 report chose by eye for 8, 16, 32 and 64 workers in its section 4.2 (48, 72, 96 and 144 clients, table 5).
const Near = 0.06

// Saturation is where a line's throughput stops growing. The means decide where it is; the confidence intervals decide whether that is significant:
// overlapping intervals don't distinguish points.
type Saturation struct {
	Line    Line
	Index   int // of the point of saturation in Line.Points; -1: no throughput is known
	Highest int // of the point with the highest throughput
	// From is the first point whose interval overlaps that of the highest throughput. If it is before Index, the line may saturate anywhere
	// between them.
	From int
	// Single: some points have one repetition, and so no interval. Significance is then unknown.
	Single bool
	// Growing: it is the last point, and its throughput is more than Near above that of the one before; the maximum
	// may lie beyond.
	Growing bool
	// Falling: after the highest throughput it falls by more than Near: the system is over-saturated there. Unsure: it does so by the
	// means alone.
	Falling, Unsure bool
	Throughput      Estimate // at the point
	// Bottleneck is what limits the point with the highest throughput: at the point of saturation, which comes earlier, what limits is
	// not yet used up.
	Bottleneck Bottleneck
}

// saturate finds the point of saturation of a line by its throughput at a source: the least load at which the throughput is within
// Near of the highest of the line. Beyond it more load brings a longer response time and hardly more throughput.
func saturate(l Line, source, metric string) Saturation {
	s := Saturation{Line: l, Index: -1, Highest: -1}
	x := make([]Estimate, len(l.Points))
	for i, p := range l.Points {
		if x[i] = p.Estimate(source, metric); x[i].OK() && (s.Highest < 0 || x[i].Mean > x[s.Highest].Mean) {
			s.Highest = i
		}
		s.Single = s.Single || x[i].N == 1
	}
	if s.Highest < 0 {
		return s
	}
	for i := range x {
		if x[i].OK() && x[i].Mean >= (1-Near)*x[s.Highest].Mean {
			s.Index, s.Throughput = i, x[i]
			break
		}
	}
	s.From = s.Index
	for i := range x[:s.Index] {
		if x[i].OK() && alike(x[i], x[s.Highest]) {
			s.From = i
			break
		}
	}
	last := len(x) - 1
	s.Growing = s.Index == last && (last == 0 || x[last].Mean > x[last-1].Mean*(1+Near))
	if x[last].OK() && x[last].Mean < (1-Near)*x[s.Highest].Mean {
		s.Unsure = alike(x[last], x[s.Highest])
		s.Falling = !s.Unsure
	}
	return s
}

// alike reports whether intervals can't tell two means apart. Single runs have none, and nothing is said of them.
func alike(a, b Estimate) bool {
	return a.Interval.Known() && b.Interval.Known() && a.Interval.Overlaps(b.Interval)
}

// Told reports whether the point of saturation is significant: it is the first whose interval overlaps that of the highest throughput.
func (s Saturation) Told() bool { return s.Index >= 0 && s.From == s.Index && !s.Growing }

// Point returns the point of saturation.
func (s Saturation) Point() (Point, bool) {
	if s.Index < 0 {
		return Point{}, false
	}
	return s.Line.Points[s.Index], true
}

// Words describes where the line saturates, and how that was decided.
func (s Saturation) Words(v View) string {
	p, ok := s.Point()
	if !ok {
		return "no throughput was measured"
	}
	at := "at the only point"
	if v.X != "" {
		at = fmt.Sprintf("at %s = %s", label(v.X), p.Levels[v.X])
	}
	reached := plot.OpsPerSecond.Format(s.Throughput.Mean)
	if len(s.Line.Points) == 1 {
		return fmt.Sprintf("%s %s; one load was measured, so nothing can be said about saturation", reached, at)
	}
	if _, load := p.Number(v.X); !load {
		highest := s.Line.Points[s.Highest]
		return fmt.Sprintf("the highest throughput is %s, at %s = %s", plot.OpsPerSecond.Format(highest.Estimate(v.throughputSource(highest), v.metric("throughput")).Mean), label(v.X), highest.Levels[v.X])
	}
	if s.From < s.Index {
		first := s.Line.Points[s.From]
		what, falls := "where it saturates", s.falls()
		if s.Unsure {
			what, falls = "where it saturates, and whether it falls at the highest load,", ""
		}
		return fmt.Sprintf("%s can't be told: from %s = %s on the throughput's confidence intervals overlap (%s there, %s at %s)",
			what, label(v.X), first.Levels[v.X], shownAs(first.Estimate(v.throughputSource(first), v.metric("throughput")), plot.OpsPerSecond),
			shownAs(s.Throughput, plot.OpsPerSecond), p.Levels[v.X]) + falls + s.chance()
	}
	if s.Growing {
		return fmt.Sprintf("not saturated: the throughput still grew by more than %.0f %% up to the highest load, %s %s", 100*Near, reached, at) + s.chance()
	}
	text := fmt.Sprintf("saturated %s (%s), the least load within %.0f %% of the highest throughput", at, reached, 100*Near)
	if s.Highest != s.Index {
		highest := s.Line.Points[s.Highest]
		text += fmt.Sprintf(" (%s at %s)", plot.OpsPerSecond.Format(highest.Estimate(v.throughputSource(highest), v.metric("throughput")).Mean), highest.Levels[v.X])
	}
	return text + s.falls() + s.chance()
}

// falls says what becomes of the throughput at the highest load.
func (s Saturation) falls() string {
	switch {
	case s.Falling:
		return "; over-saturated at the highest load: the throughput falls"
	case s.Unsure:
		return "; whether the throughput falls at the highest load can't be told, as the confidence intervals overlap"
	}
	return ""
}

// chance says what is missing to tell the line's course from chance.
func (s Saturation) chance() string {
	if !s.Single {
		return ""
	}
	return "; by single runs, which can't be told from chance"
}

// throughputSource returns the source of the throughput: the clients, or the middlewares where the clients did not.
func (v View) throughputSource(p Point) string {
	if p.Estimate(record.SourceClient, v.metric("throughput")).OK() {
		return record.SourceClient
	}
	return record.SourceMiddleware
}
