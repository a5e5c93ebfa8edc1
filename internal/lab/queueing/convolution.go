package queueing

import (
	"fmt"
	"math"
	"slices"
)

// maxCustomers bounds the work of an exact solution, which grows with the square of the customers.
const maxCustomers = 20_000

// Solve returns the exact solution for a number of customers; see SolveAll.
func (n Network) Solve(customers int) (Solution, error) {
	s, err := n.SolveAll([]int{customers})
	if err != nil {
		return Solution{}, err
	}
	return s[0], nil
}

// SolveAll returns the exact solutions for several numbers of customers, 0 or more each, at the price of the largest.
//
// It is J. P. Buzen's convolution (Communications of the ACM 16 (1973); Jain, section 35.2) for stations with rates that
// depend on their load. Station i alone with n customers has the weight
//
//	f(0) = 1, f(n) = f(n-1) D/a(n)
//
// where a(n) is its rate, and G, the convolution of all of them, normalizes:
//
//	X(N) = G(N-1)/G(N), p_i(n) = f_i(n) G_i(N-n)/G(N)
//
// G_i being the convolution of the others, put together from those before and those behind i, never by taking i out of G
// again. All terms are positive, so every result has the relative error of a few hundred roundings at most, where mean
// value analysis with p(0) = 1 - sum of the others loses all digits when a station with several servers fills up. All delays
// and the think time count as one station, as their convolution is that of their sum.
func (n Network) SolveAll(customers []int) ([]Solution, error) {
	if err := n.check(); err != nil {
		return nil, fmt.Errorf("closed network: %w", err)
	}
	most := 0
	for _, c := range customers {
		if err := atLeast("closed network: the number of customers", c, 0); err != nil {
			return nil, err
		}
		if err := atMost("closed network: the number of customers", c, maxCustomers); err != nil {
			return nil, err
		}
		most = max(most, c)
	}
	c := newConvolution(n, most)
	solutions := make([]Solution, len(customers))
	for i, count := range customers {
		solutions[i] = c.solution(count)
	}
	return solutions, nil
}

// convolution holds the constants of a network for up to a number of customers. Stations without a demand have none of
// their own.
type convolution struct {
	network Network
	alone   []*series // f of each station
	others  []*series // G without that station
	all     *series   // G
}

// weights returns f(0), f(1), ..., f(last) of a station with a demand; nil for none.
func weights(demand float64, rate func(j int) float64, last int) *series {
	if demand == 0 {
		return nil
	}
	f := make([]wide, last+1)
	f[0] = widen(1)
	for n := 1; n <= last; n++ {
		f[n] = f[n-1].times(demand / rate(n))
	}
	return newSeries(f)
}

// delayWeights returns f of the delays with the numbers, and the think time, together.
func (c *convolution) delayWeights(delays []int, last int) *series {
	demand := c.network.Think
	for _, i := range delays {
		demand += c.network.Stations[i].demand()
	}
	return weights(demand, func(j int) float64 { return float64(j) }, last)
}

func newConvolution(n Network, last int) *convolution {
	c := &convolution{network: n, alone: make([]*series, len(n.Stations)), others: make([]*series, len(n.Stations))}
	var waiting, delays []int
	for i := range n.Stations {
		s := &n.Stations[i]
		if s.demand() == 0 {
			continue
		}
		c.alone[i] = weights(s.demand(), s.rate, last)
		if s.Kind == Delay {
			delays = append(delays, i)
		} else {
			waiting = append(waiting, i)
		}
	}
	// behind[k] is the convolution of the waiting stations from k on, nil for that of none.
	behind := make([]*series, len(waiting)+1)
	for k := len(waiting) - 1; k >= 0; k-- {
		behind[k] = convolve(c.alone[waiting[k]], behind[k+1], last)
	}
	before := c.delayWeights(delays, last)
	c.all = convolve(before, behind[0], last)
	for k, i := range waiting {
		c.others[i] = convolve(before, behind[k+1], last)
		if k < len(waiting)-1 {
			before = convolve(before, c.alone[i], last)
		}
	}
	for k, i := range delays {
		c.others[i] = convolve(c.delayWeights(slices.Concat(delays[:k], delays[k+1:]), last), behind[0], last)
	}
	return c
}

// solution returns that for n customers, no more than the constants were made for.
func (c *convolution) solution(n int) Solution {
	s := Solution{N: n, Stations: make([]StationSolution, len(c.network.Stations))}
	if n > 0 {
		s.X = c.all.at(n - 1).over(c.all.at(n))
	}
	for i := range c.network.Stations {
		s.Stations[i] = c.station(i, n, s.X)
		s.R += s.Stations[i].Residence
	}
	return s
}

// station returns what is known of station i with n customers in the system and its throughput x.
func (c *convolution) station(i, n int, x float64) StationSolution {
	s := &c.network.Stations[i]
	r := StationSolution{Name: s.Name, X: ForcedFlow(s.Visits, x), Busy: UtilizationLaw(x, s.demand())}
	p := c.marginal(i, n)
	r.Marginal, r.P0 = p, p[0]
	r.U = utilization(s, p, r.Busy)
	if s.Kind == Delay {
		r.Q = r.Busy
	} else {
		for k, v := range p {
			r.Q += float64(k) * v
		}
		r.Q = min(r.Q, float64(n))
	}
	if s.Kind == LoadDependent {
		r.Busy = math.NaN()
	}
	if x > 0 {
		r.Residence = r.Q / x
	}
	if r.X > 0 {
		r.R = r.Q / r.X
	}
	return r
}

// utilization returns that of a station with these probabilities and mean number of busy servers, in the sense of
// StationSolution.U.
func utilization(s *Station, p []float64, busy float64) float64 {
	switch s.Kind {
	case Delay:
		return busy
	case Multi:
		return clamp1(busy / float64(s.Servers))
	case LoadDependent:
		var sum float64
		for _, v := range p[1:] {
			sum += v
		}
		return clamp1(sum)
	}
	return clamp1(busy)
}

// marginal returns the probabilities of 0..n customers at station i.
func (c *convolution) marginal(i, n int) []float64 {
	p := make([]float64, n+1)
	if c.alone[i] == nil {
		p[0] = 1
		return p
	}
	for k := range p {
		p[k] = clamp1(c.alone[i].at(k).mul(c.others[i].at(n - k)).over(c.all.at(n)))
	}
	return p
}
