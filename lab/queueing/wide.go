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

func (w wide) plus(v wide) wide { return w.add(v).normal() }

// add returns a sum that is not normalized. Nor need the terms be: each m can be a sum of many products of two others.
func (w wide) add(v wide) wide {
	if w.e == v.e {
		return wide{w.m + v.m, w.e}
	}
	return w.addFar(v)
}

func (w wide) addFar(v wide) wide {
	switch {
	case v.m == 0:
		return w
	case w.m == 0:
		return v
	case w.e < v.e:
		w, v = v, w
	}
	for range min(w.e-v.e, 3) { // what is three steps below vanishes in rounding
		v.m *= 0x1p-512
	}
	return wide{w.m + v.m, w.e}
}

// over returns w/v for v > 0 as a float64; 0 or +Inf if it is out of range.
func (w wide) over(v wide) float64 {
	return math.Ldexp(w.m/v.m, int(w.e-v.e)*wideStep)
}
