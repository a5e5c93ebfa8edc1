package capacity

import (
	"fmt"
	"slices"
	"strings"

	"mcmw/lab/condition"
	"mcmw/lab/record"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

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
