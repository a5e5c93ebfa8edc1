package queueing

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// OpenStation is a station of an open network.
type OpenStation struct {
	Name    string
	Kind    Kind    // Queue, Delay or Multi
	Service float64 // S, of a visit
	Servers int     // of a Multi station
	// Arrivals is the rate of those that come from outside.
	Arrivals float64
	// Next has, by station, the probability of going there next; with what is missing to 1 the network is left.
	Next []float64
}

// Jackson is an open network: Poisson arrivals, exponential service, first come, first served, and a random way through it
// (J. R. Jackson, "Networks of waiting lines", Operations Research 5 (1957); Jain, section 32.3).
type Jackson struct{ Stations []OpenStation }

// OpenSolution is what is known of an open network in its steady state.
type OpenSolution struct {
	X        float64 // throughput: those that come from outside, and leave
	N        float64 // mean number in the network
	R        float64 // mean time in the network
	Stations []OpenStationSolution
}

// OpenStationSolution is what is known of one station. By Jackson's theorem it behaves as an M/M/m queue of its own.
type OpenStationSolution struct {
	Name   string
	Lambda float64 // arrivals, those from other stations included
	Visits float64 // per pass through the network
	U      float64 // of one server; of a Delay the mean number there
	Q      float64 // mean number, waiting and in service
	R      float64 // response time of a visit
}

// Solve returns the steady state. Each station's arrivals solve the traffic equations lambda_i = gamma_i + sum over j of
// lambda_j P_ji; a station that gets more than it can serve is an error that names it.
func (n Jackson) Solve() (OpenSolution, error) {
	outside, err := n.check()
	if err != nil {
		return OpenSolution{}, fmt.Errorf("open network: %w", err)
	}
	lambda, err := n.traffic()
	if err != nil {
		return OpenSolution{}, fmt.Errorf("open network: %w", err)
	}
	s := OpenSolution{X: outside}
	for i := range n.Stations {
		r, err := n.Stations[i].solve(lambda[i])
		if err != nil {
			return OpenSolution{}, fmt.Errorf("open network: station %q: %w", n.Stations[i].Name, err)
		}
		r.Visits = lambda[i] / outside
		s.N += r.Q
		s.Stations = append(s.Stations, r)
	}
	s.R = s.N / s.X
	return s, nil
}

// check returns the arrivals from outside, or an error that names what makes no sense.
func (n *Jackson) check() (outside float64, err error) {
	for i := range n.Stations {
		s := &n.Stations[i]
		plain := Station{Name: s.Name, Kind: s.Kind, Service: s.Service, Servers: s.Servers}
		if s.Kind == LoadDependent {
			return 0, fmt.Errorf("station %q has the kind ld: expected queue, delay or multi", s.Name)
		}
		if err := plain.check(i); err != nil {
			return 0, err
		}
		if err := notNegative(fmt.Sprintf("station %q: the arrivals from outside", s.Name), s.Arrivals); err != nil {
			return 0, err
		}
		if len(s.Next) > len(n.Stations) {
			return 0, fmt.Errorf("station %q has %d ways on: expected one for each of %d stations", s.Name, len(s.Next), len(n.Stations))
		}
		var sum float64
		for j, p := range s.Next {
			if err := notNegative(fmt.Sprintf("station %q: the probability of going to station %q", s.Name, n.Stations[j].Name), p); err != nil {
				return 0, err
			}
			sum += p
		}
		if sum > 1+1e-12 {
			return 0, fmt.Errorf("station %q: the probabilities of the ways on add up to %v: expected 1 at most", s.Name, sum)
		}
		outside += s.Arrivals
	}
	return outside, positive("the sum of the arrivals from outside", outside)
}

// traffic solves the traffic equations.
func (n *Jackson) traffic() ([]float64, error) {
	size := len(n.Stations)
	a, gamma := mat.NewDense(size, size, nil), mat.NewVecDense(size, nil)
	for i := range n.Stations {
		a.Set(i, i, 1)
		gamma.SetVec(i, n.Stations[i].Arrivals)
	}
	for j := range n.Stations {
		for i, p := range n.Stations[j].Next {
			a.Set(i, j, a.At(i, j)-p)
		}
	}
	var lambda mat.VecDense
	if err := lambda.SolveVec(a, gamma); err != nil {
		return nil, errors.New("some that come in never leave: expected a way out from every station")
	}
	return lambda.RawVector().Data, nil
}

// solve returns what is known of the station with arrivals lambda.
func (s *OpenStation) solve(lambda float64) (OpenStationSolution, error) {
	r := OpenStationSolution{Name: s.Name, Lambda: lambda, U: UtilizationLaw(lambda, s.Service), R: s.Service}
	if s.Kind == Delay || r.U == 0 {
		r.Q = r.U
		return r, nil
	}
	servers := 1
	if s.Kind == Multi {
		servers = s.Servers
	}
	q, err := NewMMm(lambda, 1/s.Service, servers)
	if err != nil {
		return r, err
	}
	r.U, r.Q, r.R = q.Utilization(), q.MeanJobs(), q.MeanResponse()
	return r, nil
}
