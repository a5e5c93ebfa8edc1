package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mcmw/lab/capacity"
	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// quality returns the experiment's quality of service, or the 99th percentile without a limit.
func (a *artist) quality() capacity.Rule {
	if a.d.Quality != nil {
		return *a.d.Quality
	}
	rule := capacity.DefaultRule()
	rule.Condition.High = math.Inf(1)
	return rule
}

// serviceMetric returns the estimate of the metric of the quality of service.
func (a *artist) serviceMetric(p frame.Point) sample.Estimate {
	of := a.quality().Condition.Term.Metric
	if e := p.Estimate(of.Source, a.v.metric(of.Name)); e.OK() || of.Name != "response_time_p99" ||
		of.Source != record.SourceClient {
		return e
	}
	return a.percentile(p, 99)
}

// metricName returns the description of a metric, such as "99th percentile of the response times".
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
	// farBeyond is the ratio of a value to the limit from which on the axis is logarithmic.
	farBeyond = 10
	// farApart is the ratio of the largest to the smallest ratio from which on the axis of ratios is logarithmic.
	farApart = 4
)

// service draws the metric of the quality of service with its limit, and a ring at the highest load within the limit.
func (a *artist) service() []plot.Chart {
	quality := a.quality().Condition
	metric := quality.Term.Metric.Name
	limit, _ := quality.Bound()
	limited := !math.IsInf(limit, 0)
	y := plot.Axis{Label: metricName(metric), Unit: metricUnit(metric), FromZero: true}
	for _, p := range a.d.Points {
		y.Log = y.Log || limited && a.serviceMetric(p).Mean >= farBeyond*limit
	}
	found := a.capacity()
	return a.lines(y, a.serviceMetric, func(panel Panel) (marks []plot.Mark) {
		if limited {
			marks = append(marks, plot.Limit{Name: "limit", Y: limit})
		}
		for _, l := range panel.Lines {
			if p, ok := a.highest(found, l); ok {
				marks = append(marks, a.ring(l, p, a.serviceMetric))
			}
		}
		return marks
	})
}

// capacity returns the highest loads within the experiment's quality of service; nil if it has none, or the load does
// not vary.
func (a *artist) capacity() *capacity.Capacity {
	if a.d.Quality == nil || a.v.Command != "" {
		return nil
	}
	c, err := capacity.Find(a.d.All(), *a.d.Quality, nil)
	if err != nil {
		return nil
	}
	return c
}

// highest returns the point of a line with the highest load within the quality of service, if the load is the x axis.
func (a *artist) highest(c *capacity.Capacity, l Line) (frame.Point, bool) {
	if c == nil || len(l.Points) == 0 || !record.Same(a.d.Runs(), c.Rule.Over, a.v.X) {
		return frame.Point{}, false
	}
	for _, found := range c.Lines {
		top, ok := found.Top()
		for _, p := range l.Points {
			if ok && p.Levels[c.Rule.Over] == top.Level && p.Has(found.Factors) {
				return p, true
			}
		}
	}
	return frame.Point{}, false
}

// capacities lists the highest loads within the quality of service.
func (a *artist) capacities() table.Table {
	c := a.capacity()
	if c == nil {
		return table.Table{}
	}
	drawn := c.Tables(false)[0]
	t := table.Table{Rows: drawn.Rows, Notes: drawn.Notes}
	for i, name := range drawn.Columns {
		if i < len(c.By) || i == len(drawn.Columns)-1 {
			t.AddLeft(label(name))
		} else {
			t.Add(strings.ReplaceAll(name, "_", " "))
		}
	}
	return t
}

// compared returns the panels that have a line for each of two levels of the series' factor; nil if the factor has more
// levels.
func (a *artist) compared() []Panel {
	if a.v.Series == "" || len(a.d.Levels(a.v.Series)) != 2 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a.panels), func(p Panel) bool { return len(p.Lines) != 2 })
}

