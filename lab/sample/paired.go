package sample

import (
	"fmt"
	"math"
)

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
