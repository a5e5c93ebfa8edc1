package queueing

import "math"

// wide is a number that is 0 or positive, with more room for its exponent than a float64 has: m 2^(512 e), where m is 0 or
// from 2^-256 to below 2^256. Normalization constants of networks with 1,000 customers need it.
type wide struct {
	m float64
	e int32
}

const (
	wideStep = 512
	wideHigh = 0x1p256
	wideLow  = 0x1p-256
)

// widen returns v, 0 or positive.
func widen(v float64) wide { return wide{m: v}.normal() }

// normal returns w with its mantissa in range.
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

// times returns w v for a v that is 0 or positive.
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
	return wide{w.m + v.m*wideScale(w.e-v.e), w.e}.normal()
}

// over returns w/v as a float64, for v > 0: 0 or +Inf where it doesn't fit.
func (w wide) over(v wide) float64 {
	return math.Ldexp(w.m/v.m, int(w.e-v.e)*wideStep)
}

// wideScale returns 2^(-512 steps), 0 where that leaves nothing of a mantissa.
func wideScale(steps int32) float64 {
	if steps > 2 {
		return 0
	}
	return math.Ldexp(1, -wideStep*int(steps))
}

// dot returns the sum of a[k] b[n-k] for k = 0..n. All terms are positive, so its relative error is n rounding errors at
// most.
func dot(a, b []wide, n int) wide {
	top := int32(math.MinInt32)
	for k := max(0, n-len(b)+1); k <= min(n, len(a)-1); k++ {
		if e := a[k].e + b[n-k].e; e > top && a[k].m != 0 && b[n-k].m != 0 {
			top = e
		}
	}
	if top == math.MinInt32 {
		return wide{}
	}
	// A product of mantissas is below 2^512, so 2^500 of them may be added up; what is 2^-1536 of a scale down is lost in rounding.
	var sum float64
	for k := max(0, n-len(b)+1); k <= min(n, len(a)-1); k++ {
		switch top - a[k].e - b[n-k].e {
		case 0:
			sum += a[k].m * b[n-k].m
		case 1:
			sum += a[k].m * b[n-k].m * 0x1p-512
		case 2:
			sum += a[k].m * b[n-k].m * 0x1p-1024
		}
	}
	return wide{sum, top}.normal()
}

// convolve returns the sums of a[k] b[n-k] for n = 0..last, and a where b is nil, the convolution of nothing.
func convolve(a, b []wide, last int) []wide {
	if b == nil {
		return a
	}
	out := make([]wide, last+1)
	for n := range out {
		out[n] = dot(a, b, n)
	}
	return out
}
