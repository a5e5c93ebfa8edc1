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
	"mcmw/lab/table"
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

// Top returns the highest level for which it and all lower levels hold; false if the lowest doesn't hold.
func (l Line) Top() (Level, bool) {
	if l.Highest < 0 {
		return Level{}, false
	}
	return l.Levels[l.Highest], true
}

// Above returns the level above Top; false if there is none.
func (l Line) Above() (Level, bool) {
	if l.Highest+1 >= len(l.Levels) {
		return Level{}, false
	}
	return l.Levels[l.Highest+1], true
}

// Words describes in one sentence the highest load of a line, and the reason why the next level doesn't hold.
func (c *Capacity) Words(l Line) string {
	text := ""
	if name := record.Label(l.Factors, c.By); name != "" {
		text = name + ": "
	}
	top, holds := l.Top()
	if holds {
		text += fmt.Sprintf("up to %s %s, %s", top.Level, c.Rule.Over, shown("throughput", top.Throughput))
	} else {
		text += "no measured load holds"
	}
	if _, more := l.Above(); !more {
		return text + "; all measured levels hold, higher ones may, too"
	}
	return text + "; " + c.above(l)
}

// above explains why the level above the highest doesn't hold.
func (c *Capacity) above(l Line) string {
	next, more := l.Above()
	if !more {
		return "not measured"
	}
	at := next.Level + " " + c.Rule.Over
	switch {
	case next.Failures > 0:
		return fmt.Sprintf("at %s %.0f requests failed", at, next.Failures)
	case next.Runs == 0 && next.Failed > 0:
		return fmt.Sprintf("at %s all runs failed", at)
	case next.Runs == 0:
		return fmt.Sprintf("at %s %s was not measured", at, c.Rule.Condition.Term.Metric.Name)
	case !next.Value.Known():
		return fmt.Sprintf("at %s there is only one run (%s), which decides nothing", at, c.Rule.show(next.Value.Mean))
	case next.Verdict == condition.Broken:
		return fmt.Sprintf("%s break it (%s)", at, shown(c.Rule.Condition.Term.Metric.Name, next.Value))
	default:
		low := "0" // no metric is below 0
		if next.Value.Low > 0 {
			low = c.Rule.show(next.Value.Low)
		}
		return fmt.Sprintf("at %s it is undecided (%s, bounds %s to %s)", at, c.Rule.show(next.Value.Mean), low,
			c.Rule.show(next.Value.High))
	}
}

// shown returns an estimate with half the distance of its bounds: "1.21 ms ± 3.4 %".
func shown(metric string, e sample.Estimate) string {
	return e.Format(record.Format(metric, e.Mean), " ± %.1f %%")
}

// Tables returns the highest load of every line and, with all, every level.
func (c *Capacity) Tables(all bool) []table.Table {
	highest := table.Table{
		Caption: fmt.Sprintf("Highest load within %s, over %s", c.Rule, c.Rule.Over),
		Columns: append(append([]string{}, c.By...), c.Rule.Over, "throughput", c.Rule.Condition.Term.Metric.Name,
			"above it"),
		Notes: []string{fmt.Sprintf("The highest load is the highest level of %s for which it and all lower levels "+
			"hold. A level holds if no request failed and the %.0f %% confidence bounds of the mean over the "+
			"repetitions fulfil %s. It is broken if requests failed, or if no value between the bounds fulfils it. "+
			"Otherwise, and with fewer than two runs, it is unknown.",
			c.Rule.Over, 100*c.Rule.Confidence, c.Rule)},
	}
	for i := range c.By {
		highest.Left = append(highest.Left, i)
	}
	highest.Left = append(highest.Left, len(c.By)+3)
	levels := table.Table{
		Caption: "All loads", Columns: append(append([]string{}, c.By...), c.Rule.Over, "runs", "throughput",
			c.Rule.Condition.Term.Metric.Name, "verdict"),
		Left: append(highest.Left[:len(c.By):len(c.By)], len(c.By)+4),
	}
	for _, l := range c.Lines {
		row := c.named(l)
		if top, ok := l.Top(); ok {
			row = append(row, marked(top), shown("throughput", top.Throughput),
				shown(c.Rule.Condition.Term.Metric.Name, top.Value), c.above(l))
		} else {
			row = append(row, "none", "–", "–", c.above(l))
		}
		highest.Rows = append(highest.Rows, row)
		for _, v := range l.Levels {
			levels.Rows = append(levels.Rows,
				append(c.named(l), marked(v), fmt.Sprint(v.Runs), shown("throughput", v.Throughput),
					shown(c.Rule.Condition.Term.Metric.Name, v.Value), string(v.Verdict)))
		}
	}
	if slices.ContainsFunc(c.Lines,
		func(l Line) bool { return slices.ContainsFunc(l.Levels, func(v Level) bool { return v.Warnings > 0 }) }) {
		highest.Notes = append(highest.Notes, "⚠: runs of this load violate checks; mcmwlab show says which.")
	}
	if !all {
		return []table.Table{highest}
	}
	return []table.Table{highest, levels}
}

func (c *Capacity) named(l Line) (cells []string) {
	for _, f := range c.By {
		cells = append(cells, strings.TrimSpace(l.Factors[f]))
	}
	return cells
}

// marked returns the name of a level, marked if runs of it have warnings.
func marked(v Level) string {
	if v.Warnings > 0 {
		return v.Level + " ⚠"
	}
	return v.Level
}
