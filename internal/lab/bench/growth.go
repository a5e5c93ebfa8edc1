package bench

import (
	"fmt"
	"math"

	"mcmw/internal/lab/plot"
)

// linearWithin is the largest relative deviation of a point from a straight line that is still called one.
const linearWithin = 0.25

// growth says in words how the CPU per request grows with x: by the straight line a + b x with the least sum of squared
// relative deviations if no point is further from it than linearWithin, else by the exponents of the first and the last
// half, the slopes of log y over log x by least squares.
func growth(each string, points []CurvePoint) string {
	if len(points) < 3 {
		return ""
	}
	var xs, ys []float64
	for _, p := range points {
		if p.CPUPerRequest.Median <= 0 {
			return ""
		}
		xs, ys = append(xs, p.X), append(ys, p.CPUPerRequest.Median)
	}
	a, b := relativeLine(xs, ys)
	worst := 0.0
	for i := range xs {
		worst = max(worst, math.Abs((a+b*xs[i])/ys[i]-1))
	}
	if worst <= linearWithin && a > 0 {
		return fmt.Sprintf("linear: %s + %s per %s, within %.0f %%", plot.Seconds.Format(a), signed(b), each, 100*worst)
	}
	half := (len(xs) + 1) / 2
	return fmt.Sprintf("not linear: as the power %.2f from %s to %s, %.2f from there to %s",
		exponent(xs[:half], ys[:half]), number(xs[0]), number(xs[half-1]), exponent(xs[half-1:], ys[half-1:]), number(xs[len(xs)-1]))
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

func number(x float64) string { return fmt.Sprintf("%.6g", x) }
