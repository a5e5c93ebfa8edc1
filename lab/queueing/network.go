package queueing

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Kind is the kind of a station.
type Kind string

const (
	// Queue has one server: first come, first served, or processor sharing.
	Queue Kind = "queue"
	// Delay has a server for every customer: none waits.
	Delay Kind = "delay"
	// Multi has several servers and one queue.
	Multi Kind = "multi"
	// LoadDependent has a rate for each number of customers present.
	LoadDependent Kind = "ld"
)

// Station is a place where customers are served. Its demand is given by Visits and Service in a Network, by Demands
// in a Multiclass.
type Station struct {
	Name    string
	Kind    Kind
	Visits  float64   // V, per pass through the system
	Service float64   // S, of a visit; of a LoadDependent station with one customer present and rate 1
	Demands []float64 // D by class
	Servers int       // of a Multi station
	// Rates are the rates of a LoadDependent station with 1, 2, ... customers as multiples of 1/Service. The last one
	// applies to all larger numbers, too.
	Rates []float64
}

// Network is a closed network: customers pass through the stations repeatedly, and think for Think between passes.
// Stations with first come, first served have exponential service times; delays and stations with processor sharing may
// have any distribution (Jain, section 32.4, the conditions for a product form).
type Network struct {
	Stations []Station
	Think    float64 // Z
}

// demand is D = V S.
func (s *Station) demand() float64 { return s.Visits * s.Service }

// several reports whether the rate depends on the number of customers, other than that of a Delay.
func (s *Station) several() bool { return s.Kind == LoadDependent || s.Kind == Multi && s.Servers > 1 }

// rate is the service rate of the station with j >= 1 customers, relative to one server.
func (s *Station) rate(j int) float64 {
	switch s.Kind {
	case Delay:
		return float64(j)
	case Multi:
		return float64(min(j, s.Servers))
	case LoadDependent:
		return s.Rates[min(j, len(s.Rates))-1]
	}
	return 1
}

func (s *Station) check(i int) error {
	name := fmt.Sprintf("station %d", i+1)
	if s.Name != "" {
		name = fmt.Sprintf("station %q", s.Name)
	}
	if !slices.Contains([]Kind{Queue, Delay, Multi, LoadDependent}, s.Kind) {
		return fmt.Errorf("%s has the kind %q: expected queue, delay, multi or ld", name, s.Kind)
	}
	err := cmp.Or(notNegative(name+": the visit ratio", s.Visits), notNegative(name+": the service time", s.Service))
	switch s.Kind {
	case Multi:
		err = cmp.Or(err, atLeast(name+": the number of servers", s.Servers, 1))
	case LoadDependent:
		err = cmp.Or(err, atLeast(name+": the number of rates", len(s.Rates), 1))
		for j, r := range s.Rates {
			err = cmp.Or(err, positive(fmt.Sprintf("%s: rate %d", name, j+1), r))
		}
	}
	return err
}

func (n *Network) check() error {
	if err := notNegative("the think time", n.Think); err != nil {
		return err
	}
	sum := n.Think
	for i := range n.Stations {
		if err := n.Stations[i].check(i); err != nil {
			return err
		}
		sum += n.Stations[i].demand()
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return fmt.Errorf("the demands and the think time add up to %v: expected a number above 0", sum)
	}
	return nil
}

// Solution is the steady state of a closed network.
type Solution struct {
	X        float64 // throughput of the system: passes per unit of time
	R        float64 // response time of a pass without the think time
	Stations []StationSolution
}

// StationSolution is the steady state of one station.
type StationSolution struct {
	Name string
	// U is the utilization of one server for Queue and Multi, the mean number of customers for Delay, and the
	// probability that the station is not empty for LoadDependent.
	U float64
	Q float64 // mean number of customers, waiting and in service
	R float64 // response time of a visit; 0 without visits
	// Busy is the mean number of busy servers; NaN for LoadDependent, which does not count servers.
	Busy     float64
	Marginal []float64 // probabilities of 0, 1, ..., N customers at the station; nil unless it has several rates
}

// MaxCustomers limits the work of an exact solution, which grows with the square of the customers.
const MaxCustomers = 20_000

// Solve returns the exact solution for a number of customers, at least 0.
func (n Network) Solve(customers int) (Solution, error) {
	if err := n.check(); err != nil {
		return Solution{}, fmt.Errorf("closed network: %w", err)
	}
	if customers < 0 || customers > MaxCustomers {
		return Solution{}, fmt.Errorf("closed network: the number of customers is %d: expected 0 to %d", customers,
			MaxCustomers)
	}
	m := Multiclass{Classes: []Class{{Customers: customers, Think: n.Think}}, Stations: slices.Clone(n.Stations)}
	for i := range m.Stations {
		m.Stations[i].Demands = []float64{m.Stations[i].demand()}
	}
	e := exact{Multiclass: m}
	e.lattice, _ = m.lattice() // MaxCustomers is within its limit
	e.convolve()
	all := e.solution()
	s := Solution{X: all.X[0], R: all.R[0]}
	for i, station := range m.Stations {
		r := StationSolution{
			Name: station.Name, U: all.Stations[i].U, Q: all.Stations[i].Q[0], Busy: s.X * station.demand(),
			Marginal: e.p[i],
		}
		if station.Kind == LoadDependent {
			r.Busy, r.U = math.NaN(), min(floats.Sum(r.Marginal[1:]), 1)
		}
		if visits := station.Visits * s.X; visits > 0 {
			r.R = r.Q / visits
		}
		s.Stations = append(s.Stations, r)
	}
	return s, nil
}
