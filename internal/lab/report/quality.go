package report

import (
	"fmt"
	"strings"

	"mcmw/internal/lab/capacity"
	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
)

// quality returns the quality of service that the experiment asks for, and otherwise one without a limit: the 99th percentile.
func (a *artist) quality() capacity.Rule {
	if a.d.Quality != nil {
		return *a.d.Quality
	}
	rule := capacity.DefaultRule()
	rule.Below = 0
	return rule
}

// serviceMetric returns what the metric of the quality of service came to.
func (a *artist) serviceMetric(p Point) Estimate {
	rule := a.quality()
	if e := p.Estimate(rule.Source, a.v.metric(rule.Metric)); e.OK() || rule.Metric != "response_time_p99" || rule.Source != record.SourceClient {
		return e
	}
	return a.percentile(p, 99)
}

// metricName returns a metric's name for people: "99th percentile of the response times".
func metricName(metric string) string {
	m, ok := record.Describe(metric)
	if !ok {
		return strings.ReplaceAll(metric, "_", " ")
	}
	return m.Help
}

func metricUnit(metric string) plot.Unit {
	m, _ := record.Describe(metric)
	return plot.UnitOf(m.Unit)
}

const (
	// farBeyond is how many times the limit a value is from which on the limit would be pressed to the bottom of a figure of equal distances.
	farBeyond = 10
	// farApart is the same for ratios, the greatest to the least.
	farApart = 4
)

// service draws the metric of the quality of service with its limit, and a ring at the highest load within.
func (a *artist) service() ([]plot.Chart, error) {
	rule := a.quality()
	y := plot.Axis{Label: metricName(rule.Metric), Unit: metricUnit(rule.Metric), FromZero: true}
	for _, p := range a.d.Points {
		y.Log = y.Log || rule.Below > 0 && a.serviceMetric(p).Mean >= farBeyond*rule.Below
	}
	found := a.capacity()
	return a.lines(y, a.serviceMetric, func(i int) (marks []plot.Mark) {
		if rule.Below > 0 {
			marks = append(marks, plot.Limit{Name: "limit", Y: rule.Below})
		}
		for _, l := range a.analysis.Panels[i].Lines {
			if p, ok := a.highest(found, l); ok {
				marks = append(marks, plot.Ring{X: a.d.place(a.v, p), Y: a.serviceMetric(p).Mean, Series: l.Number})
			}
		}
		return marks
	}), nil
}

// capacity returns what the record says about the quality of service that its experiment asks for; nil if that is none, or nothing was raised.
func (a *artist) capacity() *capacity.Capacity {
	if a.d.Quality == nil || a.v.Command != "" {
		return nil
	}
	c, err := capacity.Find(runs(a.d.Points), *a.d.Quality, nil)
	if err != nil {
		return nil
	}
	return c
}

// highest returns the point of a line that is the highest load within the quality of service, where the raised factor is the x axis.
func (a *artist) highest(c *capacity.Capacity, l Line) (Point, bool) {
	if c == nil || len(l.Points) == 0 || !sameFactor(a.d.Points, c.Rule.Over, a.v.X) {
		return Point{}, false
	}
	for _, found := range c.Lines {
		top, ok := found.Top()
		for _, p := range l.Points {
			if ok && p.Levels[c.Rule.Over] == top.Level && has(p, found.Factors) {
				return p, true
			}
		}
	}
	return Point{}, false
}

func has(p Point, levels map[string]string) bool {
	for factor, level := range levels {
		if p.Levels[factor] != level {
			return false
		}
	}
	return true
}

// capacities is the highest load within the quality of service.
func (a *artist) capacities() Table {
	c := a.capacity()
	if c == nil {
		return Table{}
	}
	drawn := c.Tables(false)[0]
	t := Table{Rows: drawn.Rows, Notes: drawn.Notes}
	for i, name := range drawn.Columns {
		if i < len(c.By) || i == len(drawn.Columns)-1 {
			t.Columns = append(t.Columns, words(label(name)))
		} else {
			t.Columns = append(t.Columns, number(strings.ReplaceAll(name, "_", " ")))
		}
	}
	return t
}

// pair is two lines of a panel that differ in the series' factor: A has its first level, B its second.
type pair struct {
	panel Panel
	a, b  Line
}

