package claim

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"mcmw/internal/lab/record"
	"mcmw/internal/lab/sample"
)

// Compare: the ratio of a metric at one point to that at another is in a range, and so is its confidence interval.
type Compare struct {
	Metric string `yaml:"metric"`
	Of     Side   `yaml:"of"`
	To     Side   `yaml:"to"`
	Range  `yaml:",inline"`
	// Confidence is that of the interval, 0.95 if it isn't given.
	Confidence float64 `yaml:"confidence"`
}

// Side is a point: the only one of its selection, or the one with the highest throughput of the clients.
type Side struct {
	Selection `yaml:",inline"`
	// Highest says that the selection has several points, of which the one with the highest throughput is meant.
	Highest bool `yaml:"highest"`
}

const defaultConfidence = 0.95

func (c *Compare) records() []string { return []string{c.Of.Record, c.To.Record} }

func (c *Compare) check() error {
	return first("compare", checkMetric(c.Metric), c.Of.check(), c.To.check(), c.Range.check(), checkPart("confidence", cmp.Or(c.Confidence, defaultConfidence)))
}

func (c *Compare) decide(_ context.Context, e *view) (Verdict, string) {
	of, ofRuns, ofName, why := c.Of.point(e)
	if why != "" {
		return NotComparable, why
	}
	to, toRuns, toName, why := c.To.point(e)
	if why != "" {
		return NotComparable, why
	}
	a, okA := moments(of, c.Metric)
	b, okB := moments(to, c.Metric)
	if !okA || !okB || b.Mean == 0 {
		return NotComparable, fmt.Sprintf("%s was not measured at %s or %s", c.Metric, ofName, toName)
	}
	write := show(c.Metric)
	text := fmt.Sprintf("%s at %s to %s at %s: ratio %.3g", write(a.Mean), ofName, write(b.Mean), toName, a.Mean/b.Mean)
	interval := sample.RatioInterval(b, a, cmp.Or(c.Confidence, defaultConfidence))
	if !interval.Known() {
		return Undecided, text + ", without bounds: more repetitions are needed"
	}
	text += fmt.Sprintf(" (%.3g to %.3g at %.0f %%); expected %s", interval.Low, interval.High, 100*cmp.Or(c.Confidence, defaultConfidence),
		c.words(func(v float64) string { return fmt.Sprintf("%.3g", v) }))
	if capped := c.capped(e, of, to); capped != "" {
		return NotComparable, text + "; " + capped
	}
	ofExhausted, toExhausted := e.exhausted(c.Of.Record, ofRuns), e.exhausted(c.To.Record, toRuns)
	if verdict := c.allTheMore(interval, ofExhausted != "", toExhausted != ""); verdict != "" {
		return verdict, text + ", all the more as " + ofExhausted + toExhausted
	}
	return judge(c.covers(interval), text, ofExhausted, toExhausted)
}

// allTheMore returns the verdict if it stands although the processors of one side were used up. Waiting for processors lowers a
// throughput and lengthens times, and so moves the ratio in a known direction: a rule that holds against it, or that is broken in spite
// of it by the whole interval, is decided.
func (c *Compare) allTheMore(interval sample.Interval, ofExhausted, toExhausted bool) Verdict {
	_, metric, _ := strings.Cut(c.Metric, ".")
	raised := ofExhausted // whether the ratio is higher than without
	switch {
	case ofExhausted == toExhausted || c.Low != nil && c.High != nil:
		return ""
	case strings.HasPrefix(metric, "throughput"):
		raised = !ofExhausted
	case !strings.HasPrefix(metric, "response_time"):
		return ""
	}
	wanted := c.Low != nil // whether a higher ratio speaks for the finding
	broken := wanted && interval.High < *c.Low || !wanted && interval.Low > *c.High
	switch {
	case c.holds(interval.Low, interval.High) && raised != wanted:
		return Confirmed
	case broken && raised == wanted:
		return Refuted
	default:
		return ""
	}
}

// capped returns a text if the load's upload limits the throughput on both sides: they are equal then, whatever the load is put on. For claims about the
// testbed's settings it returns "".
func (c *Compare) capped(e *view, of, to record.Point) string {
	if e.claim.Construction != "" || !strings.HasPrefix(c.Metric, record.SourceClient+".throughput") {
		return ""
	}
	for _, side := range []struct {
		name  string
		point record.Point
	}{{c.Of.Record, of}, {c.To.Record, to}} {
		limit, why := e.limit(side.name, side.point)
		if why != "" || limit.Name != loadsUpload {
			return ""
		}
	}
	return "both are at the " + loadsUpload + ", whatever is behind it"
}

// loadsUpload is the name in package report of the load machines' upload.
const loadsUpload = "upload of the load machines"

// point returns the point of a side, the runs that it was chosen from, and its name.
func (s Side) point(e *view) (p record.Point, runs []record.Run, name, why string) {
	runs, why = e.runs(s.Selection)
	if why != "" {
		return p, nil, "", why
	}
	points := record.Points(runs)
	if len(points) > 1 && !s.Highest {
		return p, nil, "", fmt.Sprintf("%s has several points: %s vary", s.Selection, strings.Join(withoutTwin(record.Varying(runs)), ", "))
	}
	most := -1.0
	for _, candidate := range points {
		if m, ok := moments(candidate, "client.throughput"); ok && m.Mean > most {
			p, most = candidate, m.Mean
		}
	}
	if most < 0 {
		return p, nil, "", fmt.Sprintf("no throughput was measured in %s", s.Selection)
	}
	name = s.String()
	if varying := record.Varying(runs); s.Highest && len(varying) > 0 {
		levels := record.Label(p.Factors, withoutTwin(varying))
		name += ", " + levels
	}
	return p, runs, name, ""
}

// withoutTwin removes connections if clients is there as well.
func withoutTwin(names []string) (kept []string) {
	for _, name := range names {
		if name != "connections" {
			kept = append(kept, name)
		}
	}
	return kept
}
