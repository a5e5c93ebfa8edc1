package claim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Converges requires, on every line of the selection, that a metric stays in a range and hardly changes over the last levels of a factor.
type Converges struct {
	Selection `yaml:",inline"`
	Metric    string `yaml:"metric"`
	Over      string `yaml:"over"`
	Range     `yaml:",inline"`
	// Last is the number of highest levels that count; 0: 2. Within is the largest relative difference of their means; 0: 0.05.
	Last   int     `yaml:"last"`
	Within float64 `yaml:"within"`
}

const (
	defaultLast   = 2
	defaultWithin = 0.05
)

func (c *Converges) check() error {
	if c.Last < 0 || c.Last == 1 || c.Last > 100 {
		return fmt.Errorf("converges: last %d: expected from 2 to 100 levels", c.Last)
	}
	return first("converges", c.Selection.check(), checkMetric(c.Metric), checkFactor("over", c.Over), c.Range.check(), checkPart("within", cmp.Or(c.Within, defaultWithin)))
}

// first returns the first error, if any, with the kind of the rule.
func first(kind string, errs ...error) error {
	if err := cmp.Or(errs...); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

func (c *Converges) decide(e *view) (Verdict, string) {
	runs, why := e.runs(c.Selection)
	if why != "" {
		return NotComparable, why
	}
	last, within := cmp.Or(c.Last, defaultLast), cmp.Or(c.Within, defaultWithin)
	verdict := Confirmed
	var texts []string
	var usedRuns []record.Run
	for _, l := range lines(runs, c.Over) {
		if len(l.Points) < last {
			return NotComparable, fmt.Sprintf("%s has %d levels of %s; %d are needed", named(c.Record, l.Name()), len(l.Points), c.Over, last)
		}
		var least, most sample.Estimate
		var levels []string
		for _, p := range l.Points[len(l.Points)-last:] {
			m, ok := estimate(p, c.Metric)
			if !ok {
				return NotComparable, fmt.Sprintf("%s was not measured in %s", c.Metric, c.Record)
			}
			verdict = weightier(verdict, c.covers(m.Interval))
			if !least.OK() || m.Mean < least.Mean {
				least = m
			}
			if !most.OK() || m.Mean > most.Mean {
				most = m
			}
			usedRuns, levels = append(usedRuns, p.Runs...), append(levels, p.Levels[c.Over])
		}
		if most.Mean-least.Mean > within*math.Abs(least.Mean) {
			verdict = weightier(verdict, apart(least, most))
		}
		texts = append(texts, fmt.Sprintf("%s%s to %s at %s %s", prefix(l), shown(c.Metric, least), shown(c.Metric, most), c.Over, strings.Join(levels, ", ")))
	}
	text := fmt.Sprintf("%s; expected %s, within %.3g %%", brief(texts), c.words(show(c.Metric)), 100*within)
	return judge(verdict, text, e.exhausted(c.Record, usedRuns))
}

// apart returns Refuted if the confidence intervals of two means don't overlap, else Undecided.
func apart(a, b sample.Estimate) Verdict {
	if a.Overlaps(b.Interval) {
		return Undecided
	}
	return Refuted
}

// named returns a record's name with that of a line.
func named(record, line string) string {
	if line == "" {
		return record
	}
	return record + " (" + line + ")"
}

// listed is the largest number of texts that brief shows.
const listed = 6

// brief joins the first few texts.
func brief(texts []string) string {
	if len(texts) > listed {
		texts = append(slices.Clone(texts[:listed]), fmt.Sprintf("and %d more", len(texts)-listed))
	}
	return strings.Join(texts, "; ")
}

// Saturates requires, on every line, that the least level of a factor at which a metric is close to its highest mean is in a range. That
// level lies between the first measured level at which the metric is close and the level before.
type Saturates struct {
	Selection `yaml:",inline"`
	Metric    string `yaml:"metric"`
	Over      string `yaml:"over"`
	Range     `yaml:",inline"`
	// Within is the largest relative difference from the highest mean that counts as close; 0: 0.05.
	Within float64 `yaml:"within"`
}

func (s *Saturates) check() error {
	return first("saturates", s.Selection.check(), checkMetric(s.Metric), checkFactor("over", s.Over), s.Range.check(), checkPart("within", cmp.Or(s.Within, defaultWithin)))
}

func (s *Saturates) decide(e *view) (Verdict, string) {
	runs, why := e.runs(s.Selection)
	if why != "" {
		return NotComparable, why
	}
	within := cmp.Or(s.Within, defaultWithin)
	verdict := Confirmed
	var texts []string
	for _, l := range lines(runs, s.Over) {
		at, text, why := s.knee(l, within)
		if why != "" {
			return NotComparable, why
		}
		verdict = weightier(verdict, s.between(at))
		texts = append(texts, prefix(l)+text)
	}
	text := fmt.Sprintf("%s; expected %s %s", brief(texts), s.Over, s.words(func(v float64) string { return fmt.Sprint(v) }))
	return judge(verdict, text, e.exhausted(s.Record, runs))
}

// between decides whether the range contains the level of saturation, which is above the interval's low end and at most its high end.
func (s *Saturates) between(at sample.Interval) Verdict {
	switch {
	case s.Low != nil && at.High < *s.Low, s.High != nil && at.Low >= *s.High:
		return Refuted
	case s.High != nil && at.High > *s.High, s.Low != nil && at.High > *s.Low && at.Low < *s.Low && !math.IsInf(at.Low, -1):
		return Undecided
	}
	return Confirmed
}

// knee returns the interval of levels in which a line becomes saturated: above the low end, and at most at the high end. Levels with intervals
// that overlap that of the highest mean may already be saturated.
func (s *Saturates) knee(l frame.Line, within float64) (at sample.Interval, text, why string) {
	means := make([]sample.Estimate, len(l.Points))
	highest := 0
	for i, p := range l.Points {
		m, ok := estimate(p, s.Metric)
		if !ok {
			return at, "", fmt.Sprintf("%s was not measured in %s", s.Metric, s.Record)
		}
		if means[i] = m; m.Mean > means[highest].Mean {
			highest = i
		}
	}
	if len(means) < 2 {
		return at, "", fmt.Sprintf("%s has one level of %s; two are needed", named(s.Record, l.Name()), s.Over)
	}
	saturated := slices.IndexFunc(means, func(m sample.Estimate) bool { return m.Mean >= (1-within)*means[highest].Mean })
	before := slices.IndexFunc(means, func(m sample.Estimate) bool { return m.N > 1 && apart(m, means[highest]) == Undecided })
	if before < 0 || before > saturated {
		before = saturated
	}
	at = sample.Interval{Low: math.Inf(-1)}
	for i, end := range []*float64{&at.Low, &at.High} {
		level := []int{before - 1, saturated}[i]
		if level < 0 {
			continue
		}
		number, ok := l.Points[level].Runs[0].Number(s.Over)
		if !ok {
			return at, "", fmt.Sprintf("the level %q of %s is not a number", l.Points[level].Levels[s.Over], s.Over)
		}
		*end = number
	}
	text = fmt.Sprintf("saturated from %s %s, %s of %s at most", s.Over, l.Points[saturated].Levels[s.Over], shown(s.Metric, means[saturated]), shown(s.Metric, means[highest]))
	if before > 0 {
		text += fmt.Sprintf(", surely not at %s", l.Points[before-1].Levels[s.Over])
	}
	return at, text, ""
}
