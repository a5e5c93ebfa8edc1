package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// tables is the catalog of tables, in the order of the page.
var tables = []kind[table.Table]{
	{"configuration", "Configuration", "", (*artist).configuration},
	{"maximum", "Maximum throughput", "", (*artist).maximum},
	{"capacity", "Highest load within the quality of service", "", (*artist).capacities},
	{"head-to-head", "Head to head", "", (*artist).versus},
	{"growth", "How the cost grows", "", (*artist).growth},
	{"breakdown", "Where the time goes at the point of saturation", "", (*artist).breakdown},
	{"law", "Interactive response time law", "", (*artist).interactive},
	{"profile", "What the middlewares' processors do", "", (*artist).profile},
	{"results", "All points", "", (*artist).results},
	{"warnings", "Violated checks and failed runs", "", (*artist).warnings},
}

// TableNames returns the names of all tables.
func TableNames() []string { return namesOf(tables) }

// Tables makes those tables that have one of the names; without names, all for which the record has measurements.
func (d *Data) Tables(v View, names []string) []table.Table {
	a := d.artist(v)
	var filled []table.Table
	for _, k := range selected(tables, names) {
		t := k.make(a)
		if len(t.Rows) == 0 && len(names) == 0 {
			continue
		}
		t.Label, t.Caption, t.Command = k.name, k.title, d.Command(v, "table", k.name)
		if k.name != "warnings" && k.name != "configuration" {
			t.Warnings = d.Caution(a.pointsOf(k.name))
		}
		filled = append(filled, t)
	}
	return filled
}

// shownAs returns an estimate with its unit and, if it has an interval, the half width of that in percent of the mean.
func shownAs(e sample.Estimate, u plot.Unit) string {
	if !e.OK() {
		return "–"
	}
	percent := " \u00b1\u00a0%.0f\u00a0%%"
	if e.Percent() < 9.95 {
		percent = " \u00b1\u00a0%.1f\u00a0%%"
	}
	return e.Format(whole(u.Format(e.Mean)), percent)
}

// whole returns a text that is not broken across lines: with no-break spaces.
func whole(text string) string { return strings.ReplaceAll(text, " ", "\u00a0") }

// marked adds a sign to a text about a point whose runs violate checks.
func marked(text string, p frame.Point) string {
	if slices.ContainsFunc(p.Runs, func(r record.Run) bool { return len(r.Warnings) > 0 }) {
		text += " ⚠"
	}
	return text
}

