package sample

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Trend describes the drift of a series of equally long windows.
type Trend struct {
	Tau   float64 // Kendall's rank correlation with time: -1 always falling, 0 none, 1 always rising
	P     float64 // probability of a trend at least this strong in a series without one
	Slope float64 // Sen's: the median change from one window to the next
	// change from the first to the last window according to the slope, divided by the median of the values; NaN if that
	// is 0
	Drift float64
}

// MinTrend is the smallest number of values in which TrendOf finds a trend.
const MinTrend = 8

// TrendOf tests whether values, in the order of time, drift up or down. It uses M. G. Kendall's rank correlation with
// time (H. B. Mann, "Nonparametric tests against trend", Econometrica 13, 1945), which assumes no distribution and is
// robust against single outliers:
//
//	S = sum over i < j of sign(x_j - x_i)
//	Var S = (n(n-1)(2n+5) - sum of t(t-1)(2t+5))/18, t numbers of tied values
//	Z = (S -+ 1)/sqrt(Var S c), tau = S/(n(n-1)/2)
//
// c corrects for windows that resemble their predecessors, as windows of a queue do: these make S vary more than Var S
// says, so that trends would be found everywhere (S. Yue, C. Wang, "The Mann-Kendall test modified by effective sample
// size to detect trend in serially correlated hydrological series", Water Resources Management 18, 2004). If the
// correlation r of neighbours, after subtracting the slope, is significantly more than 0,
//
//	c = 1 + 2 sum over k = 1..n-1 of (1 - k/n) r^k
//
// The slope is P. K. Sen's, the median of (x_j - x_i)/(j - i) over i < j ("Estimates of the regression coefficient
// based on Kendall's tau", Journal of the American Statistical Association 63, 1968). For fewer than MinTrend values P
// is 1. Neighbours in series of more than 600 values are first averaged.
func TrendOf(values []float64) Trend {
	values = thin(values, 600)
	n := len(values)
	if n < MinTrend {
		return Trend{P: 1, Drift: math.NaN()}
	}
	s := 0
	slopes := make([]float64, 0, n*(n-1)/2)
	for j := range values {
		for i := range j {
			d := values[j] - values[i]
			switch {
			case d > 0:
				s++
			case d < 0:
				s--
			}
			slopes = append(slopes, d/float64(j-i))
		}
	}
	sorted := slices.Sorted(slices.Values(values))
	f := float64(n)
	variance := f * (f - 1) * (2*f + 5)
	for i := 0; i < n; {
		j := i
		for j < n && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		variance -= t * (t - 1) * (2*t + 5)
		i = j
	}
	slices.Sort(slopes)
	trend := Trend{Tau: float64(s) / (f * (f - 1) / 2), Slope: Quantile(slopes, 0.5), P: 1, Drift: math.NaN()}
	if median := Quantile(sorted, 0.5); median != 0 {
		trend.Drift = trend.Slope * (f - 1) / median
	}
	if s == 0 || variance <= 0 {
		return trend
	}
	variance *= inflation(values, trend.Slope)
	z := (math.Abs(float64(s)) - 1) / math.Sqrt(variance/18)
	trend.P = min(1, 2*distuv.UnitNormal.Survival(z))
	return trend
}

// inflation returns the correction c of TrendOf.
func inflation(values []float64, slope float64) float64 {
	n := float64(len(values))
	level := make([]float64, len(values))
	for i, x := range values {
		level[i] = x - slope*float64(i)
	}
	r := Autocorrelation(level, 1)
	// The 5 % limit of a series without correlation (R. L. Anderson, Annals of Mathematical Statistics 13, 1942).
	if math.IsNaN(r) || r <= (-1+1.645*math.Sqrt(n-2))/(n-1) {
		return 1
	}
	c, power := 1.0, 1.0
	for k := 1.0; k < n; k++ {
		power *= r
		c += 2 * (1 - k/n) * power
	}
	return c
}

// thin averages neighbours until there are no more than limit values.
func thin(values []float64, limit int) []float64 {
	group := (len(values) + limit - 1) / limit
	if group <= 1 {
		return values
	}
	var means []float64
	for part := range slices.Chunk(values, group) {
		means = append(means, stat.Mean(part, nil))
	}
	return means
}

// Autocorrelation returns the correlation of values with the values that are lag places later:
//
//	sum of (x_i - x)(x_(i+lag) - x) / sum of (x_i - x)^2
//
// G. E. P. Box, G. M. Jenkins, "Time Series Analysis", section 2.1. It is NaN if all values are the same, or if there
// are at most lag values.
func Autocorrelation(values []float64, lag int) float64 {
	if len(values) <= lag {
		return math.NaN()
	}
	m := Of(values)
	if m.M2 == 0 {
		return math.NaN()
	}
	sum := 0.0
	for i := lag; i < len(values); i++ {
		sum += (values[i-lag] - m.Mean) * (values[i] - m.Mean)
	}
	return sum / m.M2
}
