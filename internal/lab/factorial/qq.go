package factorial

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Point is a point of a plot.
type Point struct{ X, Y float64 }

// QQ returns the points of a normal quantile-quantile plot of the residuals, in ascending order: Y is the i-th smallest of n residuals,
// X the standard normal quantile of (i - 1/2)/n. Normal residuals lie on a line (Jain, section 14.7, who approximates the quantile).
func QQ(residuals []Residual) []Point {
	points := make([]Point, len(residuals))
	for i, residual := range residuals {
		points[i].Y = residual.Error
	}
	slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.Y, b.Y) })
	for i := range points {
		points[i].X = distuv.UnitNormal.Quantile((float64(i) + 0.5) / float64(len(points)))
	}
	return points
}

// Straightness returns the correlation of the points of a quantile-quantile plot: 1 on a line, NaN if all residuals are equal.
func Straightness(points []Point) float64 {
	x, y := make([]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		x[i], y[i] = p.X, p.Y
	}
	if len(y) < 2 || slices.Min(y) == slices.Max(y) {
		return math.NaN()
	}
	return stat.Correlation(x, y, nil)
}
