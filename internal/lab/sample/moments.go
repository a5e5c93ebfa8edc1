package sample

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Moments summarize values: their number, their mean, and the sum of their squared distances from it. The zero value is
// that of no values. Values may have weights; N is then the sum of the weights.
type Moments struct {
	N    float64 `json:"n"`
	Mean float64 `json:"mean"`
	M2   float64 `json:"m2"`
}

// Of returns the moments of values, by two passes, so that a large common offset does no harm.
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
func (m *Moments) Add(x float64) { m.AddWeighted(x, 1) }

// AddWeighted adds a value with the weight w >= 0 (D. H. D. West, Communications of the ACM 22, 1979).
func (m *Moments) AddWeighted(x, w float64) {
	m.Merge(Moments{N: w, Mean: x})
}

// Merge adds other values:
//
//	mean' = mean + d n2/(n1+n2),  M2' = M2 + M2_2 + d^2 n1 n2/(n1+n2),  d = mean_2 - mean
//
// T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
// Stanford STAN-CS-79-773 (1979).
func (m *Moments) Merge(o Moments) {
	if o.N == 0 {
		return
	}
	if m.N == 0 {
		*m = o
		return
	}
	n, d := m.N+o.N, o.Mean-m.Mean
	m.Mean += d * o.N / n
	m.M2 += o.M2 + d*d*m.N*o.N/n
	m.N = n
}

// Variance returns s^2 = M2/(n-1), the estimate for what the values are a sample of; NaN for less than two.
func (m Moments) Variance() float64 {
	if m.N < 2 {
		return math.NaN()
	}
	return m.M2 / (m.N - 1)
}

// StdDev returns s, the square root of Variance.
func (m Moments) StdDev() float64 { return math.Sqrt(m.Variance()) }

// Variation returns the coefficient of variation, s/|x|: a ratio. It is NaN where the mean is 0 or s is not known.
func (m Moments) Variation() float64 {
	if m.Mean == 0 {
		return math.NaN()
	}
	return m.StdDev() / math.Abs(m.Mean)
}

// StandardError returns the standard deviation of the mean, s/sqrt(n).
func (m Moments) StandardError() float64 { return m.StdDev() / math.Sqrt(m.N) }
