package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// Blocks returns the comparison: one table per metric with a row per point, and what the numbers mean. nameA and nameB
// are the names of the records.
func (c *Comparison) Blocks(nameA, nameB string) (blocks []table.Block) {
	lines := []string{"A: " + nameA, "B: " + nameB}
	for _, factor := range slices.Sorted(maps.Keys(c.Differs)) {
		lines = append(lines, fmt.Sprintf("%s: %s -> %s", factor, c.Differs[factor][0], c.Differs[factor][1]))
	}
	add := func() { blocks, lines = append(blocks, table.Paragraph(strings.Join(lines, "\n"))), nil }
	add()
	for _, metric := range c.metrics() {
		of, _ := frame.ParseMetric(metric, record.SourceClient)
		m, _ := record.Describe(of.Name)
		t := table.Table{
			Caption: fmt.Sprintf("%s of %s: %s", of.Name, of.Source, m.Help), Left: []int{1, 2, 3, 4, 5, 6, 7},
			Columns: []string{"point", "A", "B", "change", "effect", "p (Welch)", "p (ranks)", ""},
		}
		for _, p := range c.Points {
			m, ok := p.metric(metric)
			if !ok {
				continue
			}
			marks := ""
			if p.Warnings.A > 0 || p.Warnings.B > 0 {
				marks = fmt.Sprintf("! warnings: %d in A, %d in B", p.Warnings.A, p.Warnings.B)
			}
			t.Rows = append(t.Rows, []string{
				name(p.Label), sampleText(m.Name, m.A), sampleText(m.Name, m.B), change(m), effect(m.Effect),
				probability(m.WelchP), probability(m.RankP), marks,
			})
		}
		for _, g := range c.Means {
			if g.Metric == metric {
				t.Notes = append(t.Notes, fmt.Sprintf("geometric mean of %d points: %s", g.Points,
					change(Metric{Change: g.Change, ChangeInterval: g.ChangeInterval})))
			}
		}
		blocks = append(blocks, t)
	}
	if len(c.Points) > 0 {
		lines = append(lines,
			fmt.Sprintf("± and [..] are %.0f %% confidence intervals over the repetitions; ~: not significant, the "+
				"interval contains 0.", 100*c.Confidence))
		if n := c.changes(); n > 1 {
			lines = append(lines,
				fmt.Sprintf("Each interval is for one change: without any difference, about %.1f of the %d changes "+
					"would have no ~ by chance.", (1-c.Confidence)*float64(n), n))
		}
	} else {
		lines = append(lines, "The records have no point in common.")
	}
	for i, labels := range [][]string{c.OnlyA, c.OnlyB} {
		for _, label := range labels {
			lines = append(lines, fmt.Sprintf("only in %s: %s", []string{"A", "B"}[i], name(label)))
		}
	}
	add()
	return blocks
}

// changes returns the number of changes with a bounded interval.
func (c *Comparison) changes() (n int) {
	for _, p := range c.Points {
		for _, m := range p.Metrics {
			if m.ChangeInterval.Known() {
				n++
			}
		}
	}
	return n
}

// metrics returns the names of the metrics that at least one point has, in their order.
func (c *Comparison) metrics() []string {
	var names []string
	for _, p := range c.Points {
		for _, m := range p.Metrics {
			if !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

func name(label string) string {
	if label == "" {
		return "all runs"
	}
	return label
}

// sampleText returns a sample as text: "12,345/s ±1.2 % (3)".
func sampleText(metric string, s Sample) string {
	if len(s.Values) == 0 {
		return "unknown"
	}
	return s.Format(number(metric, s.mean()), " ±%.1f %%") + fmt.Sprintf(" (%d)", len(s.Values))
}

// change returns a change as text: "-5.2 % [-6.0, -4.4]", with ~ if it is not significant.
func change(m Metric) string {
	if !m.Change.Known() {
		return "unknown"
	}
	text := fmt.Sprintf("%+.1f %%", 100*float64(m.Change))
	switch {
	case m.ChangeInterval.Known():
	case len(m.A.Values) < 2 || len(m.B.Values) < 2: // also for a geometric mean, which has no values
		return text + " [too few]"
	default:
		// A's mean is not significantly different from 0, so that the ratio can be anything.
		return text + " [unbounded]"
	}
	text += fmt.Sprintf(" [%+.1f, %+.1f]", 100*m.ChangeInterval.Low, 100*m.ChangeInterval.High)
	if m.ChangeInterval.Contains(0) {
		text += " ~"
	}
	return text
}

// number returns a value of a metric as text with its unit.
func number(metric string, x sample.Number) string {
	if !x.Known() {
		return "unknown"
	}
	of, _ := frame.ParseMetric(metric, "")
	return record.Format(of.Name, float64(x))
}

func effect(x sample.Number) string {
	if !x.Known() {
		return "-"
	}
	return fmt.Sprintf("%+.1f", float64(x))
}

func probability(p sample.Number) string {
	switch {
	case !p.Known():
		return "-"
	case p < 0.001:
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", float64(p))
}
