package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
)

// tableKind is a table that can be made of records that measured what it needs.
type tableKind struct {
	name, title string
	// fill returns a table without rows where what it needs was not measured.
	fill func(*artist) Table
}

// tableKinds is the catalog, in the order of the page.
var tableKinds = []tableKind{
	{"configuration", "Configuration", (*artist).configuration},
	{"maximum", "Maximum throughput", (*artist).maximum},
	{"capacity", "Highest load within the quality of service", (*artist).capacities},
	{"head-to-head", "Head to head", (*artist).versus},
	{"growth", "How the cost grows", (*artist).growth},
	{"breakdown", "Where the time goes at the point of saturation", (*artist).breakdown},
	{"law", "Interactive response time law", (*artist).interactive},
	{"results", "All points", (*artist).results},
	{"warnings", "Violated checks and failed runs", (*artist).warnings},
}

// TableNames returns the names of all tables.
func TableNames() []string {
	names := make([]string, len(tableKinds))
	for i, k := range tableKinds {
		names[i] = k.name
	}
	return names
}

// Tables makes the tables with these names, or, without names, all that the record allows.
func (d *Data) Tables(v View, names []string) ([]Table, error) {
	for _, name := range names {
		if !slices.Contains(TableNames(), name) {
			return nil, fmt.Errorf("there is no table %q: expected one of %s", name, strings.Join(TableNames(), ", "))
		}
	}
	a := &artist{d: d, v: v, analysis: d.Analyse(v)}
	var tables []Table
	for _, k := range tableKinds {
		if len(names) > 0 && !slices.Contains(names, k.name) {
			continue
		}
		t := k.fill(a)
		if len(t.Rows) == 0 && len(names) == 0 {
			continue
		}
		t.Name, t.Title, t.Command = k.name, k.title, d.Command(v, "table", k.name)
		if k.name != "warnings" && k.name != "configuration" {
			t.Warnings = d.Caution(a.behind(k.name))
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// shownAs returns an estimate with its unit and, where there is one, half the width of its interval.
func shownAs(e Estimate, u plot.Unit) string {
	if !e.OK() {
		return "–"
	}
	text := whole(u.Format(e.Mean))
	if e.Interval.Known() && e.Mean != 0 {
		text += " " + whole("± "+relativeWidth(e))
	}
	return text
}

// together is a space at which no line is broken.
const together = "\u00a0"

// whole returns a text that is not broken across lines.
func whole(text string) string { return strings.ReplaceAll(text, " ", together) }

// relativeWidth returns half the width of an interval in per cent of the mean.
func relativeWidth(e Estimate) string {
	percent := 100 * e.Interval.HalfWidth() / math.Abs(e.Mean)
	if percent < 9.95 {
		return fmt.Sprintf("%.1f %%", percent)
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// marked adds a sign to a text of a point whose runs violate checks.
func marked(text string, p Point) string {
	for _, r := range p.Runs {
		if len(r.Warnings) > 0 {
			return text + " ⚠"
		}
	}
	return text
}

// configuration lists what was set, and where it ran.
func (a *artist) configuration() Table {
	t := Table{Columns: []Column{words("setting"), words("value")}}
	add := func(name, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{name, value})
		}
	}
	m := a.d.Manifest
	add("experiment", join(m.Name, m.Title))
	for _, f := range byPreference(factors(a.d.Points), axisOrder) {
		all := levels(a.d.Points, f)
		if i := slices.IndexFunc(t.Rows, func(row []string) bool { return row[0] == label(f) }); i >= 0 && sameFactor(a.d.Points, f, "connections") {
			continue // clients are what connections are, by another name
		}
		value := strings.Join(all, ", ")
		if len(all) > 1 {
			value = "[" + value + "]"
		}
		add(label(f), value)
	}
	least, most, seconds := math.MaxInt, 0, Estimate{}
	for _, p := range a.d.Points {
		least, most = min(least, len(p.Runs)), max(most, len(p.Runs))
		for _, r := range p.Runs {
			seconds.Moments.Add(r.Seconds)
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
	add("host", join(m.Host.CPU, cores(m.Host.Cores), memory(m.Host.Memory), m.Host.OS, m.Host.Kernel))
	for _, name := range slices.Sorted(maps.Keys(m.Host.Settings)) {
		add(name, m.Host.Settings[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		add(name, m.Versions[name])
	}
	if len(m.Command) > 0 {
		var words []string
		for _, w := range m.Command {
			words = append(words, quoted(w))
		}
		add("made by", strings.Join(words, " "))
	}
	if !m.Created.IsZero() {
		add("created", m.Created.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return t
}

func cores(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d cores", n)
}

func memory(bytes uint64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// named returns the first cells of a row about a line: its panel and its series, where there are several.
func (a *artist) named(panel Panel, l Line) (cells []string) {
	if len(a.v.Panels) > 0 {
		cells = append(cells, panel.Name)
	}
	if a.v.Series != "" {
		cells = append(cells, l.Level)
	}
	return cells
}

func (a *artist) lineColumns() (columns []Column) {
	if len(a.v.Panels) > 0 {
		columns = append(columns, words("panel"))
	}
	if a.v.Series != "" {
		columns = append(columns, number(label(a.v.Series)))
	}
	return columns
}

func (a *artist) each(f func(panel Panel, l Line, s Saturation)) {
	for i, panel := range a.analysis.Panels {
		for j, l := range panel.Lines {
			f(panel, l, a.analysis.Saturations[i][j])
		}
	}
}

// maximum is the reports' table of the maximum throughput, with the reason for the choice below.
func (a *artist) maximum() Table {
	t := Table{Columns: slices.Concat(a.lineColumns(), []Column{
		number(label(a.v.X)), number("throughput, clients"), number("throughput, middleware"), number("derived from response time"), number("response time, clients"),
		number("response time, middleware"), number("time in queue"), number("queue length"), number("waiting for servers"), number("misses"), words("limited by"),
	})}
	a.each(func(panel Panel, l Line, s Saturation) {
		p, ok := s.Point()
		if !ok {
			return
		}
		derived := p.derive(func(r record.Run) (float64, bool) {
			trip, _ := a.d.path(r, record.SourcePath, "round_trip_time_mean")
			return lawThroughput(r, record.SourceMiddleware, trip)
		})
		limit := cmp.Or(s.Bottleneck.Name, "–")
		t.Rows = append(t.Rows, append(a.named(panel, l), marked(p.Levels[a.v.X], p),
			shownAs(p.Estimate(record.SourceClient, a.v.metric("throughput")), plot.OpsPerSecond),
			shownAs(p.Estimate(record.SourceMiddleware, a.v.metric("throughput")), plot.OpsPerSecond),
			shownAs(derived, plot.OpsPerSecond),
			shownAs(p.Estimate(record.SourceClient, a.v.metric("response_time_mean")), plot.Seconds),
			shownAs(p.Estimate(record.SourceMiddleware, a.v.metric("response_time_mean")), plot.Seconds),
			shownAs(p.Estimate(record.SourceMiddleware, a.v.metric("stage_queue_mean")), plot.Seconds),
			shownAs(p.Estimate(record.SourceMiddleware, "queue_length_mean"), plot.None),
			shownAs(p.Estimate(record.SourceMiddleware, a.v.metric("stage_server_mean")), plot.Seconds),
			shownAs(p.derive(missed), plot.Ratio), limit))
		t.Notes = append(t.Notes, a.finding(panel, l, s))
	})
	t.Notes = append(t.Notes, fmt.Sprintf("± is half the width of the %.0f %% confidence interval. Derived: N/(R + Z), with R as the middleware measured it and Z the round-trip time and the think time.", 100*a.d.Confidence))
	return t
}

// capital returns a sentence with its first letter large.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// breakdown is the stages at the point of saturation.
func (a *artist) breakdown() Table {
	t := Table{Columns: slices.Concat(a.lineColumns(), []Column{number(label(a.v.X))})}
	for _, name := range stageNames {
		t.Columns = append(t.Columns, number(name))
	}
	t.Columns = append(t.Columns, number("sum"), number("response time, middleware"), number("outside"), number("response time, clients"))
	a.each(func(panel Panel, l Line, s Saturation) {
		p, ok := s.Point()
		if !ok {
			return
		}
		row := append(a.named(panel, l), marked(p.Levels[a.v.X], p))
		sum := p.derive(func(r record.Run) (total float64, ok bool) {
			for _, stage := range record.Stages {
				v, known := r.Value(record.SourceMiddleware, a.v.metric(stage))
				total += v
				ok = ok || known
			}
			return total, ok
		})
		if !sum.OK() {
			return
		}
		for _, stage := range record.Stages {
			row = append(row, shownAs(p.Estimate(record.SourceMiddleware, a.v.metric(stage)), plot.Seconds))
		}
		t.Rows = append(t.Rows, append(row, shownAs(sum, plot.Seconds), shownAs(p.Estimate(record.SourceMiddleware, a.v.metric("response_time_mean")), plot.Seconds),
			shownAs(p.derive(a.v.outside), plot.Seconds), shownAs(p.Estimate(record.SourceClient, a.v.metric("response_time_mean")), plot.Seconds)))
	})
	return t
}

// interactive compares measured response times with those of the interactive law.
func (a *artist) interactive() Table {
	t := Table{Columns: slices.Concat(a.lineColumns(), []Column{
		number(label(a.v.X)), number("throughput"), number("response time"), number("N/X - Z"), number("difference"), number("relative"),
	})}
	a.each(func(panel Panel, l Line, _ Saturation) {
		for _, p := range l.Points {
			law := p.derive(func(r record.Run) (float64, bool) { return lawResponseTime(r, record.SourceClient) })
			measured := p.Estimate(record.SourceClient, "response_time_mean")
			if !law.OK() || !measured.OK() {
				continue
			}
			difference := p.derive(func(r record.Run) (float64, bool) {
				predicted, ok := lawResponseTime(r, record.SourceClient)
				got, okR := r.Value(record.SourceClient, "response_time_mean")
				return got - predicted, ok && okR
			})
			t.Rows = append(t.Rows, append(a.named(panel, l), marked(p.Levels[a.v.X], p), shownAs(p.Estimate(record.SourceClient, "throughput"), plot.OpsPerSecond),
				shownAs(measured, plot.Seconds), shownAs(law, plot.Seconds), plot.Seconds.Format(difference.Mean), fmt.Sprintf("%+.2f %%", 100*difference.Mean/law.Mean)))
		}
	})
	t.Notes = []string{"N is the requests that the clients keep outstanding, X the throughput, Z the think time, all at the clients."}
	return t
}

// missed returns the part of the keys asked for that were not found.
func missed(r record.Run) (float64, bool) {
	hits, ok := r.Value(record.SourceClient, "hits")
	misses, okM := r.Value(record.SourceClient, "misses")
	return misses / (hits + misses), ok && okM && hits+misses > 0
}

// results lists every point.
func (a *artist) results() Table {
	t := Table{Columns: slices.Concat(a.lineColumns(), []Column{number(label(a.v.X)), number("repetitions"), number("throughput"), number("response time")})}
	percentiles := []float64{50, 90, 99}
	for _, percent := range percentiles {
		t.Columns = append(t.Columns, number(fmt.Sprintf("%.0f %%", percent)))
	}
	t.Columns = append(t.Columns, number("queue length"), number("misses"), number("errors"))
	a.each(func(panel Panel, l Line, _ Saturation) {
		for _, p := range l.Points {
			row := append(a.named(panel, l), marked(p.Levels[a.v.X], p), fmt.Sprint(len(p.Runs)),
				shownAs(a.client("throughput")(p), plot.OpsPerSecond), shownAs(a.client("response_time_mean")(p), plot.Seconds))
			for _, percent := range percentiles {
				row = append(row, shownAs(a.percentile(p, percent), plot.Seconds))
			}
			failures := p.Estimate(record.SourceClient, a.v.metric("errors"))
			failed := "–"
			if failures.OK() {
				failed = fmt.Sprintf("%.0f", failures.Mean*failures.N)
			}
			t.Rows = append(t.Rows, append(row, shownAs(p.Estimate(record.SourceMiddleware, "queue_length_mean"), plot.None), shownAs(p.derive(missed), plot.Ratio), failed))
		}
	})
	t.Notes = []string{fmt.Sprintf("± is half the width of the %.0f %% confidence interval of the mean over the repetitions; errors are the sum over them. ⚠: a run of the point violates a check.", 100*a.d.Confidence)}
	return t
}

// warnings lists what speaks against relying on runs.
func (a *artist) warnings() Table {
	t := Table{Columns: []Column{words("run"), words("levels"), words("check"), words("message")}}
	varied := a.d.Varied()
	named := func(p map[string]string) string {
		var names []string
		for _, f := range varied {
			names = append(names, levelName(f, p[f]))
		}
		return strings.Join(names, ", ")
	}
	for _, w := range a.d.Warnings {
		t.Rows = append(t.Rows, []string{"the set", "", w.Code, w.Message})
	}
	for _, r := range a.d.Failed {
		t.Rows = append(t.Rows, []string{fmt.Sprint(r.ID), named(r.Factors), "failed", r.Error + " (not used)"})
	}
	for _, p := range a.d.arranged(a.v) {
		for _, r := range p.Runs {
			for _, w := range r.Warnings {
				t.Rows = append(t.Rows, []string{fmt.Sprint(r.ID), named(p.Levels), w.Code, w.Message})
			}
		}
	}
	return t
}
