package report

import (
	"math"
	"slices"
	"strings"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
)

// artist draws the figures of a view.
type artist struct {
	d        *Data
	v        View
	analysis Analysis
	models   map[string]plot.Figure // made by modelled when they are first drawn
}

func (a *artist) xAxis() plot.Axis {
	axis := plot.Axis{Label: label(a.v.X)}
	all := levels(a.d.Points, a.v.X)
	if !a.d.numeric(a.v) {
		axis.Categories = all
		return axis
	}
	axis.FromZero = true
	for _, l := range all {
		n, _ := levelNumber(l)
		axis.At = append(axis.At, n)
	}
	if n := len(axis.At); axis.At[0] > 0 && axis.At[n-1]/axis.At[0] >= wide {
		axis.Log = true
	}
	return axis
}

// wide is the least ratio of the greatest level to the least for which the axis is logarithmic.
const wide = 1000

// categories returns the x axis with a place for each level.
func (a *artist) categories() plot.Axis {
	return plot.Axis{Label: label(a.v.X), Categories: levels(a.d.Points, a.v.X)}
}

func point(x float64, e Estimate) plot.Point {
	if !e.OK() {
		return plot.At(x, math.NaN())
	}
	if e.N < 2 {
		return plot.At(x, e.Mean)
	}
	low := e.Interval.Low
	if e.Mean >= 0 {
		low = math.Max(0, low) // nothing that is drawn here can be negative
	}
	return plot.Between(x, e.Mean, low, e.Interval.High)
}

// line draws f at the points of l: joined along numbers; beside those of other lines at levels without an order.
func (a *artist) line(l Line, f func(Point) Estimate) plot.Line {
	drawn := plot.Line{Name: l.Name, Series: l.Number}
	aside := 0.0
	if !a.d.numeric(a.v) {
		drawn.Look = plot.Dots
		if n := len(levels(a.d.Points, a.v.Series)); a.v.Series != "" {
			aside = (float64(l.Number) - float64(n-1)/2) * min(0.15, 0.7/float64(n))
		}
	}
	for _, p := range l.Points {
		drawn.Points = append(drawn.Points, point(a.d.place(a.v, p)+aside, f(p)))
	}
	return drawn
}

func some(l plot.Line) bool {
	for _, p := range l.Points {
		if !math.IsNaN(p.Y) {
			return true
		}
	}
	return false
}

// lines draws a chart for every panel, with a line for each level, and what more adds to a panel. Panels without a value
// are left out.
func (a *artist) lines(y plot.Axis, f func(Point) Estimate, more func(panel int) []plot.Mark) []plot.Chart {
	var charts []plot.Chart
	for i, panel := range a.analysis.Panels {
		c := plot.Chart{Title: panel.Name, X: a.xAxis(), Y: y}
		any := false
		for _, l := range panel.Lines {
			drawn := a.line(l, f)
			any = any || some(drawn)
			c.Marks = append(c.Marks, drawn)
		}
		if !any {
			continue
		}
		if more != nil {
			c.Marks = append(c.Marks, more(i)...)
		}
		charts = append(charts, c)
	}
	return charts
}

// client returns the estimate of the clients, or of the middlewares where the clients did not measure.
func (a *artist) client(metric string) func(Point) Estimate {
	return func(p Point) Estimate {
		if e := p.Estimate(record.SourceClient, a.v.metric(metric)); e.OK() {
			return e
		}
		return p.Estimate(record.SourceMiddleware, a.v.metric(metric))
	}
}

// law returns dashed lines of what the interactive law says; none where requests of one kind are shown, for which it does not hold.
func (a *artist) law(panel int, f func(record.Run) (float64, bool)) (marks []plot.Mark) {
	if a.v.Command != "" {
		return nil
	}
	for _, l := range a.analysis.Panels[panel].Lines {
		computed := a.line(l, func(p Point) Estimate { return p.derive(f) })
		for i := range computed.Points {
			computed.Points[i].Low, computed.Points[i].High = 0, 0
		}
		computed.Name, computed.Look = "", plot.Computed
		if some(computed) {
			marks = append(marks, computed)
		}
	}
	return withLegend(marks, "interactive law")
}

