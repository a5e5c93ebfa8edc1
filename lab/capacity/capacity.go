package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcmw/lab/condition"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Capacity has the highest loads in a record according to a rule.
type Capacity struct {
	Rule  Rule     `json:"rule"`
	By    []string `json:"by"` // the factors whose levels make the lines
	Lines []Line   `json:"lines"`
}

// Line has the levels of the raised factor for one combination of the other factors.
type Line struct {
	Factors map[string]string `json:"factors"` // those of By
	Levels  []Level           `json:"levels"`  // ascending
	// Highest is the index of the highest level for which it and all lower levels hold; -1 if the lowest doesn't hold.
	Highest int `json:"highest"`
}

// Level is one load of a line.
type Level struct {
	Level      string          `json:"level"` // of the raised factor
	Runs       int             `json:"runs"`  // complete ones that have the metric
	Failed     int             `json:"failed,omitempty"`
	Value      sample.Estimate `json:"value"` // of the metric, in its unit, with one-sided confidence bounds
	Throughput sample.Estimate `json:"throughput"`
	Failures   float64         `json:"failures"` // requests, over all runs
	Warnings   int             `json:"warnings"` // violated checks, over all runs
	// Verdict is that on the bounds of Value; broken, too, if requests failed.
	Verdict condition.Verdict `json:"verdict"`
}

// Find finds the highest load of each line. by has the factors whose levels make the lines; nil stands for all factors
// that vary independently of the raised one. It is an error if another factor varies, or if a given one doesn't. Failed
// runs don't count; but a level that has only these is one that doesn't hold.
func Find(runs []record.Run, rule Rule, by []string) (*Capacity, error) {
	if err := rule.Check(); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(runs, func(r record.Run) bool { return r.State == record.Complete }) {
		return nil, errors.New("there are no complete runs")
	}
	varying := record.Varying(runs)
	if !slices.Contains(varying, rule.Over) {
		if len(varying) == 0 {
			return nil,
				fmt.Errorf("factor %q doesn't vary, nor does any other: expected runs at several levels of the load",
					rule.Over)
		}
		return nil, fmt.Errorf("factor %q doesn't vary: expected one of %s", rule.Over, strings.Join(varying, ", "))
	}
	others := slices.DeleteFunc(slices.Clone(varying),
		func(f string) bool { return f == rule.Over || record.Follows(runs, f, rule.Over) })
	if by == nil {
		by = others
	}
	for _, f := range by {
		if !slices.Contains(varying, f) {
			return nil, fmt.Errorf("factor %q doesn't vary: expected some of %s", f,
				cmp.Or(strings.Join(others, ", "), "none"))
		}
	}
	for _, f := range others {
		if !slices.Contains(by, f) && !slices.ContainsFunc(by,
			func(b string) bool { return record.Follows(runs, f, b) }) {
			return nil,
				fmt.Errorf("factor %s varies, too: add it to the factors of the lines (%s), or select one of its "+
					"levels", f, cmp.Or(strings.Join(by, ", "), "none"))
		}
	}
	c := &Capacity{Rule: rule, By: by}
	known := false
	for _, l := range rule.frame(runs).Lines(rule.Over, by) {
		line := Line{Factors: l.Levels}
		for _, p := range l.Points {
			level := newLevel(p, rule)
			known = known || level.Runs > 0
			line.Levels = append(line.Levels, level)
		}
		line.Highest = slices.IndexFunc(line.Levels, func(v Level) bool { return v.Verdict != condition.Holds }) - 1
		if line.Highest == -2 {
			line.Highest = len(line.Levels) - 1
		}
		c.Lines = append(c.Lines, line)
	}
	if !known {
		return nil, fmt.Errorf("no run has the metric %s of the source %s", rule.Condition.Term.Metric.Name,
			rule.Condition.Term.Metric.Source)
	}
	return c, nil
}

func newLevel(p frame.Point, rule Rule) Level {
	of := rule.Condition.Term.Metric
	l := Level{
		Level: p.Levels[rule.Over], Value: p.Estimate(of.Source, of.Name),
		Throughput: p.Estimate(record.SourceClient, "throughput"), Failed: len(p.Failed), Warnings: p.Warned(),
	}
	l.Runs = int(l.Value.N)
	for _, failed := range p.Values(record.SourceClient, "errors") {
		l.Failures += failed
	}
	if l.Verdict = rule.Condition.Judge(l.Value.Interval); l.Failures > 0 {
		l.Verdict = condition.Broken
	}
	return l
}

// Rule defines the quality of service, and the factor that is raised until it is violated.
type Rule struct {
	Condition  condition.Condition `json:"condition"`  // on the mean of a metric
	Over       string              `json:"over"`       // the raised factor
	Confidence float64             `json:"confidence"` // one-sided, of each level's bounds; more than 0.5
}

// DefaultRule is the quality of service of the 2016 thesis on memcached and Redis, section 1.3.1: 99 % of the requests
// in less than 1 ms.
func DefaultRule() Rule {
	c, err := condition.Parse("client.response_time_p99 < 1ms", condition.OfClients)
	if err != nil {
		panic(err)
	}
	return Rule{Condition: c, Over: "clients", Confidence: 0.95}
}

// frame groups runs with estimates whose bounds have the rule's confidence: one-sided bounds of confidence c are those
// of the two-sided interval of confidence 2c - 1.
func (r Rule) frame(runs []record.Run) frame.Frame { return frame.Of(runs, 2*r.Confidence-1) }

// String returns the condition.
func (r Rule) String() string { return r.Condition.Text }

// show writes a value of the metric.
func (r Rule) show(v float64) string { return record.Format(r.Condition.Term.Metric.Name, v) }

// Check returns the problems of the rule; nil if there are none.
func (r Rule) Check() error {
	var problems []error
	if !(r.Confidence > 0.5 && r.Confidence < 1) {
		problems = append(problems, fmt.Errorf("confidence %v: expected more than 0.5 and less than 1, such as 0.95",
			r.Confidence))
	}
	if r.Over == "" {
		problems = append(problems, errors.New("the raised factor is missing: expected one such as clients"))
	}
	return errors.Join(problems...)
}
