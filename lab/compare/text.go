package compare

import (
	"fmt"
	"maps"
	"math"
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

// Ratios returns two tables of comparisons with the same side A: the ratios of the pairs, and the medians of all sides.
// names has the name of A, then those of the comparisons' sides B.
func Ratios(comparisons []*Comparison, names []string) []table.Block {
	metrics := comparisons[0].metrics()
	ratios := table.Table{
		Caption: "Ratios to " + names[0], Columns: append([]string{"", "point"}, metrics...), Left: []int{1},
		Notes: []string{fmt.Sprintf("Geometric means of the ratios of runs of one repetition, with their %.0f %% "+
			"confidence intervals.", 100*comparisons[0].Confidence)},
	}
	medians := table.Table{Caption: "Medians", Columns: ratios.Columns, Left: ratios.Left}
	add := func(side string, p Point, of func(Metric) Sample) {
		row := []string{side, name(p.Label)}
		for _, metric := range metrics {
			m, _ := p.metric(metric)
			row = append(row, median(metric, of(m).Values))
		}
		medians.Rows = append(medians.Rows, row)
	}
	for _, p := range comparisons[0].Points {
		add(names[0], p, func(m Metric) Sample { return m.A })
		for i, c := range comparisons {
			at := slices.IndexFunc(c.Points, func(other Point) bool { return other.Label == p.Label })
			if at < 0 {
				continue
			}
			row := []string{names[i+1], name(p.Label)}
			for _, metric := range metrics {
				text := "-"
				if m, _ := c.Points[at].metric(metric); m.Ratio != nil {
					text = m.Ratio.RatioText()
				}
				row = append(row, text)
			}
			ratios.Rows = append(ratios.Rows, row)
			add(names[i+1], c.Points[at], func(m Metric) Sample { return m.B })
		}
	}
	return []table.Block{ratios, medians}
}

// median returns the median of values of a metric as text.
func median(metric string, values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return number(metric, sample.Number(sample.Quantile(slices.Sorted(slices.Values(values)), 0.5)))
}

// GeometricMean is the geometric mean, over the points, of the ratio of a metric in B to that in A. Unlike the
// arithmetic mean of ratios it becomes the inverse if A and B are swapped (P. J. Fleming, J. J. Wallace, "How not to
// lie with statistics", Communications of the ACM 29, 1986).
type GeometricMean struct {
	Metric string `json:"metric"`
	Points int    `json:"points"` // that have the metric in both records
	// Change is the geometric mean of the ratios minus 1. Its interval covers the variation over repetitions, not over
	// other points: the variances of the logarithms (s^2/(n x^2) for each mean, to first order) add up, with Welch and
	// Satterthwaite's degrees of freedom.
	Change         sample.Number   `json:"change"`
	ChangeInterval sample.Interval `json:"change_interval"`
}

// geometricMeans returns the means of the metrics that more than one point has in both records.
func (c *Comparison) geometricMeans() (means []GeometricMean) {
	for _, name := range c.metrics() {
		g := GeometricMean{Metric: name, ChangeInterval: sample.Interval{Low: math.Inf(-1), High: math.Inf(1)}}
		sum, variance, freedom := 0.0, 0.0, 0.0
		for _, p := range c.Points {
			m, ok := p.metric(name)
			a, b := m.A.Moments, m.B.Moments
			if !ok || !(a.Mean > 0) || !(b.Mean > 0) {
				continue
			}
			g.Points++
			sum += math.Log(b.Mean / a.Mean)
			for _, side := range []sample.Moments{a, b} {
				v := side.Variance() / (side.N * side.Mean * side.Mean) // NaN for a single run
				variance += v
				freedom += v * v / (side.N - 1)
			}
		}
		if g.Points < 2 {
			continue
		}
		k := float64(g.Points)
		g.Change = sample.Number(math.Exp(sum/k) - 1)
		switch {
		case variance == 0:
			g.ChangeInterval = sample.Interval{Low: float64(g.Change), High: float64(g.Change)}
		case !math.IsNaN(variance):
			half := sample.StudentQuantile((1+c.Confidence)/2, variance*variance/freedom) * math.Sqrt(variance) / k
			g.ChangeInterval = sample.Interval{Low: math.Exp(sum/k-half) - 1, High: math.Exp(sum/k+half) - 1}
		}
		means = append(means, g)
	}
	return means
}
