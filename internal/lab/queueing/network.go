package queueing

import (
	"fmt"
	"math"
)

// Kind says how a station serves.
type Kind int

const (
	// Queue is one server; first come, first served, or sharing.
	Queue Kind = iota
	// Delay has a server for every customer: none waits.
	Delay
	// Multi has several servers and one queue.
	Multi
	// LoadDependent has a rate for each number of customers present.
	LoadDependent
)

// kindNames are how kinds are spelled.
var kindNames = map[Kind]string{Queue: "queue", Delay: "delay", Multi: "multi", LoadDependent: "ld"}

// String returns the kind's name.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", int(k))
}

// UnmarshalText reads the name of a kind.
func (k *Kind) UnmarshalText(text []byte) error {
	for kind, name := range kindNames {
		if name == string(text) {
			*k = kind
			return nil
		}
	}
	return fmt.Errorf("%q is no kind of station: expected queue, delay, multi or ld", text)
}

// Station is where customers are served.
type Station struct {
	Name    string
	Kind    Kind
	Visits  float64 // V, per pass through the system
	Service float64 // S, of a visit; of a LoadDependent station with one customer present and rate 1
	Servers int     // of a Multi station
	// Rates, of a LoadDependent station, has the rate with 1, 2, ... customers as a multiple of 1/Service; the last holds for
	// more, too.
	Rates []float64
}

// Network is a closed network: customers pass through the stations repeatedly, and think for Think in between. Service times are
// exponential where they wait first come, first served; stations where they share, or that are a Delay, may have any
// (Jain, section 32.4, the conditions for a product form).
type Network struct {
	Stations []Station
	Think    float64 // Z
}

// demand is the service that a pass needs of the station.
func (s *Station) demand() float64 { return Demand(s.Visits, s.Service) }

// rate is how many times faster than with one server the station is with j >= 1 customers.
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

// levels is the number of customers from which on the rate stays the same, n at most.
func (s *Station) levels(n int) int {
	switch s.Kind {
	case Delay:
		return n
	case Multi:
		return min(n, s.Servers)
	case LoadDependent:
		return min(n, len(s.Rates))
	}
	return min(n, 1)
}

func (s *Station) check(i int) error {
	name := fmt.Sprintf("station %d", i+1)
	if s.Name != "" {
		name = fmt.Sprintf("station %q", s.Name)
	}
	if _, ok := kindNames[s.Kind]; !ok {
		return fmt.Errorf("%s has %v: expected Queue, Delay, Multi or LoadDependent", name, s.Kind)
	}
	if err := notNegative(name+": the visit ratio", s.Visits); err != nil {
		return err
	}
	if err := notNegative(name+": the service time", s.Service); err != nil {
		return err
	}
	return s.checkRates(name)
}

// checkRates is the part of check about servers and rates.
func (s *Station) checkRates(name string) error {
	switch s.Kind {
	case Multi:
		return atLeast(name+": the number of servers", s.Servers, 1)
	case LoadDependent:
		if len(s.Rates) == 0 {
			return fmt.Errorf("%s has no rates: expected one at least", name)
		}
		for j, r := range s.Rates {
			if err := positive(fmt.Sprintf("%s: rate %d", name, j+1), r); err != nil {
				return err
			}
		}
	}
	return nil
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
	N        int
	X        float64 // throughput of the system: passes per unit of time
	R        float64 // response time of a pass, without the think time
	Stations []StationSolution
}

// StationSolution is the steady state of one station.
type StationSolution struct {
	Name string
	X    float64 // throughput: visits per unit of time
	// U is the utilization: of one server for Queue and Multi; the mean number of customers for Delay; the probability that
	// one at least is there for LoadDependent.
	U         float64
	Q         float64 // mean number of customers, waiting and in service
	R         float64 // response time of a visit, 0 where there are no visits
	Residence float64 // response time of a pass: V R
	P0        float64 // probability that nobody is there
	// Busy is the mean number of busy servers; NaN for LoadDependent, which has no servers to count.
	Busy     float64
	Marginal []float64 // probabilities of 0, 1, ..., N customers there
}

// Bottleneck returns the index of the station with the largest utilization of those where
// customers wait; -1 if there is none.
func (s *Solution) Bottleneck(n Network) int {
	best, most := -1, -1.0
	for i := range s.Stations {
		if n.Stations[i].Kind != Delay && s.Stations[i].U > most {
			best, most = i, s.Stations[i].U
		}
	}
	return best
}
