package claim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"mcmw/internal/lab/record"
)

// Converges: over the last levels of a factor a metric stays in a range and hardly changes, on every line of the selection.
type Converges struct {
	Selection `yaml:",inline"`
	Metric    string `yaml:"metric"`
	Over      string `yaml:"over"`
	Range     `yaml:",inline"`
	// Last is how many levels, from the highest, 2 if it isn't given; Within how far the greatest of their means may be above the
	// least, as a part of it, 0.05 if it isn't given.
	Last   int     `yaml:"last"`
	Within float64 `yaml:"within"`
}

const (
	defaultLast   = 2
	defaultWithin = 0.05
)

// orDefault returns v, or what stands for none.
func orDefault[T int | float64](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

func (c *Converges) records() []string { return []string{c.Record} }

func (c *Converges) check() error {
	if c.Last < 0 || c.Last == 1 || c.Last > 100 {
		return fmt.Errorf("converges: last %d: expected from 2 to 100 levels", c.Last)
	}
	return first("converges", c.Selection.check(), checkMetric(c.Metric), checkFactor("over", c.Over), c.Range.check(), checkPart("within", orDefault(c.Within, defaultWithin)))
}

// first returns the first error, as one of what.
func first(what string, errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

func (c *Converges) decide(_ context.Context, e *view) (Verdict, string) {
	runs, why := e.runs(c.Selection)
	if why != "" {
		return NotComparable, why
	}
	last, within := orDefault(c.Last, defaultLast), orDefault(c.Within, defaultWithin)
	holds := true
	var texts []string
	var usedRuns []record.Run
	for _, l := range lines(runs, c.Over) {
		if len(l.points) < last {
			return NotComparable, fmt.Sprintf("%s has %d levels of %s; %d are needed", prefix(c.Record, l.name), len(l.points), c.Over, last)
		}
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range l.points[len(l.points)-last:] {
			m, ok := moments(p, c.Metric)
			if !ok {
				return NotComparable, fmt.Sprintf("%s was not measured in %s", c.Metric, c.Record)
			}
			low, high = min(low, m.Mean), max(high, m.Mean)
			usedRuns = append(usedRuns, p.Runs...)
		}
		holds = holds && c.holds(low, high) && high-low <= within*math.Abs(low)
		texts = append(texts, fmt.Sprintf("%s to %s at %s %s", prefix("", l.name)+show(c.Metric)(low), show(c.Metric)(high), c.Over, strings.Join(l.levels[len(l.levels)-last:], ", ")))
	}
	text := fmt.Sprintf("%s; expected %s, within %.3g %%", brief(texts), c.words(show(c.Metric)), 100*within)
	return judge(holds, text, e.exhausted(c.Record, usedRuns))
}

// prefix writes a line's name before something.
func prefix(what, name string) string {
	if name == "" {
		return what
	}
	if what == "" {
		return name + ": "
	}
	return what + " (" + name + ")"
}

// shown is how many of a list are written out.
const shown = 6

// brief joins texts, the first few of many.
func brief(texts []string) string {
	if len(texts) > shown {
		texts = append(slices.Clone(texts[:shown]), fmt.Sprintf("and %d more", len(texts)-shown))
	}
	return strings.Join(texts, "; ")
}

// Saturates: the least level of a factor at which a metric is within a part of its highest mean is in a range, on every line.
type Saturates struct {
	Selection `yaml:",inline"`
	Metric    string `yaml:"metric"`
	Over      string `yaml:"over"`
	Range     `yaml:",inline"`
	// Within is how far below the highest counts as saturated, 0.05 if it isn't given.
	Within float64 `yaml:"within"`
}

func (s *Saturates) records() []string { return []string{s.Record} }

func (s *Saturates) check() error {
	return first("saturates", s.Selection.check(), checkMetric(s.Metric), checkFactor("over", s.Over), s.Range.check(), checkPart("within", orDefault(s.Within, defaultWithin)))
}

func (s *Saturates) decide(_ context.Context, e *view) (Verdict, string) {
	runs, why := e.runs(s.Selection)
	if why != "" {
		return NotComparable, why
	}
	within := orDefault(s.Within, defaultWithin)
	holds := true
	var texts []string
	for _, l := range lines(runs, s.Over) {
		at, text, why := s.knee(l, within)
		if why != "" {
			return NotComparable, why
		}
		holds = holds && s.holds(at, at)
		texts = append(texts, prefix("", l.name)+text)
	}
	text := fmt.Sprintf("%s; expected %s %s", brief(texts), s.Over, s.words(func(v float64) string { return fmt.Sprint(v) }))
	return judge(holds, text, e.exhausted(s.Record, runs))
}

// knee returns the level from which a line is saturated.
func (s *Saturates) knee(l line, within float64) (at float64, text, why string) {
	means := make([]float64, len(l.points))
	for i, p := range l.points {
		m, ok := moments(p, s.Metric)
		if !ok {
			return 0, "", fmt.Sprintf("%s was not measured in %s", s.Metric, s.Record)
		}
		means[i] = m.Mean
	}
	highest := slices.Max(means)
	i := slices.IndexFunc(means, func(v float64) bool { return v >= (1-within)*highest })
	at, ok := l.points[i].Runs[0].Number(s.Over)
	if !ok {
		return 0, "", fmt.Sprintf("the level %q of %s is no number", l.levels[i], s.Over)
	}
	if len(means) < 2 {
		return 0, "", fmt.Sprintf("%s has one level of %s; two are needed", prefix(s.Record, l.name), s.Over)
	}
	return at, fmt.Sprintf("saturated from %s %s, %s of %s at most", s.Over, l.levels[i], show(s.Metric)(means[i]), show(s.Metric)(highest)), ""
}
