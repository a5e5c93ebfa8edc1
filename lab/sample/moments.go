package sample

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

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
