package compare

import (
	"fmt"
	"math"

	"mcmw/lab/sample"
)

// GeometricMean is the geometric mean, over the points, of the ratio of a metric in B to that in A. Unlike the
// arithmetic mean of ratios it becomes the inverse if A and B are swapped (P. J. Fleming, J. J. Wallace, "How not to
// lie with statistics", Communications of the ACM 29, 1986).
type GeometricMean struct {
	Metric string `json:"metric"`
	Points int    `json:"points"` // that have the metric in both records
	// Change is the geometric mean of the ratios minus 1. Its interval covers the variation over repetitions, not over
	// other points: the variances of the logarithms (s^2/(n x^2) for each mean, to first order) add up, with Welch and
	// Satterthwaite's degrees of freedom.
	Change         sample.Number   `json:"change"`
	ChangeInterval sample.Interval `json:"change_interval"`
}

// geometricMeans returns the means of the metrics that more than one point has in both records.
func (c *Comparison) geometricMeans() (means []GeometricMean) {
	for _, name := range c.metrics() {
		g := GeometricMean{Metric: name, ChangeInterval: sample.Interval{Low: math.Inf(-1), High: math.Inf(1)}}
		sum, variance, freedom := 0.0, 0.0, 0.0
		for _, p := range c.Points {
			m, ok := p.metric(name)
			a, b := m.A.Moments, m.B.Moments
			if !ok || !(a.Mean > 0) || !(b.Mean > 0) {
				continue
			}
			g.Points++
			sum += math.Log(b.Mean / a.Mean)
			for _, side := range []sample.Moments{a, b} {
				v := side.Variance() / (side.N * side.Mean * side.Mean) // NaN for a single run
				variance += v
				freedom += v * v / (side.N - 1)
			}
		}
		if g.Points < 2 {
			continue
		}
		k := float64(g.Points)
		g.Change = sample.Number(math.Exp(sum/k) - 1)
		switch {
		case variance == 0:
			g.ChangeInterval = sample.Interval{Low: float64(g.Change), High: float64(g.Change)}
		case !math.IsNaN(variance):
			half := sample.StudentQuantile((1+c.Confidence)/2, variance*variance/freedom) * math.Sqrt(variance) / k
			g.ChangeInterval = sample.Interval{Low: math.Exp(sum/k-half) - 1, High: math.Exp(sum/k+half) - 1}
		}
		means = append(means, g)
	}
	return means
}

// text returns "geometric mean of 12 points: -5.2 % [-6.0, -4.4]".
func (g GeometricMean) text() string {
	m := Metric{Change: g.Change, ChangeInterval: g.ChangeInterval}
	return fmt.Sprintf("geometric mean of %d points: %s", g.Points, change(m))
}
