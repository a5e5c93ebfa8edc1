package compare

import (
	"fmt"
	"math"
	"slices"

	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// Ratios returns two tables of comparisons with the same side A: the ratios of the pairs, and the medians of all sides.
// names has the name of A, then those of the comparisons' sides B.
func Ratios(comparisons []*Comparison, names []string) []table.Block {
	metrics := comparisons[0].metrics()
	ratios := table.Table{
		Caption: "Ratios to " + names[0], Columns: append([]string{"", "point"}, metrics...), Left: []int{1},
		Notes: []string{fmt.Sprintf("Geometric means of the ratios of runs of one repetition, with their %.0f %% "+
			"confidence intervals.", 100*comparisons[0].Confidence)},
	}
	medians := table.Table{Caption: "Medians", Columns: ratios.Columns, Left: ratios.Left}
	add := func(side string, p Point, of func(Metric) Sample) {
		row := []string{side, name(p.Label)}
		for _, metric := range metrics {
			m, _ := p.metric(metric)
			row = append(row, median(metric, of(m).Values))
		}
		medians.Rows = append(medians.Rows, row)
	}
	for _, p := range comparisons[0].Points {
		add(names[0], p, func(m Metric) Sample { return m.A })
		for i, c := range comparisons {
			at := slices.IndexFunc(c.Points, func(other Point) bool { return other.Label == p.Label })
			if at < 0 {
				continue
			}
			row := []string{names[i+1], name(p.Label)}
			for _, metric := range metrics {
				text := "-"
				if m, _ := c.Points[at].metric(metric); m.Ratio != nil {
					text = m.Ratio.RatioText()
				}
				row = append(row, text)
			}
			ratios.Rows = append(ratios.Rows, row)
			add(names[i+1], c.Points[at], func(m Metric) Sample { return m.B })
		}
	}
	return []table.Block{ratios, medians}
}

// median returns the median of values of a metric as text.
func median(metric string, values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return number(metric, sample.Number(sample.Quantile(slices.Sorted(slices.Values(values)), 0.5)))
}

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
