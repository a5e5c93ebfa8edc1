package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Compare requires that the ratio of a metric at one point to that at another is in a range, including its confidence interval.
type Compare struct {
	Metric string `yaml:"metric"`
	Of     Side   `yaml:"of"`
	To     Side   `yaml:"to"`
	Range  `yaml:",inline"`
	// Confidence is the confidence of the interval; 0: 0.95.
	Confidence float64 `yaml:"confidence"`
}

// Side is a point: the only one of its selection, or the one with the highest throughput of the clients.
type Side struct {
	Selection `yaml:",inline"`
	// Highest selects the point with the highest throughput; otherwise the selection must have only one point.
	Highest bool `yaml:"highest"`
}

const defaultConfidence = 0.95

func (c *Compare) records() []string { return []string{c.Of.Record, c.To.Record} }

func (c *Compare) check() error {
	return first("compare", checkMetric(c.Metric), c.Of.check(), c.To.check(), c.Range.check(), checkPart("confidence", cmp.Or(c.Confidence, defaultConfidence)))
}

func (c *Compare) decide(e *view) (Verdict, string) {
	of, ofRuns, ofName, why := c.Of.point(e)
	if why != "" {
		return NotComparable, why
	}
	to, toRuns, toName, why := c.To.point(e)
	if why != "" {
		return NotComparable, why
	}
	a, okA := estimate(of, c.Metric)
	b, okB := estimate(to, c.Metric)
	if !okA || !okB || b.Mean == 0 {
		return NotComparable, fmt.Sprintf("%s was not measured at %s or %s", c.Metric, ofName, toName)
	}
	write := show(c.Metric)
	ratio := sample.Ratio(a.Moments, b.Moments, cmp.Or(c.Confidence, defaultConfidence))
	text := fmt.Sprintf("%s at %s to %s at %s: ratio %.3g", write(a.Mean), ofName, write(b.Mean), toName, ratio.Mean)
	if !ratio.Known() {
		return Undecided, text + ", its interval is unbounded: more repetitions are needed"
	}
	text += fmt.Sprintf(" (%.3g to %.3g at %.0f %%); expected %s",
		ratio.Low, ratio.High, 100*cmp.Or(c.Confidence, defaultConfidence),
		c.words(func(v float64) string { return fmt.Sprintf("%.3g", v) }))
	if capped := c.capped(e, of, to); capped != "" {
		return NotComparable, text + "; " + capped
	}
	ofExhausted, toExhausted := e.exhausted(c.Of.Record, ofRuns), e.exhausted(c.To.Record, toRuns)
	if verdict := c.despiteExhaustion(ratio.Interval, ofExhausted != "", toExhausted != ""); verdict != "" {
		return verdict, text + ", all the more because " + ofExhausted + toExhausted
	}
	return judge(c.covers(ratio.Interval), text, ofExhausted, toExhausted)
}

// despiteExhaustion returns a verdict that is certain although one side exhausted its processors; else "". Waiting for processors lowers
// throughputs and increases times, so the direction in which it moves the ratio is known. The rule is confirmed if the whole interval is in
// the range although the ratio was moved away from it, and refuted if the whole interval is outside although it was moved towards it.
func (c *Compare) despiteExhaustion(interval sample.Interval, ofExhausted, toExhausted bool) Verdict {
	metric, _ := frame.ParseMetric(c.Metric, "")
	raised := ofExhausted // whether waiting increases the ratio
	switch {
	case ofExhausted == toExhausted || c.Low != nil && c.High != nil:
		return ""
	case strings.HasPrefix(metric.Name, "throughput"):
		raised = !ofExhausted
	case !strings.HasPrefix(metric.Name, "response_time"):
		return ""
	}
	high := c.Low != nil // whether the rule requires a high ratio
	switch verdict := c.covers(interval); {
	case verdict == Confirmed && raised != high, verdict == Refuted && raised == high:
		return verdict
	default:
		return ""
	}
}

// capped returns a text if the load's upload limits the throughput on both sides: both are then equal, whatever is behind it. For claims
// about the testbed's settings it returns "".
func (c *Compare) capped(e *view, of, to frame.Point) string {
	if e.claim.Construction != "" || !strings.HasPrefix(c.Metric, record.SourceClient+".throughput") {
		return ""
	}
	for _, side := range []struct {
		name  string
		point frame.Point
	}{{c.Of.Record, of}, {c.To.Record, to}} {
		limit, why := e.limit(side.name, side.point)
		if why != "" || limit.Name != loadsUpload {
			return ""
		}
	}
	return "both are limited by the " + loadsUpload + ", whatever is behind it"
}

// loadsUpload is the name of the load machines' upload in package report.
const loadsUpload = "upload of the load machines"

// point returns the point of a side, the runs of its selection, and its name; or why there is none.
func (s Side) point(e *view) (p frame.Point, runs []record.Run, name, why string) {
	runs, why = e.runs(s.Selection)
	if why != "" {
		return p, nil, "", why
	}
	points := frame.Of(runs, defaultConfidence).Points
	if len(points) > 1 && !s.Highest {
		return p, nil, "", fmt.Sprintf("%s has several points: %s vary", s.Selection, strings.Join(withoutConnections(record.Varying(runs)), ", "))
	}
	most := -1.0
	for _, candidate := range points {
		if m, ok := estimate(candidate, "client.throughput"); ok && m.Mean > most {
			p, most = candidate, m.Mean
		}
	}
	if most < 0 {
		return p, nil, "", fmt.Sprintf("no throughput was measured in %s", s.Selection)
	}
	name = s.String()
	if varying := record.Varying(runs); s.Highest && len(varying) > 0 {
		name += ", " + record.Label(p.Levels, withoutConnections(varying))
	}
	return p, runs, name, ""
}

// withoutConnections removes connections, which always equals clients.
func withoutConnections(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "connections" })
}