// pairs returns the pairs of all panels, if the series' factor has two levels.
func (a *artist) pairs() (pairs []pair) {
	if a.v.Series == "" || len(levels(a.d.Points, a.v.Series)) != 2 {
		return nil
	}
	for _, panel := range a.analysis.Panels {
		if len(panel.Lines) == 2 {
			pairs = append(pairs, pair{panel, panel.Lines[0], panel.Lines[1]})
		}
	}
	return pairs
}

// measures are what pairs are compared by.
func (a *artist) measures() []measure {
	return []measure{
		{"throughput", plot.OpsPerSecond, a.client("throughput")},
		{metricName(a.quality().Metric), metricUnit(a.quality().Metric), a.serviceMetric},
	}
}

type measure struct {
	name string
	unit plot.Unit
	of   func(Point) Estimate
}

// headToHead draws how many times one level's values the other's are.
func (a *artist) headToHead() ([]plot.Chart, error) {
	pairs := a.pairs()
	if len(pairs) == 0 {
		return nil, nil
	}
	y := plot.Axis{Label: fmt.Sprintf("%s / %s", pairs[0].b.Name, pairs[0].a.Name), FromZero: true}
	var charts []plot.Chart
	for _, p := range pairs {
		one := plot.Chart{Title: p.panel.Name, X: a.xAxis(), Y: y, Marks: []plot.Mark{plot.Limit{Y: 1}}}
		any := false
		least, greatest := 1.0, 1.0
		for i, m := range a.measures() {
			drawn := plot.Line{Name: m.name, Series: i}
			for _, base := range p.a.Points {
				if other, ok := a.at(p.b, base.Levels[a.v.X]); ok {
					r := ratio(m.of(other), m.of(base), a.d.Confidence)
					drawn.Points = append(drawn.Points, point(a.d.place(a.v, base), r))
					if r.OK() && r.Mean > 0 {
						least, greatest = min(least, r.Mean), max(greatest, r.Mean)
					}
				}
			}
			any = any || some(drawn)
			one.Marks = append(one.Marks, drawn)
		}
		one.Y.Log = greatest >= farApart*least
		if any {
			charts = append(charts, one)
		}
	}
	return charts, nil
}

// versus is the same as a table, with the values.
func (a *artist) versus() Table {
	pairs := a.pairs()
	if len(pairs) == 0 {
		return Table{}
	}
	t := Table{}
	if len(a.analysis.Panels) > 1 {
		t.Columns = append(t.Columns, words("panel"))
	}
	t.Columns = append(t.Columns, number(label(a.v.X)))
	for _, m := range a.measures() {
		t.Columns = append(t.Columns, number(m.name+", "+pairs[0].a.Name), number(pairs[0].b.Name), number("ratio"))
	}
	for _, p := range pairs {
		for _, base := range p.a.Points {
			other, ok := a.at(p.b, base.Levels[a.v.X])
			if !ok {
				continue
			}
			var row []string
			if len(a.analysis.Panels) > 1 {
				row = append(row, p.panel.Name)
			}
			row = append(row, marked(base.Levels[a.v.X], Point{Runs: runs([]Point{base, other})}))
			for _, m := range a.measures() {
				row = append(row, shownAs(m.of(base), m.unit), shownAs(m.of(other), m.unit), shownRatio(ratio(m.of(other), m.of(base), a.d.Confidence)))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.Notes = []string{fmt.Sprintf("Ratios are those of the means, the second to the first, with their %.0f %% confidence intervals (Fieller); ~: the interval contains 1, so that the difference may be chance.",
		100*a.d.Confidence)}
	return t
}

// shownRatio returns "1.25 [1.20, 1.31]", or "1.25 [unbounded]" where the base can't be told from 0, so that the ratio may be anything.
func shownRatio(e Estimate) string {
	if !e.OK() {
		return "–"
	}
	text := fmt.Sprintf("%.2f", e.Mean)
	if e.Interval.Known() {
		text += fmt.Sprintf(" [%.2f, %.2f]", e.Interval.Low, e.Interval.High)
		if e.Interval.Contains(1) {
			text += " ~"
		}
	} else if e.N > 1 {
		text += " [unbounded]"
	}
	return whole(text)
}
