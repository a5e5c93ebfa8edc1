package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Distribution is one of times, 0 or positive.
type Distribution interface {
	// Draw returns a time by chance.
	Draw(r *rand.Rand) float64
	// Mean returns the mean time.
	Mean() float64
}

// Exponential is the exponential distribution of this mean.
type Exponential float64

// Draw returns a time by chance.
func (d Exponential) Draw(r *rand.Rand) float64 { return r.ExpFloat64() * float64(d) }

// Mean returns the mean time.
func (d Exponential) Mean() float64 { return float64(d) }

// Constant is always this time.
type Constant float64

// Draw returns the time.
func (d Constant) Draw(*rand.Rand) float64 { return float64(d) }

// Mean returns the time.
func (d Constant) Mean() float64 { return float64(d) }

// erlang is the sum of exponential times, total on the mean.
type erlang struct {
	stages int
	total  float64
}

// Draw returns a time by chance.
func (d erlang) Draw(r *rand.Rand) float64 {
	var sum float64
	for range d.stages {
		sum += r.ExpFloat64()
	}
	return sum * d.total / float64(d.stages)
}

// Mean returns the mean time.
func (d erlang) Mean() float64 { return d.total }

// hyper is one of two exponential times by chance, each with half of the work.
type hyper struct {
	mean, p float64
}

// Draw returns a time by chance.
func (d hyper) Draw(r *rand.Rand) float64 {
	p := d.p
	if r.Float64() >= p {
		p = 1 - p
	}
	return r.ExpFloat64() * d.mean / (2 * p)
}

// Mean returns the mean time.
func (d hyper) Mean() float64 { return d.mean }

// Variable returns a distribution of a mean and a squared coefficient of variation: for one above 1 the hyperexponential
// distribution of two phases with balanced means, for one up to 1 the Erlang distribution that comes closest; for 0 a constant
// (H. C. Tijms, "A First Course in Stochastic Models" (2003), appendix B).
func Variable(mean, squared float64) (Distribution, error) {
	if !(mean >= 0) || !(squared >= 0) || math.IsInf(mean+squared, 1) {
		return nil, fmt.Errorf("a distribution with the mean %v and the squared coefficient of variation %v: expected numbers, 0 or above", mean, squared)
	}
	switch {
	case squared == 0:
		return Constant(mean), nil
	case squared > 1:
		return hyper{mean: mean, p: (1 + math.Sqrt((squared-1)/(squared+1))) / 2}, nil
	}
	return erlang{stages: int(math.Round(1 / squared)), total: mean}, nil
}

// Bin is one bin of a histogram of times: Count of them from Lower to Upper.
type Bin struct {
	Lower, Upper float64
	Count        uint64
}

// histogram draws a bin by its count (A. J. Walker's alias method, ACM Transactions on Mathematical Software 3 (1977)) and a
// time in it, all alike.
type histogram struct {
	lower, width []float64
	keep         []float64 // probability of staying with a bin once it is hit, otherwise its alias
	alias        []int
	mean         float64
}

// Histogram returns the distribution that was measured as a histogram.
func Histogram(bins []Bin) (Distribution, error) {
	var total float64
	for i, b := range bins {
		if !(b.Lower >= 0) || !(b.Upper >= b.Lower) || math.IsInf(b.Upper, 1) {
			return nil, fmt.Errorf("bin %d of the histogram is from %v to %v: expected finite numbers, 0 or above and in order", i+1, b.Lower, b.Upper)
		}
		total += float64(b.Count)
	}
	if total == 0 {
		return nil, errors.New("the histogram is empty: expected one count at least")
	}
	n := len(bins)
	h := &histogram{lower: make([]float64, n), width: make([]float64, n), keep: make([]float64, n), alias: make([]int, n)}
	var small, large []int
	for i, b := range bins {
		h.lower[i], h.width[i], h.alias[i] = b.Lower, b.Upper-b.Lower, i
		h.mean += float64(b.Count) / total * (b.Lower + b.Upper) / 2
		if h.keep[i] = float64(b.Count) / total * float64(n); h.keep[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		h.alias[s] = l
		if h.keep[l] -= 1 - h.keep[s]; h.keep[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	// What is left has 1 but for rounding.
	for _, i := range append(small, large...) {
		h.keep[i] = 1
	}
	return h, nil
}

// Draw returns a time by chance.
func (h *histogram) Draw(r *rand.Rand) float64 {
	i := r.IntN(len(h.lower))
	if r.Float64() >= h.keep[i] {
		i = h.alias[i]
	}
	return h.lower[i] + h.width[i]*r.Float64()
}

// Mean returns the mean time.
func (h *histogram) Mean() float64 { return h.mean }
