package capacity

import (
	"fmt"
	"strings"

	"mcmw/internal/lab/record"
	"mcmw/internal/lab/table"
)

// Explanation says how the highest load is found.
func (c *Capacity) Explanation() string {
	return fmt.Sprintf("The highest load is the highest level of %s such that it and all lower ones hold: no request failed, and the upper %.0f %% confidence bound of %s over the "+
		"repetitions is below %s. A level breaks if its lower bound is not, and is open if the limit is between the bounds, or with less than two runs.",
		c.Rule.Over, 100*c.Rule.Confidence, c.Rule.Metric, record.Format(c.Rule.Metric, c.Rule.Below))
}

// Name identifies a line: "server=redis"; "" if it is the only one.
func (c *Capacity) Name(l Line) string { return record.Label(l.Factors, c.By) }

// Top returns the highest level that holds with all lower ones; false if the lowest doesn't.
func (l Line) Top() (Level, bool) {
	if l.Highest < 0 {
		return Level{}, false
	}
	return l.Levels[l.Highest], true
}

// Above returns the level after the highest that holds; false if that is the last.
func (l Line) Above() (Level, bool) {
	if l.Highest+1 >= len(l.Levels) {
		return Level{}, false
	}
	return l.Levels[l.Highest+1], true
}

// Words says how far a line goes, and what broke above.
func (c *Capacity) Words(l Line) string {
	text := ""
	if name := c.Name(l); name != "" {
		text = name + ": "
	}
	top, holds := l.Top()
	if holds {
		text += fmt.Sprintf("up to %s %s, %s", top.Level, c.Rule.Over, shown("throughput", top.Throughput))
	} else {
		text += "no load that was measured holds"
	}
	if _, more := l.Above(); !more {
		return text + "; all that were measured hold, so more may"
	}
	return text + "; " + c.above(l)
}

// above says why the level above the highest doesn't hold.
func (c *Capacity) above(l Line) string {
	next, more := l.Above()
	if !more {
		return "nothing was measured"
	}
	at := next.Level + " " + c.Rule.Over
	switch {
	case next.Failures > 0:
		return fmt.Sprintf("at %s %.0f requests failed", at, next.Failures)
	case next.Runs == 0:
		return fmt.Sprintf("at %s %s is not known", at, c.Rule.Metric)
	case !next.Value.Known:
		return fmt.Sprintf("at %s there is one run (%s), which tells nothing", at, record.Format(c.Rule.Metric, next.Value.Mean))
	case next.Verdict == Breaks:
		return fmt.Sprintf("%s break it (%s)", at, shown(c.Rule.Metric, next.Value))
	default:
		return fmt.Sprintf("at %s it can't be told (%s, bounds %s to %s)", at, record.Format(c.Rule.Metric, next.Value.Mean),
			bound(c.Rule.Metric, float64(next.Value.Low)), record.Format(c.Rule.Metric, float64(next.Value.High)))
	}
}

// bound returns a lower bound; a metric is not below 0.
func bound(metric string, v float64) string {
	if v <= 0 {
		return "0"
	}
	return record.Format(metric, v)
}

// shown returns an estimate with half the distance of its bounds: "1.21 ms ± 3.4 %".
func shown(metric string, e Estimated) string {
	text := record.Format(metric, e.Mean)
	if e.Known && e.Mean > 0 {
		text += fmt.Sprintf(" ± %.1f %%", 50*float64(e.High-e.Low)/e.Mean)
	}
	return text
}

// Tables returns the highest load of every line and, with all, every level.
func (c *Capacity) Tables(all bool) []table.Table {
	highest := table.Table{
		Caption: fmt.Sprintf("Highest load within %s, over %s", c.Rule, c.Rule.Over),
		Columns: append(append([]string{}, c.By...), c.Rule.Over, "throughput", c.Rule.Metric, "above it"),
		Notes:   []string{c.Explanation()},
	}
	for i := range c.By {
		highest.Left = append(highest.Left, i)
	}
	highest.Left = append(highest.Left, len(c.By)+3)
	levels := table.Table{
		Caption: "All loads", Columns: append(append([]string{}, c.By...), c.Rule.Over, "runs", "throughput", c.Rule.Metric, "verdict"),
		Left: append(highest.Left[:len(c.By):len(c.By)], len(c.By)+4),
	}
	for _, l := range c.Lines {
		row := c.named(l)
		if top, ok := l.Top(); ok {
			row = append(row, marked(top), shown("throughput", top.Throughput), shown(c.Rule.Metric, top.Value), c.above(l))
		} else {
			row = append(row, "none", "–", "–", c.above(l))
		}
		highest.Rows = append(highest.Rows, row)
		for _, v := range l.Levels {
			levels.Rows = append(levels.Rows, append(c.named(l), marked(v), fmt.Sprint(v.Runs), shown("throughput", v.Throughput), shown(c.Rule.Metric, v.Value), string(v.Verdict)))
		}
	}
	if c.warned() {
		note := "⚠: runs of this load violate checks; mcmwlab show says which."
		highest.Notes = append(highest.Notes, note)
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

func marked(v Level) string {
	if v.Warnings > 0 {
		return v.Level + " ⚠"
	}
	return v.Level
}

func (c *Capacity) warned() bool {
	for _, l := range c.Lines {
		for _, v := range l.Levels {
			if v.Warnings > 0 {
				return true
			}
		}
	}
	return false
}