// pairs calls f with the points of the two lines of a panel at each level of the x axis that both have.
func (a *artist) pairs(p Panel, f func(first, second frame.Point)) {
	for _, first := range p.Lines[0].Points {
		if second, ok := a.at(p.Lines[1], first.Levels[a.v.X]); ok {
			f(first, second)
		}
	}
}

// measure is a quantity by which two lines are compared.
type measure struct {
	name  string
	unit  plot.Unit
	value func(frame.Point) sample.Estimate
}

func (a *artist) measures() []measure {
	metric := a.quality().Condition.Term.Metric.Name
	return []measure{
		{"throughput", plot.OpsPerSecond, a.v.throughput},
		{metricName(metric), metricUnit(metric), a.serviceMetric},
	}
}

// ratio returns the ratio of the second point's value to the first's.
func (m measure) ratio(first, second frame.Point, confidence float64) sample.Estimate {
	return ratio(m.value(second), m.value(first), confidence)
}

// headToHead draws the ratios of the second line's values to the first's.
func (a *artist) headToHead() (charts []plot.Chart) {
	for _, p := range a.compared() {
		y := plot.Axis{Label: fmt.Sprintf("%s / %s", p.Lines[1].Name, p.Lines[0].Name), FromZero: true}
		c := plot.Chart{Title: p.Name, X: a.xAxis(), Y: y, Marks: []plot.Mark{plot.Limit{Y: 1}}}
		any := false
		least, greatest := 1.0, 1.0
		for i, m := range a.measures() {
			drawn := plot.Line{Name: m.name, Series: i}
			a.pairs(p, func(first, second frame.Point) {
				r := m.ratio(first, second, a.d.Confidence)
				drawn.Points = append(drawn.Points, point(a.d.place(a.v, first), r))
				if r.OK() && r.Mean > 0 {
					least, greatest = min(least, r.Mean), max(greatest, r.Mean)
				}
			})
			any = any || known(drawn)
			c.Marks = append(c.Marks, drawn)
		}
		c.Y.Log = greatest >= farApart*least
		if any {
			charts = append(charts, c)
		}
	}
	return charts
}

// versus lists the values of two lines with their ratios.
func (a *artist) versus() table.Table {
	compared := a.compared()
	if len(compared) == 0 {
		return table.Table{}
	}
	t := table.Table{}
	if len(a.panels) > 1 {
		t.AddLeft("panel")
	}
	t.Add(label(a.v.X))
	for _, m := range a.measures() {
		t.Add(m.name+", "+compared[0].Lines[0].Name, compared[0].Lines[1].Name, "ratio")
	}
	for _, p := range compared {
		a.pairs(p, func(first, second frame.Point) {
			var row []string
			if len(a.panels) > 1 {
				row = append(row, p.Name)
			}
			row = append(row, marked(first.Levels[a.v.X], frame.Point{Runs: slices.Concat(first.Runs, second.Runs)}))
			for _, m := range a.measures() {
				row = append(row, shownAs(m.value(first), m.unit), shownAs(m.value(second), m.unit),
					shownRatio(m.ratio(first, second, a.d.Confidence)))
			}
			t.Rows = append(t.Rows, row)
		})
	}
	t.Notes = []string{fmt.Sprintf("Ratios are those of the means, second to first, with their %.0f %% confidence "+
		"intervals (Fieller). ~: the interval contains 1, so the difference may be chance.",
		100*a.d.Confidence)}
	return t
}

// shownRatio returns "1.25 [1.20, 1.31]", or "1.25 [unbounded]" if the interval of the base contains 0.
func shownRatio(e sample.Estimate) string {
	if !e.OK() {
		return "–"
	}
	text := fmt.Sprintf("%.2f", e.Mean)
	if e.Known() {
		text += fmt.Sprintf(" [%.2f, %.2f]", e.Low, e.High)
		if e.Contains(1) {
			text += " ~"
		}
	} else if e.N > 1 {
		text += " [unbounded]"
	}
	return whole(text)
}
