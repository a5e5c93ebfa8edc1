package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// cpuPerRequest is the processor time of the middlewares per request of the clients.
func cpuPerRequest(p frame.Point) sample.Estimate {
	return p.Estimate(record.SourceMiddleware, "cpu_per_request")
}

// cost draws throughput, processor time per request and the 99th percentile. With several panels it draws only the
// processor time.
func (a *artist) cost() []plot.Chart {
	draw := func(title, name string, unit plot.Unit, log bool, f func(frame.Point) sample.Estimate) []plot.Chart {
		charts := a.lines(plot.Axis{Label: name, Unit: unit, FromZero: !log, Log: log}, f, nil)
		if len(charts) == 1 {
			charts[0].Title = title
		}
		return charts
	}
	cpu := draw("CPU per request", "CPU per request", plot.Seconds, false, cpuPerRequest)
	if len(cpu) != 1 {
		return cpu
	}
	return slices.Concat(draw("Throughput", "throughput", plot.OpsPerSecond, false, a.v.throughput), cpu,
		draw("99th percentile", "response time, p99", plot.Seconds, true, a.client("response_time_p99")))
}

// kneeShare is the share of the highest throughput that a line reaches at its knee.
const kneeShare = 0.9

// growth describes for each line where its throughput is highest, and how its cost grows along the x axis.
func (a *artist) growth() table.Table {
	t := table.Table{}
	t.AddLeft("line")
	t.Add("highest throughput", "at "+label(a.v.X), "within 10 % of it from")
	t.AddLeft("CPU per request")
	if !a.d.numeric(a.v) {
		return t
	}
	rate := func(p frame.Point) float64 { return a.v.throughput(p).Mean }
	a.each(func(panel Panel, l Line) {
		text := growth(label(a.v.X), a.line(l, cpuPerRequest).Points)
		if text == "" {
			return
		}
		best := slices.MaxFunc(l.Points, func(p, q frame.Point) int { return cmp.Compare(rate(p), rate(q)) })
		knee := l.Points[slices.IndexFunc(l.Points, func(p frame.Point) bool {
			return rate(p) >= kneeShare*rate(best)
		})]
		t.Rows = append(t.Rows, []string{
			cmp.Or(join(panel.Name, l.Name), "all"), shownAs(a.v.throughput(best), plot.OpsPerSecond),
			best.Levels[a.v.X], knee.Levels[a.v.X], text,
		})
	})
	return t
}

// linearWithin is the largest relative deviation of a point from a straight line that is called linear.
const linearWithin = 0.25

// growth describes the growth of the CPU per request with x. It is linear if no point deviates more than linearWithin
// from the straight line with the least sum of squared relative deviations. Otherwise growth returns the exponents of
// the first and the last half: the slopes of log y over log x by least squares. It returns "" for less than three
// points or unknown values.
func growth(each string, points []plot.Point) string {
	if len(points) < 3 {
		return ""
	}
	var xs, ys, weights, logXs, logYs []float64
	for _, p := range points {
		if !(p.X > 0 && p.Y > 0) {
			return ""
		}
		xs, ys, weights = append(xs, p.X), append(ys, p.Y), append(weights, 1/(p.Y*p.Y))
		logXs, logYs = append(logXs, math.Log(p.X)), append(logYs, math.Log(p.Y))
	}
	a, b := stat.LinearRegression(xs, ys, weights, false)
	worst := 0.0
	for i, x := range xs {
		worst = max(worst, math.Abs((a+b*x)/ys[i]-1))
	}
	if worst <= linearWithin && a > 0 {
		return fmt.Sprintf("linear: %s + %s for each of %s, within %.0f %%", plot.Seconds.Format(a),
			plot.Seconds.Format(b), each, 100*worst)
	}
	half := (len(xs) + 1) / 2
	_, first := stat.LinearRegression(logXs[:half], logYs[:half], nil, false)
	_, second := stat.LinearRegression(logXs[half-1:], logYs[half-1:], nil, false)
	return fmt.Sprintf("not linear: as the power %.2f from %.6g to %.6g, %.2f from there to %.6g", first, xs[0],
		xs[half-1], second, xs[len(xs)-1])
}