func withLegend(marks []plot.Mark, name string) []plot.Mark {
	if len(marks) > 0 {
		l := marks[0].(plot.Line)
		l.Name = name
		marks[0] = l
	}
	return marks
}

// limitRoom is how far above the values the bandwidth limit may be and still be drawn: beyond, the values would be pressed
// to the bottom.
const limitRoom = 2.5

func (a *artist) throughput() ([]plot.Chart, error) {
	y := plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true}
	return a.lines(y, a.client("throughput"), func(i int) []plot.Mark {
		marks := a.law(i, func(r record.Run) (float64, bool) { return lawThroughput(r, record.SourceClient, 0) })
		highest := 0.0
		for j, l := range a.analysis.Panels[i].Lines {
			s := a.analysis.Saturations[i][j]
			if s.Highest >= 0 {
				highest = max(highest, a.client("throughput")(l.Points[s.Highest]).Mean)
			}
			if p, ok := s.Point(); ok && s.Told() {
				marks = append(marks, plot.Ring{X: a.d.place(a.v, p), Y: s.Throughput.Mean, Series: l.Number})
			}
		}
		if a.v.Command != "" {
			return marks
		}
		name := "bandwidth"
		for _, limit := range a.bandwidths(a.analysis.Panels[i].Lines) {
			if limit <= limitRoom*highest {
				marks = append(marks, plot.Limit{Name: name, Y: limit})
				name = ""
			}
		}
		return marks
	}), nil
}

// sameLimit is how far apart lines' bandwidth limits may be and still be drawn as one.
const sameLimit = 1.05

// bandwidths returns the bandwidth limits of lines; where they differ, as with other numbers of servers, more than one.
func (a *artist) bandwidths(lines []Line) (limits []float64) {
	limit := func(points []Point) (float64, bool) {
		e := (Point{Runs: runs(points), confidence: a.d.Confidence}).derive(a.d.bandwidthLimit)
		return e.Mean, e.OK()
	}
	type group struct {
		first  float64
		points []Point
	}
	var groups []group
	for _, l := range lines {
		of, known := limit(l.Points)
		if !known {
			continue
		}
		at := slices.IndexFunc(groups, func(g group) bool { return max(of/g.first, g.first/of) <= sameLimit })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{first: of})
		}
		groups[at].points = append(groups[at].points, l.Points...)
	}
	for _, g := range groups {
		if of, known := limit(g.points); known {
			limits = append(limits, of)
		}
	}
	return limits
}

func runs(points []Point) (all []record.Run) {
	for _, p := range points {
		all = append(all, p.Runs...)
	}
	return all
}

func (a *artist) responseTime() ([]plot.Chart, error) {
	y := plot.Axis{Label: "response time", Unit: plot.Seconds, FromZero: true}
	return a.lines(y, a.client("response_time_mean"), func(i int) []plot.Mark {
		return a.law(i, func(r record.Run) (float64, bool) { return lawResponseTime(r, record.SourceClient) })
	}), nil
}

func (a *artist) middleware(metric string) func(Point) Estimate {
	return func(p Point) Estimate { return p.Estimate(record.SourceMiddleware, metric) }
}

func (a *artist) queueLength() ([]plot.Chart, error) {
	return a.lines(plot.Axis{Label: "requests in the queue", FromZero: true}, a.middleware("queue_length_mean"), nil), nil
}

func (a *artist) queueTime() ([]plot.Chart, error) {
	return a.lines(plot.Axis{Label: "time in the queue", Unit: plot.Seconds, FromZero: true}, a.middleware(a.v.metric("stage_queue_mean")), nil), nil
}

// eachLine draws a chart for every line of every panel.
func (a *artist) eachLine(x, y plot.Axis, marks func(Line) ([]plot.Mark, error)) ([]plot.Chart, error) {
	var charts []plot.Chart
	for _, panel := range a.analysis.Panels {
		for _, l := range panel.Lines {
			drawn, err := marks(l)
			if err != nil {
				return nil, err
			}
			if len(drawn) > 0 {
				charts = append(charts, plot.Chart{Title: join(panel.Name, l.Name), X: x, Y: y, Marks: drawn})
			}
		}
	}
	return charts, nil
}