// configuration lists the levels of the factors, and where the experiment ran.
func (a *artist) configuration() table.Table {
	t := table.Table{}
	t.AddLeft("setting", "value")
	add := func(name, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{name, value})
		}
	}
	m := a.d.Manifest
	add("experiment", join(m.Name, m.Title))
	for _, f := range byPreference(a.d.Factors(), axisOrder) {
		all := a.d.Levels(f)
		value := strings.Join(all, ", ")
		if len(all) > 1 {
			value = "[" + value + "]"
		}
		add(label(f), value)
	}
	least, most, seconds := math.MaxInt, 0, sample.Moments{}
	for _, p := range a.d.Points {
		least, most = min(least, len(p.Runs)), max(most, len(p.Runs))
		for _, r := range p.Runs {
			seconds.Add(r.Seconds)
		}
	}
	repetitions := fmt.Sprint(most)
	if least != most {
		repetitions = fmt.Sprintf("%d to %d", least, most)
	}
	add("repetitions", repetitions)
	add("measured for", plot.Seconds.Format(seconds.Mean))
	for _, v := range m.Path {
		described, _ := record.Describe(v.Metric)
		add(v.Source+": "+strings.ReplaceAll(v.Metric, "_", " "), plot.UnitOf(described.Unit).Format(v.Value))
	}
	add("testbed", m.Testbed)
	for _, shortfall := range m.Shortfalls {
		add("testbed falls short", shortfall)
	}
	add("imported from", m.Imported)
	cores, memory := "", ""
	if m.Host.Cores > 0 {
		cores = fmt.Sprintf("%d cores", m.Host.Cores)
	}
	if m.Host.Memory > 0 {
		memory = fmt.Sprintf("%.1f GiB", float64(m.Host.Memory)/(1<<30))
	}
	add("host", join(m.Host.CPU, cores, memory, m.Host.OS, m.Host.Kernel))
	for _, name := range slices.Sorted(maps.Keys(m.Host.Settings)) {
		add(name, m.Host.Settings[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		add(name, m.Versions[name])
	}
	add("made by", CommandLine(m.Command))
	if !m.Created.IsZero() {
		add("created", m.Created.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return t
}

// named returns the first cells of a row about a line: its panel and its level, if there are several.
func (a *artist) named(panel Panel, l Line) (cells []string) {
	if len(a.v.Panels) > 0 {
		cells = append(cells, panel.Name)
	}
	if a.v.Series != "" {
		cells = append(cells, l.Level)
	}
	return cells
}

// cell is a column of a table of points.
type cell struct {
	name string
	text func(frame.Point) string
}

// estimate returns the column of a metric at a source.
func estimate(name, source, metric string) cell {
	return cell{name, func(p frame.Point) string { return shownAs(p.Estimate(source, metric), metricUnit(metric)) }}
}

// derived returns the column of the values that f computes from runs.
func derived(name string, u plot.Unit, f func(record.Run) (float64, bool)) cell {
	return cell{name, func(p frame.Point) string { return shownAs(p.Derive(f), u) }}
}

// rows returns a table with a row for each of the points that choose selects from a line. A row names panel and line,
// and the level of the x axis; then come the cells.
func (a *artist) rows(choose func(Line) []frame.Point, cells ...cell) table.Table {
	t := table.Table{}
	if len(a.v.Panels) > 0 {
		t.AddLeft("panel")
	}
	if a.v.Series != "" {
		t.Add(label(a.v.Series))
	}
	t.Add(label(a.v.X))
	for _, c := range cells {
		t.Add(c.name)
	}
	a.each(func(panel Panel, l Line) {
		for _, p := range choose(l) {
			row := append(a.named(panel, l), marked(p.Levels[a.v.X], p))
			for _, c := range cells {
				row = append(row, c.text(p))
			}
			t.Rows = append(t.Rows, row)
		}
	})
	return t
}

// maximum lists the points of saturation, as the reports do, with an explanation of each below.
func (a *artist) maximum() table.Table {
	t := a.rows(
		Line.saturated,
		estimate("throughput, clients", record.SourceClient, a.v.metric("throughput")),
		estimate("throughput, middleware", record.SourceMiddleware, a.v.metric("throughput")),
		derived("derived from response time", plot.OpsPerSecond, func(r record.Run) (float64, bool) {
			trip, _ := a.d.path(r, record.SourcePath, "round_trip_time_mean")
			return lawThroughput(r, record.SourceMiddleware, trip)
		}),
		estimate("response time, clients", record.SourceClient, a.v.metric("response_time_mean")),
		estimate("response time, middleware", record.SourceMiddleware, a.v.metric("response_time_mean")),
		estimate("time in queue", record.SourceMiddleware, a.v.metric("stage_queue_mean")),
		estimate("queue length", record.SourceMiddleware, "queue_length_mean"),
		estimate("waiting for servers", record.SourceMiddleware, a.v.metric("stage_server_mean")),
		derived("misses", plot.Ratio, missed),
	)
	t.AddLeft("limited by")
	a.each(func(panel Panel, l Line) {
		for range l.saturated() {
			i := len(t.Notes)
			t.Rows[i] = append(t.Rows[i], cmp.Or(l.Bottleneck.Name, "–"))
			t.Notes = append(t.Notes, a.finding(panel, l))
		}
	})
	t.Notes = append(t.Notes,
		fmt.Sprintf("± is half the width of the %.0f %% confidence interval. Derived: N/(R + Z), with R as the "+
			"middleware measured it and Z the round-trip time and the think time.", 100*a.d.Confidence))
	return t
}

// breakdown lists the stages at the points of saturation.
func (a *artist) breakdown() table.Table {
	const mw = record.SourceMiddleware
	sum := func(r record.Run) (total float64, ok bool) {
		for _, stage := range record.Stages {
			v, known := r.Value(mw, a.v.metric(stage))
			total += v
			ok = ok || known
		}
		return total, ok
	}
	var cells []cell
	for _, stage := range record.Stages {
		cells = append(cells, estimate(stageName(stage), mw, a.v.metric(stage)))
	}
	return a.rows(
		func(l Line) []frame.Point {
			return slices.DeleteFunc(slices.Clone(l.saturated()), func(p frame.Point) bool {
				return !p.Derive(sum).OK()
			})
		},
		append(cells, derived("sum", plot.Seconds, sum),
			estimate("response time, middleware", mw, a.v.metric("response_time_mean")),
			derived("outside", plot.Seconds, a.v.outside),
			estimate("response time, clients", record.SourceClient, a.v.metric("response_time_mean")))...,
	)
}

// interactive compares measured response times with those of the interactive law.
func (a *artist) interactive() table.Table {
	difference := func(r record.Run) (float64, bool) {
		predicted, measured, ok := frame.ByLaw(r, record.SourceClient)
		return measured - predicted, ok
	}
	t := a.rows(
		func(l Line) []frame.Point {
			return slices.DeleteFunc(slices.Clone(l.Points), func(p frame.Point) bool {
				return !p.Derive(difference).OK()
			})
		},
		estimate("throughput", record.SourceClient, "throughput"),
		estimate("response time", record.SourceClient, "response_time_mean"),
		derived("N/X - Z", plot.Seconds, lawResponseTime),
		cell{"difference", func(p frame.Point) string { return plot.Seconds.Format(p.Derive(difference).Mean) }},
		cell{"relative", func(p frame.Point) string {
			return fmt.Sprintf("%+.2f %%", 100*p.Derive(difference).Mean/p.Derive(lawResponseTime).Mean)
		}},
	)
	t.Notes = []string{"N is the number of requests that the clients keep outstanding, X the throughput, Z the think " +
		"time, all at the clients."}
	return t
}

// missed returns the share of the requested keys that were not found.
func missed(r record.Run) (float64, bool) {
	hits, ok := r.Value(record.SourceClient, "hits")
	misses, okM := r.Value(record.SourceClient, "misses")
	return misses / (hits + misses), ok && okM && hits+misses > 0
}

// results lists all points.
func (a *artist) results() table.Table {
	cells := []cell{
		{"repetitions", func(p frame.Point) string { return fmt.Sprint(len(p.Runs)) }},
		{"throughput", func(p frame.Point) string { return shownAs(a.v.throughput(p), plot.OpsPerSecond) }},
		{"response time", func(p frame.Point) string {
			return shownAs(a.v.client(p, "response_time_mean"), plot.Seconds)
		}},
	}
	for _, percent := range []float64{50, 90, 99} {
		cells = append(cells, cell{fmt.Sprintf("%.0f %%", percent), func(p frame.Point) string {
			return shownAs(a.percentile(p, percent), plot.Seconds)
		}})
	}
	t := a.rows(
		func(l Line) []frame.Point { return l.Points },
		append(cells, estimate("queue length", record.SourceMiddleware, "queue_length_mean"),
			derived("misses", plot.Ratio, missed), cell{"errors", func(p frame.Point) string {
				e := p.Estimate(record.SourceClient, a.v.metric("errors"))
				if !e.OK() {
					return "–"
				}
				return fmt.Sprintf("%.0f", e.Mean*e.N)
			}})...,
	)
	t.Notes = []string{fmt.Sprintf("± is half the width of the %.0f %% confidence interval of the mean over the "+
		"repetitions; errors are the sum over them. ⚠: a run of the point violates a check.", 100*a.d.Confidence)}
	return t
}

// warnings lists the violated checks and the failed runs.
func (a *artist) warnings() table.Table {
	t := table.Table{}
	t.AddLeft("run", "levels", "check", "message")
	varied := a.d.Varied()
	for _, w := range a.d.Warnings {
		t.Rows = append(t.Rows, []string{"the set", "", w.Code, w.Message})
	}
	for _, r := range a.d.Failed {
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(r.ID), levelNames(varied, r.Factors), "failed",
			r.Error + " (not used)",
		})
	}
	a.each(func(_ Panel, l Line) {
		for _, r := range (frame.Frame{Points: l.Points}).Runs() {
			for _, w := range r.Warnings {
				t.Rows = append(t.Rows, []string{fmt.Sprint(r.ID), levelNames(varied, r.Factors), w.Code, w.Message})
			}
		}
	})
	return t
}
