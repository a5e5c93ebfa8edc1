package factorial

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// QQ returns the points of a normal quantile-quantile plot of the residuals, in ascending order: y[i] is the i-th
// smallest of n residuals, x[i] the standard normal quantile of (i - 1/2)/n. Normal residuals lie on a line (Jain,
// section 14.7, who approximates the quantile).
func QQ(residuals []Residual) (x, y []float64) {
	for i, residual := range residuals {
		x = append(x, distuv.UnitNormal.Quantile((float64(i)+0.5)/float64(len(residuals))))
		y = append(y, residual.Error)
	}
	slices.Sort(y)
	return x, y
}

// Straightness returns the correlation of the points of a quantile-quantile plot: 1 on a line, NaN if all residuals are
// equal.
func Straightness(x, y []float64) float64 {
	if len(y) < 2 || y[0] == y[len(y)-1] {
		return math.NaN()
	}
	return stat.Correlation(x, y, nil)
}
