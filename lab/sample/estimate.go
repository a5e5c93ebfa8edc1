package sample

import (
	"encoding/json"
	"fmt"
	"math"
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
