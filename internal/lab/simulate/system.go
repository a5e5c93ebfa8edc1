package simulate

import (
	"errors"
	"fmt"
	"math"

	"mcmw/internal/lab/queueing"
)

// System is what is simulated.
type System struct {
	Stations []Station
	Pools    []Pool
	Classes  []Class
}

// Station serves in the order of arrival.
type Station struct {
	Name    string
	Servers int          // 0: one for everybody, a delay
	Service Distribution // of a visit that has none of its own
	// Rates, for a station of one server, has its speed with 1, 2, ... present; the last holds for more. nil: 1.
	Rates []float64
	// Room is how many may be present, those in service included; who finds it full is lost. 0: any number. It is for
	// open classes.
	Room int
}

// Pool has workers that each take up to Depth of the waiting at once, let all of them do the steps of the path inside of it, and
// let all go on together when the last is through.
type Pool struct {
	Name    string
	Workers int
	Depth   int
}

// Class is a class of customers: a closed one, in which Customers think and take the path again and again, or an open one, which
// customers enter by Arrivals and leave at the end of the path.
type Class struct {
	Name      string
	Customers int
	Think     Distribution // nil: none
	Arrivals  Distribution // times between arrivals; nil: closed
	Path      []Step
}

// Step is a step of a path: Visit, Choose, Turns, Fork or Within.
type Step interface {
	compile(p *program, inPool bool) error
}

// Visit is a visit to the station of a number.
type Visit struct {
	Station int
	Service Distribution // nil: the station's
}

// Choose goes one of several ways by chance.
type Choose struct {
	Weights []float64
	Ways    [][]Step
}

// Turns goes several ways in turn.
type Turns struct{ Ways [][]Step }

// Fork goes all ways at once and goes on when Needed of them are through, 0 for all: a write to several replicas. The others
// end by themselves.
type Fork struct {
	Ways   [][]Step
	Needed int
}

// Within does steps with a worker of the pool of a number.
type Within struct {
	Pool  int
	Steps []Step
}

// Closed returns the system of a closed network with so many customers and exponential times. A station is visited as often
// as the integer part of its visit ratio says, and once more with the probability of the rest.
func Closed(n queueing.Network, customers int) System {
	class := Class{Customers: customers}
	if n.Think > 0 {
		class.Think = Exponential(n.Think)
	}
	var s System
	for i := range n.Stations {
		q := &n.Stations[i]
		station := Station{Name: q.Name, Servers: 1, Service: Exponential(q.Service)}
		switch q.Kind {
		case queueing.Delay:
			station.Servers = 0
		case queueing.Multi:
			station.Servers = q.Servers
		case queueing.LoadDependent:
			station.Rates = q.Rates
		}
		s.Stations = append(s.Stations, station)
		whole, rest := math.Modf(q.Visits)
		for range int(whole) {
			class.Path = append(class.Path, Visit{Station: i})
		}
		if rest > 0 {
			class.Path = append(class.Path, Choose{Weights: []float64{rest, 1 - rest}, Ways: [][]Step{{Visit{Station: i}}, nil}})
		}
	}
	s.Classes = []Class{class}
	return s
}

// check returns an error that names what makes no sense, other than in paths.
func (s *System) check() error {
	for i := range s.Stations {
		if err := s.Stations[i].check(); err != nil {
			return fmt.Errorf("station %d %q: %w", i, s.Stations[i].Name, err)
		}
	}
	for i, p := range s.Pools {
		if p.Workers < 1 || p.Depth < 1 {
			return fmt.Errorf("pool %d %q has %d workers and a depth of %d: expected at least 1 of each", i, p.Name, p.Workers, p.Depth)
		}
	}
	if len(s.Classes) == 0 {
		return errors.New("there are no classes of customers: expected one at least")
	}
	var someone bool
	for i, c := range s.Classes {
		someone = someone || c.Customers > 0 || c.Arrivals != nil
		switch {
		case c.Customers < 0:
			return fmt.Errorf("class %d %q has %d customers: expected 0 or more", i, c.Name, c.Customers)
		case c.Customers > 0 && c.Arrivals != nil:
			return fmt.Errorf("class %d %q has both customers and arrivals: expected one of them", i, c.Name)
		case c.Arrivals != nil && !(c.Arrivals.Mean() > 0):
			return fmt.Errorf("class %d %q: the mean time between arrivals is %v: expected a number above 0", i, c.Name, c.Arrivals.Mean())
		case c.Think != nil && !(c.Think.Mean() >= 0):
			return fmt.Errorf("class %d %q: the mean think time is %v: expected a number, 0 or above", i, c.Name, c.Think.Mean())
		}
	}
	if !someone {
		return errors.New("no class has customers or arrivals: expected one at least")
	}
	return nil
}

func (s *Station) check() error {
	switch {
	case s.Servers < 0:
		return fmt.Errorf("it has %d servers: expected 0, for a delay, or more", s.Servers)
	case s.Rates != nil && s.Servers != 1:
		return fmt.Errorf("it has rates and %d servers: expected 1", s.Servers)
	case s.Room < 0 || s.Room > 0 && s.Room < s.Servers:
		return fmt.Errorf("it has room for %d: expected 0, for any number, or at least its %d servers", s.Room, s.Servers)
	case s.Service != nil && !(s.Service.Mean() >= 0):
		return fmt.Errorf("its mean service time is %v: expected a number, 0 or above", s.Service.Mean())
	}
	for i, r := range s.Rates {
		if !(r > 0) || math.IsInf(r, 1) {
			return fmt.Errorf("its rate %d is %v: expected a number above 0", i+1, r)
		}
	}
	return nil
}
