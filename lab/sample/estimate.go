package sample

import (
	"encoding/json"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is the mean of a sample, or a ratio of two means, with its confidence interval.
type Estimate struct {
	Moments
	Interval
}

// Estimate returns the estimate of a population's mean from a sample, for a confidence such as 0.95:
//
//	x +- t[1-a/2; n-1] s/sqrt(n), a = 1 - confidence
//
// (Jain, section 13.2.) It holds for values that are independent and normal; means of runs nearly are. The interval is
// unbounded for fewer than two values.
func (m Moments) Estimate(confidence float64) Estimate {
	if m.N < 2 {
		return Estimate{m, unknown}
	}
	return Estimate{m, Around(m.Mean, StudentQuantile((1+confidence)/2, m.N-1)*m.StandardError())}
}

// OK reports whether there is a value.
func (e Estimate) OK() bool { return e.N > 0 }

// Percent returns half of the interval's width in per cent of the mean; NaN or infinite if there is no such number.
func (e Estimate) Percent() float64 { return 100 * e.HalfWidth() / math.Abs(e.Mean) }

// Format returns the text of the mean, followed by Percent in a format such as " ± %.1f %%" if that is a number.
func (e Estimate) Format(mean, percent string) string {
	if !Number(e.Percent()).Known() {
		return mean
	}
	return mean + fmt.Sprintf(percent, e.Percent())
}

// MarshalJSON writes the mean and the ends of its interval, which are null if they are not known.
func (e Estimate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Mean  float64 `json:"mean"`
		Low   Number  `json:"low"`
		High  Number  `json:"high"`
		Known bool    `json:"known"`
	}{e.Mean, Number(e.Low), Number(e.High), e.Known()})
}

// Ratio returns the ratio of two means with its confidence interval by E. C. Fieller's theorem ("Some problems in
// interval estimation", Journal of the Royal Statistical Society B 16, 1954) with Welch's degrees of freedom. It
// contains all ratios r for which x2 - r x1, with x2 of the sample "of" and x1 of "to", is not significantly different
// from 0:
//
//	(x2 - r x1)^2 <= t^2 (s2^2/n2 + r^2 s1^2/n1), t = t[1-a/2; v]
//
// It is unbounded if a sample has fewer than two values, or if the mean of "to" is not significantly different from 0.
// There is no ratio if a sample is empty, or if the mean of "to" is 0.
func Ratio(of, to Moments, confidence float64) Estimate {
	r := Estimate{Interval: unknown}
	if of.N == 0 || to.N == 0 || to.Mean == 0 {
		return r
	}
	r.Moments = Moments{N: min(of.N, to.N), Mean: of.Mean / to.Mean}
	d := Welch(to, of, confidence)
	if math.IsNaN(d.Freedom) {
		return r
	}
	t := StudentQuantile((1+confidence)/2, d.Freedom)
	// a r^2 - 2 b r + c <= 0
	a := to.Mean*to.Mean - t*t*(to.Variance()/to.N)
	b := to.Mean * of.Mean
	c := of.Mean*of.Mean - t*t*(of.Variance()/of.N)
	if a > 0 {
		root := math.Sqrt(max(b*b-a*c, 0))
		r.Interval = Interval{(b - root) / a, (b + root) / a}
	}
	return r
}

// Interval is a confidence interval; it is unbounded if the sample is too small.
type Interval struct{ Low, High float64 }

// MarshalJSON writes a list of the two ends, which are null if the interval is unbounded.
func (i Interval) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]Number{Number(i.Low), Number(i.High)})
}

// unknown is the interval of a sample that is too small.
var unknown = Interval{math.Inf(-1), math.Inf(1)}

// Known reports whether the interval is bounded.
func (i Interval) Known() bool { return !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0) }

// HalfWidth returns half of the interval's width.
func (i Interval) HalfWidth() float64 { return (i.High - i.Low) / 2 }

// Contains reports whether x is in the interval.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Overlaps reports whether the intervals have a point in common. The difference can then be chance. An unbounded
// interval overlaps every other.
func (i Interval) Overlaps(o Interval) bool { return i.Low <= o.High && o.Low <= i.High }

