package sample

import "math"

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
