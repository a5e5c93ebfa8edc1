package queueing

import "math"

// wide is a number >= 0 with a larger exponent than a float64 can have: m 2^(512 e), where m is 0 or 2^-256 <= m <
// 2^256. Normalization constants of networks with 1,000 customers need it.
type wide struct {
	m float64
	e int32
}

const (
	wideStep = 512
	wideHigh = 0x1p256
	wideLow  = 0x1p-256
)

// widen returns v, which is at least 0.
func widen(v float64) wide { return wide{m: v}.normal() }

func (w wide) normal() wide {
	if w.m == 0 {
		return wide{}
	}
	for w.m >= wideHigh {
		w = wide{w.m * 0x1p-512, w.e + 1}
	}
	for w.m < wideLow {
		w = wide{w.m * 0x1p512, w.e - 1}
	}
	return w
}

// times returns w v for v >= 0.
func (w wide) times(v float64) wide { return w.mul(widen(v)) }

func (w wide) mul(v wide) wide { return wide{w.m * v.m, w.e + v.e}.normal() }

func (w wide) plus(v wide) wide {
	switch {
	case v.m == 0:
		return w
	case w.m == 0:
		return v
	case w.e < v.e:
		w, v = v, w
	}
	return wide{w.m + math.Ldexp(v.m, -wideStep*int(w.e-v.e)), w.e}.normal()
}

// over returns w/v for v > 0 as a float64; 0 or +Inf if it is out of range.
func (w wide) over(v wide) float64 {
	return math.Ldexp(w.m/v.m, int(w.e-v.e)*wideStep)
}

// series is a sequence of wide numbers above 0. Convolutions of series are fast because they work on runs of elements
// with the same exponent. nil is the sequence 1, 0, 0, ..., the convolution of nothing.
type series struct {
	m          []float64
	e          []int32
	start, end []int // of the run that an element belongs to; end is exclusive
}

// newSeries returns the series of numbers, which are above 0.
func newSeries(numbers []wide) *series {
	n := len(numbers)
	s := &series{m: make([]float64, n), e: make([]int32, n), start: make([]int, n), end: make([]int, n)}
	for i, w := range numbers {
		s.m[i], s.e[i], s.start[i] = w.m, w.e, i
		if i > 0 && s.e[i-1] == w.e {
			s.start[i] = s.start[i-1]
		}
	}
	for i := n - 1; i >= 0; i-- {
		s.end[i] = i + 1
		if i < n-1 && s.e[i+1] == s.e[i] {
			s.end[i] = s.end[i+1]
		}
	}
	return s
}

// at returns element n.
func (s *series) at(n int) wide {
	switch {
	case s != nil:
		return wide{s.m[n], s.e[n]}
	case n == 0:
		return widen(1)
	}
	return wide{}
}

// dot returns the sum of a[k] b[n-k] for k = 0..n. All terms are positive, so the relative error is at most n rounding
// errors.
func dot(a, b *series, n int) wide {
	top := int32(math.MinInt32)
	for k := 0; k <= n; {
		top = max(top, a.e[k]+b.e[n-k])
		k = min(a.end[k], n-b.start[n-k]+1)
	}
	// A product of mantissas is below 2^512, so the sum of up to 2^500 of them does not overflow. Terms three steps
	// below the largest exponent, 2^-1536, vanish in rounding.
	var sum float64
	for k := 0; k <= n; {
		next := min(a.end[k], n-b.start[n-k]+1, n+1)
		if below := top - a.e[k] - b.e[n-k]; below <= 2 {
			var part float64
			left, right := a.m[k:next], b.m[n-next+1:n-k+1]
			for i, v := range left {
				part += v * right[len(right)-1-i]
			}
			sum += math.Ldexp(part, -wideStep*int(below))
		}
		k = next
	}
	return wide{sum, top}.normal()
}

// convolve returns elements 0 to last of the convolution of two series.
func convolve(a, b *series, last int) *series {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	out := make([]wide, last+1)
	for n := range out {
		out[n] = dot(a, b, n)
	}
	return newSeries(out)
}