// join joins the names that are not empty.
func join(names ...string) string {
	var kept []string
	for _, n := range names {
		if n != "" {
			kept = append(kept, n)
		}
	}
	return strings.Join(kept, ", ")
}

func (a *artist) serviceTime() ([]plot.Chart, error) {
	metric := a.v.metric("service_time_mean")
	servers := sources(a.d.Points, record.SourceServer, metric)
	return a.eachLine(a.xAxis(), plot.Axis{Label: "service time", Unit: plot.Seconds, FromZero: true}, func(l Line) (marks []plot.Mark, err error) {
		for i, s := range servers {
			drawn := a.line(l, func(p Point) Estimate { return p.Estimate(s, metric) })
			drawn.Name, drawn.Series = strings.TrimPrefix(s, record.SourceServer), i
			if some(drawn) {
				marks = append(marks, drawn)
			}
		}
		slowest := a.line(l, a.middleware(a.v.metric("stage_server_mean")))
		slowest.Name, slowest.Look, slowest.Series = "the last of a request", plot.Computed, len(servers)
		if len(servers) != 1 && some(slowest) {
			marks = append(marks, slowest)
		}
		return marks, nil
	})
}

// stageNames are the stages' names in figures, in the order of record.Stages.
var stageNames = []string{"net", "queue", "worker", "server", "reply"}

// at returns the point of a line with this level of the x axis.
func (a *artist) at(l Line, level string) (Point, bool) {
	for _, p := range l.Points {
		if p.Levels[a.v.X] == level {
			return p, true
		}
	}
	return Point{}, false
}

// layer returns what f estimates at every level of the x axis.
func (a *artist) layer(name string, series int, l Line, f func(Point) Estimate) (plot.Layer, bool) {
	drawn, any := plot.Layer{Name: name, Series: series}, false
	for i, level := range levels(a.d.Points, a.v.X) {
		e := Estimate{}
		if p, ok := a.at(l, level); ok {
			e = f(p)
		}
		any = any || e.OK()
		drawn.Values = append(drawn.Values, point(float64(i), e))
	}
	return drawn, any
}

func (a *artist) stages() ([]plot.Chart, error) {
	return a.eachLine(a.categories(), plot.Axis{Label: "response time", Unit: plot.Seconds, FromZero: true}, func(l Line) ([]plot.Mark, error) {
		bars := plot.Bars{Stacked: true}
		for i, stage := range record.Stages {
			if drawn, ok := a.layer(stageNames[i], i, l, a.middleware(a.v.metric(stage))); ok {
				bars.Layers = append(bars.Layers, drawn)
			}
		}
		if len(bars.Layers) == 0 {
			return nil, nil
		}
		outside := func(p Point) Estimate { return p.derive(a.v.outside) }
		if drawn, ok := a.layer("outside", 7, l, outside); ok {
			bars.Layers = append(bars.Layers, drawn)
		}
		return []plot.Mark{bars}, nil
	})
}

// outside returns the response time at the clients without that in the middleware.
func (v View) outside(r record.Run) (float64, bool) {
	client, okC := r.Value(record.SourceClient, v.metric("response_time_mean"))
	middleware, okM := r.Value(record.SourceMiddleware, v.metric("response_time_mean"))
	return max(0, client-middleware), okC && okM
}

func (a *artist) utilization() ([]plot.Chart, error) {
	y := plot.Axis{Label: "utilization", Unit: plot.Ratio, FromZero: true, Min: 0, Max: 1}
	return a.eachLine(a.xAxis(), y, func(l Line) (marks []plot.Mark, err error) {
		var names []string
		byName := map[string]*plot.Line{}
		for _, p := range l.Points {
			for _, c := range a.d.components(p) {
				if byName[c.Name] == nil {
					names = append(names, c.Name)
					byName[c.Name] = &plot.Line{Name: c.Name}
				}
				used := point(a.d.place(a.v, p), c.Utilization)
				used.High = min(used.High, max(used.Y, 1)) // no interval reaches beyond all of the time
				byName[c.Name].Points = append(byName[c.Name].Points, used)
			}
		}
		for _, name := range names {
			byName[name].Series = a.componentNumber(name)
			marks = append(marks, *byName[name])
		}
		return marks, nil
	})
}

