package report

import (
	"math"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// artist draws the figures and fills the tables of a view.
type artist struct {
	d      *Data
	v      View
	panels []Panel
	models map[string]plot.Figure // of package model; made when the first is drawn
	err    error                  // the first error of reading histograms or windows
}

func (d *Data) artist(v View) *artist { return &artist{d: d, v: v, panels: d.Panels(v)} }

// each calls f for every line of every panel.
func (a *artist) each(f func(Panel, Line)) {
	for _, panel := range a.panels {
		for _, l := range panel.Lines {
			f(panel, l)
		}
	}
}

// wide is the ratio of the largest to the smallest level from which on the x axis is logarithmic.
const wide = 1000

func (a *artist) xAxis() plot.Axis {
	if !a.d.numeric(a.v) {
		return a.categories()
	}
	axis := plot.Axis{Label: label(a.v.X), FromZero: true}
	for _, l := range a.d.Levels(a.v.X) {
		n, _ := record.Level(l).Number()
		axis.At = append(axis.At, n)
	}
	axis.Log = axis.At[0] > 0 && axis.At[len(axis.At)-1]/axis.At[0] >= wide
	return axis
}

// categories returns the x axis with a position for each level.
func (a *artist) categories() plot.Axis {
	return plot.Axis{Label: label(a.v.X), Categories: a.d.Levels(a.v.X)}
}

func point(x float64, e sample.Estimate) plot.Point {
	if !e.OK() {
		return plot.At(x, math.NaN())
	}
	if e.N < 2 {
		return plot.At(x, e.Mean)
	}
	low := e.Low
	if e.Mean >= 0 {
		low = max(0, low) // the metrics cannot be negative
	}
	return plot.Between(x, e.Mean, low, e.High)
}

// line draws f at the points of l. The points are joined if the levels of the x axis are numbers.
func (a *artist) line(l Line, f func(frame.Point) sample.Estimate) plot.Line {
	drawn := plot.Line{Name: l.Name, Series: l.Number}
	if !a.d.numeric(a.v) {
		drawn.Look = plot.Dots
	}
	for _, p := range l.Points {
		drawn.Points = append(drawn.Points, point(a.place(l, p), f(p)))
	}
	return drawn
}

// place returns the position of a point of l on the x axis. If the levels of the axis aren't numbers, it is beside
// those of the other lines.
func (a *artist) place(l Line, p frame.Point) float64 {
	x := a.d.place(a.v, p)
	if n := float64(len(a.d.Levels(a.v.Series))); a.v.Series != "" && !a.d.numeric(a.v) {
		x += (float64(l.Number) - (n-1)/2) * min(0.15, 0.7/n)
	}
	return x
}

// ring marks a point of l at f.
func (a *artist) ring(l Line, p frame.Point, f func(frame.Point) sample.Estimate) plot.Ring {
	return plot.Ring{X: a.place(l, p), Y: f(p).Mean, Series: l.Number}
}

// known reports whether any point of the line has a value.
func known(l plot.Line) bool {
	return slices.ContainsFunc(l.Points, func(p plot.Point) bool { return !math.IsNaN(p.Y) })
}

// lines draws a chart for every panel: f for each line, and the marks that more returns. Panels without a value are
// left out.
func (a *artist) lines(y plot.Axis, f func(frame.Point) sample.Estimate, more func(Panel) []plot.Mark) []plot.Chart {
	return a.linesOf(y, func(Line) func(frame.Point) sample.Estimate { return f }, more)
}

// linesOf is lines with a function for each line.
func (a *artist) linesOf(y plot.Axis, f func(Line) func(frame.Point) sample.Estimate,
	more func(Panel) []plot.Mark,
) []plot.Chart {
	var charts []plot.Chart
	for _, panel := range a.panels {
		c := plot.Chart{Title: panel.Name, X: a.xAxis(), Y: y}
		any := false
		for _, l := range panel.Lines {
			drawn := a.line(l, f(l))
			any = any || known(drawn)
			c.Marks = append(c.Marks, drawn)
		}
		if !any {
			continue
		}
		if more != nil {
			c.Marks = append(c.Marks, more(panel)...)
		}
		charts = append(charts, c)
	}
	return charts
}

// withMarks appends a chart unless it is empty.
func withMarks(charts []plot.Chart, c plot.Chart) []plot.Chart {
	if len(c.Marks) == 0 {
		return charts
	}
	return append(charts, c)
}

// eachLine draws a chart for every line.
func (a *artist) eachLine(x, y plot.Axis, marks func(Line) []plot.Mark) (charts []plot.Chart) {
	a.each(func(panel Panel, l Line) {
		charts = withMarks(charts, plot.Chart{Title: join(panel.Name, l.Name), X: x, Y: y, Marks: marks(l)})
	})
	return charts
}

// atSaturation draws a chart for the point of saturation of every line.
func (a *artist) atSaturation(x, y plot.Axis, marks func(frame.Point) []plot.Mark) (charts []plot.Chart) {
	a.each(func(panel Panel, l Line) {
		for _, p := range l.saturated() {
			title := join(panel.Name, l.Name, levelName(a.v.X, p.Levels[a.v.X]))
			charts = withMarks(charts, plot.Chart{Title: title, X: x, Y: y, Marks: marks(p)})
		}
	})
	return charts
}

// join joins the names that are not empty.
func join(names ...string) string {
	return strings.Join(slices.DeleteFunc(names, func(n string) bool { return n == "" }), ", ")
}

// client returns an estimate of the clients, or of the middlewares if the clients did not measure the metric.
func (a *artist) client(metric string) func(frame.Point) sample.Estimate {
	return func(p frame.Point) sample.Estimate { return a.v.client(p, metric) }
}

func (a *artist) middleware(metric string) func(frame.Point) sample.Estimate {
	return func(p frame.Point) sample.Estimate { return p.Estimate(record.SourceMiddleware, metric) }
}

// law returns dashed lines with the values of the interactive law. It does not hold for requests of one command.
func (a *artist) law(panel Panel, f func(record.Run) (float64, bool)) (marks []plot.Mark) {
	if a.v.Command != "" {
		return nil
	}
	name := "interactive law"
	for _, l := range panel.Lines {
		computed := a.line(l, func(p frame.Point) sample.Estimate { return p.Derive(f) })
		for i := range computed.Points {
			computed.Points[i].Low, computed.Points[i].High = 0, 0
		}
		computed.Name, computed.Look = name, plot.Computed
		if known(computed) {
			marks = append(marks, computed)
			name = ""
		}
	}
	return marks
}

func (a *artist) throughput() []plot.Chart {
	y := plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true}
	return a.lines(y, a.client("throughput"), func(panel Panel) []plot.Mark {
		marks := a.law(panel, func(r record.Run) (float64, bool) { return lawThroughput(r, record.SourceClient, 0) })
		highest := 0.0
		for _, l := range panel.Lines {
			for _, p := range l.Points {
				highest = max(highest, a.v.throughput(p).Mean)
			}
			for _, p := range l.saturated() {
				if l.From == l.Index && !l.Growing { // it is significant
					marks = append(marks, a.ring(l, p, a.v.throughput))
				}
			}
		}
		if a.v.Command != "" {
			return marks
		}
		return append(marks, a.bandwidths(panel.Lines, limitRoom*highest)...)
	})
}

