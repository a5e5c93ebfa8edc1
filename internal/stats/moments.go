package stats

import (
	"math"
	"math/big"
)

// Moments are the number, mean and spread of a set of times, as the statistics log writes them for each window.
type Moments struct {
	N    uint64
	Mean float64 // ns
	// M2 is the sum of the squared differences from the mean, ns²; divided by N-1 it is the sample variance.
	M2 float64
}

// Moments returns the moments of the recorded times. They are computed from the sum and the sum of squares, which are
// kept as integers. So the result is exact except for the final rounding, whatever the order of the times and the
// number of workers that recorded them.
//
//	M2 = sum of x² - (sum of x)² / n
func (h *Histogram) Moments() Moments {
	if h.count == 0 {
		return Moments{}
	}
	m := Moments{N: h.count, Mean: h.Mean()}
	n := new(big.Int).SetUint64(h.count)
	squares := h.Squares()
	sum := new(big.Int).SetUint64(h.sum)
	squares.Mul(squares, n).Sub(squares, sum.Mul(sum, sum))
	m.M2, _ = new(big.Rat).SetFrac(squares, n).Float64()
	m.M2 = max(m.M2, 0) // while requests are being recorded, the sums may differ by one request
	return m
}

// Squares returns the sum of the squares of the recorded times in ns².
func (h *Histogram) Squares() *big.Int {
	squares := new(big.Int).SetUint64(h.squares.hi)
	return squares.Lsh(squares, 64).Add(squares, new(big.Int).SetUint64(h.squares.lo))
}

// StdDev returns the sample standard deviation in ns; 0 for fewer than two times.
func (m Moments) StdDev() float64 {
	if m.N < 2 {
		return 0
	}
	return math.Sqrt(m.M2 / float64(m.N-1))
}
