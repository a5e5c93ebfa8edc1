package queueing

import (
	"fmt"
	"math"
)

// Bounds hold throughput and response time of any closed network with certain demands.
type Bounds struct {
	XLow, XHigh float64
	RLow, RHigh float64
}

// Demands are what bounds are computed from: the demands D of the stations with one server each, and the think time, which the
// demands of delay stations are added to.
type Demands struct {
	Stations []float64
	Think    float64
	// D is their sum, DMax the largest (the bottleneck's), DAvg their mean.
	D, DMax, DAvg float64
}

// NewDemands checks and sums up demands, of which one at least is above 0.
func NewDemands(stations []float64, think float64) (Demands, error) {
	d := Demands{Stations: stations, Think: think}
	for i, v := range stations {
		if err := notNegative(fmt.Sprintf("bounds: the demand of station %d", i+1), v); err != nil {
			return Demands{}, err
		}
		d.D += v
		d.DMax = max(d.DMax, v)
	}
	if err := notNegative("bounds: the think time", think); err != nil {
		return Demands{}, err
	}
	if err := positive("bounds: the sum of the demands", d.D); err != nil {
		return Demands{}, err
	}
	d.DAvg = d.D / float64(len(stations))
	return d, nil
}

// Knee is the number of customers at which the asymptotes cross, from which on some wait for sure: N* = (D+Z)/Dmax (Jain,
// section 33.6).
func (d Demands) Knee() float64 { return (d.D + d.Think) / d.DMax }

// Asymptotic returns the bounds for n >= 1 customers that hold whatever the distributions (Jain, section 33.6; the pessimistic ones
// from all others being ahead everywhere):
//
//	N/(N D + Z) <= X <= min(1/Dmax, N/(D+Z)), max(D, N Dmax - Z) <= R <= N D
func (d Demands) Asymptotic(n int) (Bounds, error) {
	if err := atLeast("bounds: the number of customers", n, 1); err != nil {
		return Bounds{}, err
	}
	c := float64(n)
	return Bounds{
		XLow: c / (c*d.D + d.Think), XHigh: min(1/d.DMax, c/(d.D+d.Think)),
		RLow: max(d.D, c*d.DMax-d.Think), RHigh: c * d.D,
	}, nil
}

// Balanced returns the bounds for n >= 1 customers from networks with equal demands, which hold for networks with a product
// form (Jain, section 34.4, equations 34.9 and 34.10):
//
//	R >= max(N Dmax - Z, D + (N-1) Davg D/(D+Z))
//	R <= D + (N-1) Dmax (N-1) D/((N-1) D + Z)
//
// and X = N/(R+Z) the other way round, no more than 1/Dmax.
func (d Demands) Balanced(n int) (Bounds, error) {
	if err := atLeast("bounds: the number of customers", n, 1); err != nil {
		return Bounds{}, err
	}
	c, others := float64(n), float64(n-1)
	low := d.D + others*d.DAvg*d.D/(d.D+d.Think)
	high := d.D
	if n > 1 {
		high += others * d.DMax * others * d.D / (others*d.D + d.Think)
	}
	return Bounds{
		XLow: c / (high + d.Think), XHigh: min(1/d.DMax, c/(low+d.Think)),
		RLow: max(low, c*d.DMax-d.Think), RHigh: high,
	}, nil
}

// BalancedLazowska returns the balanced bounds with the pessimistic side of E. D. Lazowska, J. Zahorjan, G. S. Graham and K. C.
// Sevcik, "Quantitative System Performance" (1984), table 5.2, which is looser than Jain's when there is think time:
//
//	R <= D + (N-1) Dmax/(1 + Z/(N D))
func (d Demands) BalancedLazowska(n int) (Bounds, error) {
	b, err := d.Balanced(n)
	if err != nil {
		return Bounds{}, err
	}
	c := float64(n)
	b.RHigh = d.D + (c-1)*d.DMax/(1+d.Think/(c*d.D))
	b.XLow = c / (b.RHigh + d.Think)
	return b, nil
}

// Demands returns the demands of a network of delay and single-server stations, and an error if it has others.
func (n Network) Demands() (Demands, error) {
	if err := n.check(); err != nil {
		return Demands{}, err
	}
	think := n.Think
	var stations []float64
	for _, s := range n.Stations {
		switch {
		case s.Kind == Delay:
			think += s.demand()
		case s.Kind == Queue || s.Kind == Multi && s.Servers == 1:
			stations = append(stations, s.demand())
		default:
			return Demands{}, fmt.Errorf("bounds: station %q has kind %v with several rates: expected delay and single-server stations alone", s.Name, s.Kind)
		}
	}
	return NewDemands(stations, think)
}

// Capacity is the throughput that the network cannot exceed with any number of customers, and the number of the station that
// limits it: the least rate of a station at any number of customers up to n, over visits. +Inf and -1 where nothing limits.
func (n Network) Capacity(customers int) (x float64, station int) {
	x, station = math.Inf(1), -1
	for i, s := range n.Stations {
		if s.Kind == Delay || s.demand() == 0 {
			continue
		}
		best := 0.0
		for j := 1; j <= s.levels(customers); j++ {
			best = max(best, s.rate(j))
		}
		if limit := best / s.demand(); limit < x {
			x, station = limit, i
		}
	}
	return x, station
}