func (a *artist) responseTime() []plot.Chart {
	y := plot.Axis{Label: "response time", Unit: plot.Seconds, FromZero: true}
	return a.lines(y, a.client("response_time_mean"), func(panel Panel) []plot.Mark {
		return a.law(panel, lawResponseTime)
	})
}

func (a *artist) queueLength() []plot.Chart {
	return a.lines(plot.Axis{Label: "requests in the queue", FromZero: true}, a.middleware("queue_length_mean"), nil)
}

func (a *artist) queueTime() []plot.Chart {
	return a.lines(plot.Axis{Label: "time in the queue", Unit: plot.Seconds, FromZero: true},
		a.middleware(a.v.metric("stage_queue_mean")), nil)
}

func (a *artist) serviceTime() []plot.Chart {
	metric := a.v.metric("service_time_mean")
	servers := servers(a.d.Points, metric)
	return a.eachLine(a.xAxis(), plot.Axis{Label: "service time", Unit: plot.Seconds, FromZero: true},
		func(l Line) (marks []plot.Mark) {
			for i, s := range servers {
				drawn := a.line(l, func(p frame.Point) sample.Estimate { return p.Estimate(s, metric) })
				drawn.Name, drawn.Series = strings.TrimPrefix(s, record.SourceServer), i
				if known(drawn) {
					marks = append(marks, drawn)
				}
			}
			slowest := a.line(l, a.middleware(a.v.metric("stage_server_mean")))
			slowest.Name, slowest.Look, slowest.Series = "last reply of a request", plot.Computed, len(servers)
			if len(servers) != 1 && known(slowest) {
				marks = append(marks, slowest)
			}
			return marks
		})
}

