package sample

import (
	"encoding/json"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

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
