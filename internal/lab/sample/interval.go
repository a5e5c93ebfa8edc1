package sample

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a range that holds what is estimated with a probability, or is without ends where the sample can't tell.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// unknown is the interval of a sample that is too small.
var unknown = Interval{math.Inf(-1), math.Inf(1)}

// Known reports whether the interval has ends.
func (i Interval) Known() bool { return !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0) }

// HalfWidth returns half of the interval's width.
func (i Interval) HalfWidth() float64 { return (i.High - i.Low) / 2 }

// Contains reports whether x is in the interval.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Overlaps reports whether the intervals have a point in common: if they have, what they hold can't be told apart. An interval without ends
// overlaps every other.
func (i Interval) Overlaps(o Interval) bool { return i.Low <= o.High && o.Low <= i.High }

// around returns x +- d.
func around(x, d float64) Interval {
	if math.IsNaN(d) {
		return unknown
	}
	return Interval{x - d, x + d}
}

// StudentQuantile returns t[p; df], 0 < p < 1, df > 0.
func StudentQuantile(p, df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}

// NormalQuantile returns z[p], 0 < p < 1.
func NormalQuantile(p float64) float64 { return distuv.UnitNormal.Quantile(p) }

// MeanInterval returns the confidence interval of the mean of which the values are a sample, for a confidence such as 0.95:
//
//	x +- t[1-a/2; n-1] s/sqrt(n), a = 1 - confidence
//
// (Jain, section 13.2.) It holds for values that are independent and normal, as means of runs are nearly. It is without ends for
// less than two values.
func MeanInterval(m Moments, confidence float64) Interval {
	if m.N < 2 {
		return unknown
	}
	return around(m.Mean, StudentQuantile((1+confidence)/2, m.N-1)*m.StandardError())
}

// LargeSample is the number of values from which MeanIntervalLarge may be used (Jain, section 13.2).
const LargeSample = 30

// MeanIntervalLarge returns the confidence interval of the mean from many values, of whatever distribution, by the central
// limit theorem: x +- z[1-a/2] s/sqrt(n). With less than LargeSample it is too narrow.
func MeanIntervalLarge(m Moments, confidence float64) Interval {
	return around(m.Mean, NormalQuantile((1+confidence)/2)*m.StandardError())
}

// ProportionInterval returns the confidence interval of a proportion of which k of n were seen, such as that of misses:
//
//	(p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), p = k/n, z = z[1-a/2]
//
// E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the American Statistical
// Association 22 (1927). Unlike p +- z sqrt(p(1-p)/n) (Jain, section 13.8) it holds for rare events and small n, too, and for k = 0.
func ProportionInterval(k, n, confidence float64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	p, z := k/n, NormalQuantile((1+confidence)/2)
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n)) / (1 + z*z/n)
	// At either end the formula gives the end itself, but for rounding.
	interval := Interval{max(0, centre-half), min(1, centre+half)}
	if k == 0 {
		interval.Low = 0
	}
	if k == n {
		interval.High = 1
	}
	return interval
}

// QuantileInterval returns the confidence interval of the p-quantile, 0 < p < 1, of what the sorted values are a sample of,
// whatever its distribution. Its ends are values: the number of values below the quantile is binomial with n and p, and
//
//	P(x_(j) <= quantile <= x_(k)) >= B(k-1; n, p) - B(j-1; n, p) >= confidence
//
// with at most a/2 left out on either side (W. J. Conover, "Practical Nonparametric Statistics", section 3.2). A side for which
// there are not enough values is without end.
func QuantileInterval(sorted []float64, p, confidence float64) Interval {
	interval := unknown
	n, tail := len(sorted), (1-confidence)/2
	if n == 0 {
		return interval
	}
	binomial := distuv.Binomial{N: float64(n), P: p}
	// x_(j), counted from 1, is above the quantile with probability P(less than j below it) = B(j-1).
	for j := n; j >= 1; j-- {
		if binomial.CDF(float64(j-1)) <= tail {
			interval.Low = sorted[j-1]
			break
		}
	}
	// x_(k) is below the quantile with probability P(at least k below it) = 1 - B(k-1).
	for k := 1; k <= n; k++ {
		if 1-binomial.CDF(float64(k-1)) <= tail {
			interval.High = sorted[k-1]
			break
		}
	}
	return interval
}

// Repetitions returns how many values it takes, by what was seen so far, for the confidence interval of the mean to be within
// accuracy times the mean on either side (0.05: 5 %): the smallest n >= 2 with
//
//	t[1-a/2; n-1] s/sqrt(n) <= accuracy |x|
//
// (Jain, section 13.9.1, who has z in place of t.) It returns 0 where that can't be told: for less than two values, a mean of 0,
// or more than MaxRepetitions.
func Repetitions(m Moments, accuracy, confidence float64) int {
	if m.N < 2 || m.Mean == 0 || accuracy <= 0 {
		return 0
	}
	s, allowed := m.StdDev(), accuracy*math.Abs(m.Mean)
	enough := func(n int) bool {
		return StudentQuantile((1+confidence)/2, float64(n-1))*s/math.Sqrt(float64(n)) <= allowed
	}
	low, high := 1, 2 // low is not enough
	for !enough(high) {
		if high >= MaxRepetitions {
			return 0
		}
		low, high = high, min(2*high, MaxRepetitions)
	}
	for high-low > 1 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// MaxRepetitions is the largest number that Repetitions returns.
const MaxRepetitions = 1 << 30

// RepetitionsOfProportion returns how many events it takes to know a proportion of about p to +- accuracy (0.01: one
// percentage point): z[1-a/2]^2 p(1-p)/accuracy^2 (Jain, section 13.9.2).
func RepetitionsOfProportion(p, accuracy, confidence float64) int {
	z := NormalQuantile((1 + confidence) / 2)
	return int(ceil(z * z * p * (1 - p) / (accuracy * accuracy)))
}

// ceil is math.Ceil that takes for whole what is so but for rounding.
func ceil(x float64) float64 { return math.Ceil(x - 1e-9*max(1, math.Abs(x))) }