// stageName returns the name of a stage in figures and tables: "net" for stage_net_mean.
func stageName(metric string) string {
	return strings.TrimSuffix(strings.TrimPrefix(metric, "stage_"), "_mean")
}

// at returns the point of a line with this level of the x axis.
func (a *artist) at(l Line, level string) (frame.Point, bool) {
	i := slices.IndexFunc(l.Points, func(p frame.Point) bool { return p.Levels[a.v.X] == level })
	if i < 0 {
		return frame.Point{}, false
	}
	return l.Points[i], true
}

// layer is a layer of stacked bars.
type layer struct {
	name   string
	series int
	value  func(frame.Point) sample.Estimate
}

// stacked draws stacked bars over the levels of the x axis for every line. Layers without a value are left out. The
// layers beyond are drawn only on top of others.
func (a *artist) stacked(y plot.Axis, layers []layer, beyond ...layer) []plot.Chart {
	return a.eachLine(a.categories(), y, func(l Line) []plot.Mark {
		bars := plot.Bars{}
		add := func(layers []layer) {
			for _, one := range layers {
				drawn := plot.Layer{Name: one.name, Series: one.series}
				any := false
				for _, level := range a.d.Levels(a.v.X) {
					e := sample.Estimate{}
					if p, ok := a.at(l, level); ok {
						e = one.value(p)
					}
					any = any || e.OK()
					drawn.Values = append(drawn.Values, point(0, e).Y)
				}
				if any {
					bars.Layers = append(bars.Layers, drawn)
				}
			}
		}
		add(layers)
		if len(bars.Layers) == 0 {
			return nil
		}
		add(beyond)
		return []plot.Mark{bars}
	})
}

func (a *artist) stages() []plot.Chart {
	var layers []layer
	for i, stage := range record.Stages {
		layers = append(layers, layer{stageName(stage), i, a.middleware(a.v.metric(stage))})
	}
	outside := layer{"outside", 7, func(p frame.Point) sample.Estimate { return p.Derive(a.v.outside) }}
	return a.stacked(plot.Axis{Label: "response time", Unit: plot.Seconds, FromZero: true}, layers, outside)
}

// outside returns the difference between the response times at the clients and in the middleware.
func (v View) outside(r record.Run) (float64, bool) {
	client, okC := r.Value(record.SourceClient, v.metric("response_time_mean"))
	middleware, okM := r.Value(record.SourceMiddleware, v.metric("response_time_mean"))
	return max(0, client-middleware), okC && okM
}

func (a *artist) utilization() []plot.Chart {
	y := plot.Axis{Label: "utilization", Unit: plot.Ratio, FromZero: true, Min: 0, Max: 1}
	all := a.componentNames()
	return a.eachLine(a.xAxis(), y, func(l Line) (marks []plot.Mark) {
		var names []string
		byName := map[string]*plot.Line{}
		for _, p := range l.Points {
			for _, c := range a.d.components(p) {
				if byName[c.Name] == nil {
					names = append(names, c.Name)
					byName[c.Name] = &plot.Line{Name: c.Name, Series: slices.Index(all, c.Name)}
				}
				used := point(a.d.place(a.v, p), c.Utilization)
				used.High = min(used.High, max(used.Y, 1)) // error bars end at 1
				byName[c.Name].Points = append(byName[c.Name].Points, used)
			}
		}
		for _, name := range names {
			marks = append(marks, *byName[name])
		}
		return marks
	})
}