// componentNumber returns the same colour for a component in every panel.
func (a *artist) componentNumber(name string) int {
	for i, fixed := range []string{"workers", "processor of the host", "bandwidth of the path", "load generator"} {
		if fixed == name {
			return i
		}
	}
	for i, s := range sources(a.d.Points, record.SourceServer, "seconds_cpu") {
		if name == "processor of "+strings.TrimPrefix(s, record.SourceServer) {
			return 4 + i
		}
	}
	return 7
}

// cpuCategories are the categories of processor time, as mpstat has them, in the order of the stack.
var cpuCategories = []string{"user", "system", "softirq", "irq", "iowait", "steal"}

func (a *artist) host() ([]plot.Chart, error) {
	y := plot.Axis{Label: "processor time", Unit: plot.Ratio, FromZero: true, Min: 0, Max: 1}
	return a.eachLine(a.categories(), y, func(l Line) ([]plot.Mark, error) {
		bars := plot.Bars{Stacked: true}
		for i, category := range cpuCategories {
			f := func(r record.Run) (float64, bool) { return a.d.hostMean(r, "cpu_"+category) }
			if drawn, ok := a.layer(category, i, l, func(p Point) Estimate { return p.derive(f) }); ok {
				bars.Layers = append(bars.Layers, drawn)
			}
		}
		if len(bars.Layers) == 0 {
			return nil, nil
		}
		return []plot.Mark{bars}, nil
	})
}

func (a *artist) relative() ([]plot.Chart, error) {
	y := plot.Axis{Label: "response time, relative", FromZero: true}
	f := a.client("response_time_mean")
	var charts []plot.Chart
	for i, panel := range a.analysis.Panels {
		c := plot.Chart{Title: panel.Name, X: a.xAxis(), Y: y, Marks: []plot.Mark{plot.Limit{Y: 1}}}
		any := false
		for _, l := range a.analysis.Panels[i].Lines {
			base := f(l.Points[0])
			drawn := a.line(l, func(p Point) Estimate { return ratio(f(p), base, a.d.Confidence) })
			any = any || (some(drawn) && len(l.Points) > 1)
			c.Marks = append(c.Marks, drawn)
		}
		if any {
			charts = append(charts, c)
		}
	}
	return charts, nil
}

func (a *artist) scalability() ([]plot.Chart, error) {
	all := levels(a.d.Points, a.v.Series)
	if a.v.Series == "" || len(all) < 2 {
		return nil, nil
	}
	x := plot.Axis{Label: label(a.v.Series), FromZero: true}
	for _, l := range all {
		n, ok := levelNumber(l)
		if !ok || n <= 0 {
			return nil, nil
		}
		x.At = append(x.At, n)
	}
	c := plot.Chart{X: x, Y: plot.Axis{Label: "highest throughput, relative", FromZero: true}}
	for i, panel := range a.analysis.Panels {
		drawn := plot.Line{Name: panel.Name, Series: i}
		if panel.Name == "" {
			drawn.Name = "measured"
		}
		var base Estimate
		for j, l := range panel.Lines {
			s := a.analysis.Saturations[i][j]
			n, _ := levelNumber(l.Level)
			if s.Highest < 0 {
				continue
			}
			highest := a.client("throughput")(l.Points[s.Highest])
			if !base.OK() {
				base = highest
			}
			drawn.Points = append(drawn.Points, point(n, ratio(highest, base, a.d.Confidence)))
		}
		if len(drawn.Points) > 1 {
			c.Marks = append(c.Marks, drawn)
		}
	}
	if len(c.Marks) == 0 {
		return nil, nil
	}
	least, most := x.At[0], x.At[len(x.At)-1]
	proportional := plot.Line{Name: "in proportion", Points: []plot.Point{plot.At(least, 1)}, Look: plot.Computed, Series: 7}
	top := 0.0
	for _, m := range c.Marks {
		for _, p := range m.(plot.Line).Points {
			top = max(top, p.Y)
		}
	}
	end := min(most/least, limitRoom*top) // the line ends where it would press the values to the bottom
	proportional.Points = append(proportional.Points, plot.At(end*least, end))
	c.Marks = append(c.Marks, proportional)
	return []plot.Chart{c}, nil
}
