package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
)

// cpuPerRequest is the middlewares' processor time per request of the clients.
func cpuPerRequest(p Point) Estimate { return p.Estimate(record.SourceMiddleware, "cpu_per_request") }

// cost draws what clients get and what it costs. With several panels it is the processor time alone.
func (a *artist) cost() ([]plot.Chart, error) {
	draw := func(title, name string, unit plot.Unit, fromZero bool, f func(Point) Estimate) []plot.Chart {
		charts := a.lines(plot.Axis{Label: name, Unit: unit, FromZero: fromZero, Log: !fromZero}, f, nil)
		if len(charts) == 1 {
			charts[0].Title = title
		}
		return charts
	}
	cpu := draw("CPU per request", "CPU per request", plot.Seconds, true, cpuPerRequest)
	if len(cpu) != 1 {
		return cpu, nil
	}
	return slices.Concat(draw("Throughput", "throughput", plot.OpsPerSecond, true, a.client("throughput")), cpu,
		draw("99th percentile", "response time, p99", plot.Seconds, false, a.client("response_time_p99"))), nil
}

// kneeShare is the share of the highest throughput at which a line has reached its knee.
const kneeShare = 0.9

// growth says of each line where its throughput is highest, and how its cost grows along the x axis.
func (a *artist) growth() Table {
	t := Table{Columns: []Column{words("line"), {Name: "highest throughput"}, {Name: "at " + label(a.v.X)}, {Name: "within 10 % of it from"}, words("CPU per request")}}
	if !a.d.numeric(a.v) {
		return t
	}
	rate := a.client("throughput")
	for _, panel := range a.analysis.Panels {
		for _, l := range panel.Lines {
			text := growth(label(a.v.X), a.line(l, cpuPerRequest).Points)
			if text == "" {
				continue
			}
			best := slices.MaxFunc(l.Points, func(p, q Point) int { return cmp.Compare(rate(p).Mean, rate(q).Mean) })
			knee := l.Points[slices.IndexFunc(l.Points, func(p Point) bool { return rate(p).Mean >= kneeShare*rate(best).Mean })]
			t.Rows = append(t.Rows, []string{
				cmp.Or(join(panel.Name, l.Name), "all"), shownAs(rate(best), plot.OpsPerSecond), best.Levels[a.v.X], knee.Levels[a.v.X], text,
			})
		}
	}
	return t
}

// linearWithin is the largest relative deviation of a point from a straight line that is still called one.
const linearWithin = 0.25

// growth says in words how the CPU per request grows with x: by the straight line a + b x with the least sum of squared
// relative deviations if no point is further from it than linearWithin, else by the exponents of the first and the last
// half, the slopes of log y over log x by least squares. It is empty for less than three points, and where a value isn't known.
func growth(each string, points []plot.Point) string {
	if len(points) < 3 {
		return ""
	}
	var xs, ys []float64
	for _, p := range points {
		if !(p.X > 0 && p.Y > 0) {
			return ""
		}
		xs, ys = append(xs, p.X), append(ys, p.Y)
	}
	a, b := relativeLine(xs, ys)
	worst := 0.0
	for i := range xs {
		worst = max(worst, math.Abs((a+b*xs[i])/ys[i]-1))
	}
	if worst <= linearWithin && a > 0 {
		return fmt.Sprintf("linear: %s + %s for each of %s, within %.0f %%", plot.Seconds.Format(a), signed(b), each, 100*worst)
	}
	half := (len(xs) + 1) / 2
	return fmt.Sprintf("not linear: as the power %.2f from %.6g to %.6g, %.2f from there to %.6g",
		exponent(xs[:half], ys[:half]), xs[0], xs[half-1], exponent(xs[half-1:], ys[half-1:]), xs[len(xs)-1])
}

// relativeLine returns the line a + b x that minimises the sum of ((a + b x) / y - 1)^2.
func relativeLine(xs, ys []float64) (a, b float64) {
	var w, wx, wxx, wy, wxy float64
	for i, x := range xs {
		weight := 1 / (ys[i] * ys[i])
		w += weight
		wx += weight * x
		wxx += weight * x * x
		wy += weight * ys[i]
		wxy += weight * x * ys[i]
	}
	b = (w*wxy - wx*wy) / (w*wxx - wx*wx)
	return (wy - b*wx) / w, b
}

// exponent returns the slope of log y over log x by least squares.
func exponent(xs, ys []float64) float64 {
	var sx, sy, sxx, sxy float64
	n := float64(len(xs))
	for i := range xs {
		x, y := math.Log(xs[i]), math.Log(ys[i])
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// signed formats a time that may be negative.
func signed(seconds float64) string {
	if seconds < 0 {
		return "-" + plot.Seconds.Format(-seconds)
	}
	return plot.Seconds.Format(seconds)
}