// componentNames returns the names of all components. Their order is that of their series in every panel.
func (a *artist) componentNames() []string {
	names := []string{
		"workers", processorOf(record.SourceHost), "bandwidth of the path", "load generator",
		"processor of the middleware",
	}
	for _, s := range servers(a.d.Points, "seconds_cpu") {
		names = append(names, processorOf(s))
	}
	for _, p := range a.d.Points {
		for _, c := range a.d.components(p) {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// cpuCategories are the categories of processor time, named as in mpstat, in the order of the stack.
var cpuCategories = []string{"user", "system", "softirq", "irq", "iowait", "steal"}

func (a *artist) host() []plot.Chart {
	var layers []layer
	for i, category := range cpuCategories {
		mean := func(r record.Run) (float64, bool) {
			if v, ok := r.Value(record.SourceHost, "cpu_"+category); ok {
				return v, true
			}
			means, _ := a.d.sampled(r.ID) // none if they can't be read
			return record.Find(means, record.SourceHost, "cpu_"+category)
		}
		layers = append(layers, layer{category, i, func(p frame.Point) sample.Estimate { return p.Derive(mean) }})
	}
	return a.stacked(plot.Axis{Label: "processor time", Unit: plot.Ratio, FromZero: true, Min: 0, Max: 1}, layers)
}

// ratio returns the ratio of two estimates; that of an estimate to itself is certain.
func ratio(e, base sample.Estimate, confidence float64) sample.Estimate {
	r := sample.Ratio(e.Moments, base.Moments, confidence)
	if r.OK() && e.Moments == base.Moments {
		r.Interval = sample.Interval{Low: 1, High: 1}
	}
	return r
}

func (a *artist) relative() []plot.Chart {
	f, compared := a.client("response_time_mean"), false
	a.each(func(_ Panel, l Line) { compared = compared || len(l.Points) > 1 })
	if !compared {
		return nil
	}
	return a.linesOf(plot.Axis{Label: "response time, relative", FromZero: true},
		func(l Line) func(frame.Point) sample.Estimate {
			return func(p frame.Point) sample.Estimate { return ratio(f(p), f(l.Points[0]), a.d.Confidence) }
		}, func(Panel) []plot.Mark { return []plot.Mark{plot.Limit{Y: 1}} })
}

func (a *artist) scalability() []plot.Chart {
	all := a.d.Levels(a.v.Series)
	if a.v.Series == "" || len(all) < 2 {
		return nil
	}
	x := plot.Axis{Label: label(a.v.Series), FromZero: true}
	for _, l := range all {
		n, ok := record.Level(l).Number()
		if !ok || n <= 0 {
			return nil
		}
		x.At = append(x.At, n)
	}
	c := plot.Chart{X: x, Y: plot.Axis{Label: "highest throughput, relative", FromZero: true}}
	top := 0.0
	for i, panel := range a.panels {
		drawn := plot.Line{Name: panel.Name, Series: i}
		if panel.Name == "" {
			drawn.Name = "measured"
		}
		var base sample.Estimate
		for _, l := range panel.Lines {
			if l.Highest < 0 {
				continue
			}
			highest := a.v.throughput(l.Points[l.Highest])
			if !base.OK() {
				base = highest
			}
			n, _ := record.Level(l.Level).Number()
			drawn.Points = append(drawn.Points, point(n, ratio(highest, base, a.d.Confidence)))
		}
		if len(drawn.Points) > 1 {
			c.Marks = append(c.Marks, drawn)
			for _, p := range drawn.Points {
				top = max(top, p.Y)
			}
		}
	}
	if len(c.Marks) == 0 {
		return nil
	}
	least, most := x.At[0], x.At[len(x.At)-1]
	end := min(most/least, limitRoom*top) // a longer line would press the values to the bottom
	c.Marks = append(c.Marks, plot.Line{
		Name:   "proportional",
		Points: []plot.Point{plot.At(least, 1), plot.At(end*least, end)}, Look: plot.Computed, Series: 7,
	})
	return []plot.Chart{c}
}