// Around returns x +- d; it is unbounded if d is NaN.
func Around(x, d float64) Interval {
	if math.IsNaN(d) {
		return unknown
	}
	return Interval{x - d, x + d}
}

// StudentQuantile returns t[p; df], 0 < p < 1, df > 0.
func StudentQuantile(p, df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}

// Moments summarize values: their number, their mean, and the sum of their squared distances from it. The zero value
// stands for no values.
type Moments struct{ N, Mean, M2 float64 }

// Of returns the moments of values. It makes two passes, so that a large common offset costs no precision.
func Of(values []float64) Moments {
	n := float64(len(values))
	if len(values) < 2 {
		m := Moments{N: n}
		if len(values) == 1 {
			m.Mean = values[0]
		}
		return m
	}
	mean, variance := stat.MeanVariance(values, nil)
	return Moments{N: n, Mean: mean, M2: variance * (n - 1)}
}

// Add adds one value:
//
//	mean' = mean + (x - mean)/n',  M2' = M2 + (x - mean)(x - mean')
//
// B. P. Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics 4 (1962).
func (m *Moments) Add(x float64) {
	m.N++
	d := x - m.Mean
	m.Mean += d / m.N
	m.M2 += d * (x - m.Mean)
}

// Variance returns s^2 = M2/(n-1), the estimate of the population's variance; NaN for fewer than two values.
func (m Moments) Variance() float64 {
	if m.N < 2 {
		return math.NaN()
	}
	return m.M2 / (m.N - 1)
}

// StdDev returns s, the square root of Variance.
func (m Moments) StdDev() float64 { return math.Sqrt(m.Variance()) }

// Variation returns the coefficient of variation, s/|x|. It is NaN if the mean is 0 or s is unknown.
func (m Moments) Variation() float64 {
	if m.Mean == 0 {
		return math.NaN()
	}
	return m.StdDev() / math.Abs(m.Mean)
}

// StandardError returns the standard deviation of the mean, s/sqrt(n).
func (m Moments) StandardError() float64 { return m.StdDev() / math.Sqrt(m.N) }

// Number is a number that may be NaN (unknown) or infinite. JSON has neither; there both are null.
type Number float64

// Known reports whether the number is known and finite.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes the number, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// PairedRatio returns the ratio of two quantities that were measured in pairs, of[i] beside to[i], with its interval:
// the geometric mean of the pairs' ratios, and the interval of the mean of their logarithms,
//
//	exp(m +- t[1-a/2; n-1] s/sqrt(n)), m and s of ln(of[i]/to[i])
//
// What disturbs both values of a pair alike doesn't count. Swapped quantities give the inverse. Pairs with a value that
// is not positive don't count.
func PairedRatio(of, to []float64, confidence float64) Estimate {
	var logs []float64
	for i := range of {
		if of[i] > 0 && to[i] > 0 {
			logs = append(logs, math.Log(of[i]/to[i]))
		}
	}
	e := Of(logs).Estimate(confidence)
	if !e.OK() {
		return e
	}
	// The standard deviation of a ratio is, to first order, that of its logarithm times the ratio.
	mean := math.Exp(e.Mean)
	return Estimate{Moments{e.N, mean, e.M2 * mean * mean}, Interval{math.Exp(e.Low), math.Exp(e.High)}}
}

// RatioText returns a ratio with its interval: "1.080 [0.980, 1.190]", or "1.080 [too few]"; "-" if there is none.
func (e Estimate) RatioText() string {
	switch {
	case !e.OK():
		return "-"
	case !e.Known(), e.High > 100*e.Low: // two pairs that differ: such an interval says nothing
		return fmt.Sprintf("%.3f [too few]", e.Mean)
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", e.Mean, e.Low, e.High)
}

// Quantile returns the p-quantile, 0 <= p <= 1, of sorted values by linear interpolation between the values around
// place 1 + (n-1)p. It is NaN for no values. This is type 7 of R. J. Hyndman, Y. Fan, "Sample quantiles in statistical
// packages", The American Statistician 50 (1996), the default of numpy and R.
func Quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := p * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	if i == len(sorted)-1 {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
