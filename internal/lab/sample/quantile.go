package sample

import "math"

// The quantile of a sample has several definitions, which differ for few values. All take sorted values and 0 <= p <= 1, and
// return NaN for no values.

// Quantile returns the p-quantile by linear interpolation between the values around place 1 + (n-1)p: type 7 of R. J. Hyndman, Y. Fan,
// "Sample quantiles in statistical packages", The American Statistician 50 (1996); numpy's and R's default.
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

// QuantileNearestRank returns the value at place ceil(n p): the smallest that at least the part p of the values doesn't
// exceed, as latency percentiles are counted.
func QuantileNearestRank(sorted []float64, p float64) float64 {
	return at(sorted, int(ceil(p*float64(len(sorted)))))
}

// QuantileJain returns the value at place 1 + (n-1)p, rounded to the nearest whole number, halves up (Jain, section 12.8).
func QuantileJain(sorted []float64, p float64) float64 {
	return at(sorted, 1+int(math.Floor(p*float64(len(sorted)-1)+0.5+1e-9)))
}

// at returns the value at a place counted from 1, or the first or last.
func at(sorted []float64, place int) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(max(place, 1), len(sorted))-1]
}
