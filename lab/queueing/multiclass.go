package queueing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Class is a class of customers. Customers do not change their class.
type Class struct {
	Name      string
	Customers int     // N of the class
	Think     float64 // Z of the class
}

// Multiclass is a closed network with classes of customers. If the demands of a Queue or Multi station differ by class,
// the customers present share its servers; first come, first served requires the same service time for all classes
// (Jain, section 32.4). There are no LoadDependent stations.
type Multiclass struct {
	Classes  []Class
	Stations []Station
}

// ClassSolution is the steady state of a network with classes. Slices of numbers are by class; classes without
// customers have zeros.
type ClassSolution struct {
	X, R     []float64 // throughput; response time of a pass without the think time
	Stations []ClassStationSolution
}

// ClassStationSolution is the steady state of one station.
type ClassStationSolution struct {
	Name string
	Q    []float64 // mean number of customers by class
	U    float64   // utilization as defined by StationSolution.U
}

func (m *Multiclass) check() error {
	if len(m.Classes) == 0 {
		return fmt.Errorf("there are no classes: expected at least one")
	}
	for c, class := range m.Classes {
		name := m.className(c)
		if err := cmp.Or(atLeast(name+": the number of customers", class.Customers, 0),
			notNegative(name+": the think time", class.Think)); err != nil {
			return err
		}
		sum := class.Think
		for i := range m.Stations {
			if d := m.Stations[i].Demands; c < len(d) {
				sum += d[c]
			}
		}
		if class.Customers > 0 && sum == 0 {
			return fmt.Errorf("%s: the demands and the think time add up to 0: expected a number above 0", name)
		}
	}
	for i := range m.Stations {
		if err := m.checkStation(i); err != nil {
			return err
		}
	}
	return nil
}

func (m *Multiclass) checkStation(i int) error {
	s := &m.Stations[i]
	if s.Kind == LoadDependent {
		return fmt.Errorf("station %q has the kind ld: expected queue, delay or multi", s.Name)
	}
	if err := s.check(i); err != nil {
		return err
	}
	if len(s.Demands) != len(m.Classes) {
		return fmt.Errorf("station %q has %d demands: expected %d, one for each class", s.Name, len(s.Demands),
			len(m.Classes))
	}
	for c, d := range s.Demands {
		if err := notNegative(fmt.Sprintf("station %q: the demand of %s", s.Name, m.className(c)), d); err != nil {
			return err
		}
	}
	return nil
}

// className names a class in errors.
func (m *Multiclass) className(c int) string {
	if name := m.Classes[c].Name; name != "" {
		return fmt.Sprintf("class %q", name)
	}
	return fmt.Sprintf("class %d", c+1)
}

// solution completes a solution from the throughputs and the mean numbers of customers at the stations.
func (m *Multiclass) solution(x []float64, q [][]float64) ClassSolution {
	s := ClassSolution{X: x, R: make([]float64, len(x)), Stations: make([]ClassStationSolution, len(m.Stations))}
	for i := range m.Stations {
		station := &m.Stations[i]
		r := ClassStationSolution{Name: station.Name, Q: q[i]}
		for c := range x {
			r.U += x[c] * station.Demands[c]
			if x[c] > 0 {
				s.R[c] += q[i][c] / x[c]
			}
		}
		if station.Kind == Multi {
			r.U /= float64(station.Servers)
		}
		if station.Kind != Delay {
			r.U = min(r.U, 1)
		}
		s.Stations[i] = r
	}
	return s
}

// Limits of the exact solution: a few seconds and 200 MB.
const (
	maxVectors    = 5_000_000
	maxVectorWork = 500_000_000
)

// lattice numbers the vectors of customers by class, from the empty system to the whole population.
type lattice struct {
	size   []int // customers of the class plus 1
	stride []int // the difference between the numbers of vectors that differ by one customer of the class
	count  int   // of vectors
}

func (m *Multiclass) lattice() (lattice, error) {
	l := lattice{count: 1}
	for _, class := range m.Classes {
		l.size = append(l.size, class.Customers+1)
		l.stride = append(l.stride, l.count)
		if l.count > maxVectors/(class.Customers+1) {
			return lattice{},
				fmt.Errorf("there are more than %d states of the population: expected fewer, or use Linearizer",
					maxVectors)
		}
		l.count *= class.Customers + 1
	}
	return l, nil
}

// walk calls f for all vectors in the order of their numbers. f must not keep the vector.
func (l *lattice) walk(f func(number int, vector []int)) {
	vector := make([]int, len(l.size))
	for number := range l.count {
		f(number, vector)
		for c := range vector {
			if vector[c]++; vector[c] < l.size[c] {
				break
			}
			vector[c] = 0
		}
	}
}

// Exact returns the exact solution. The work grows with the product of the classes' populations, for Multi stations
// with its square. Exact returns an error if it would need more than a few seconds.
func (m Multiclass) Exact() (ClassSolution, error) {
	e := exact{Multiclass: m}
	err := m.check()
	if err == nil {
		e.lattice, err = m.lattice()
	}
	if err == nil {
		err = e.affordable()
	}
	if err != nil {
		return ClassSolution{}, fmt.Errorf("network with classes: %w", err)
	}
	e.convolve()
	return e.solution(), nil
}

// exact computes an exact solution. It uses the convolution of M. Reiser and H. Kobayashi (IBM Journal of Research
// and Development 19 (1975)), which for one class is that of J. P. Buzen (Communications of the ACM 16 (1973); Jain,
// section 35.2). A station alone with the customers n, a vector by class, has the weight
//
//	f(n) = |n|!/(a(1) ... a(|n|)) prod over c of D_c^n_c/n_c!
//
// where a(j) is its rate with j customers. G is the convolution of the weights of all stations, and
//
//	X_c(N) = G(N-1_c)/G(N), p_i(n) = f_i(n) G_i(N-n)/G(N)
//
// where G_i is the convolution of all stations but i; station i is never removed from G. All terms are positive, so
// the relative error of a result is a few hundred roundings at most. In contrast, mean value analysis with p(0) = 1 -
// sum of the others loses all digits when a station with several servers fills up. All delays and the think time
// count as one station: their convolution is the weights of a delay with the sum of their demands. The convolution
// with a single server is a simple recurrence.
//
// Slices of weights are by the number of the vector.
type exact struct {
	Multiclass
	lattice

	alone  [][]wide    // f of each station with several rates; nil for others
	others [][]wide    // G without that station
	all    []wide      // G
	p      [][]float64 // probabilities of the vectors at that station
}

// delays returns f of one delay that stands for all delays and think times.
func (e *exact) delays() []wide {
	demand := make([]float64, len(e.Classes))
	for c, class := range e.Classes {
		demand[c] = class.Think
		for i := range e.Stations {
			if s := &e.Stations[i]; s.Kind == Delay {
				demand[c] += s.Demands[c]
			}
		}
	}
	g := make([]wide, e.count)
	e.walk(func(number int, vector []int) {
		g[number] = widen(1)
		for c, n := range vector {
			if n > 0 {
				g[number] = g[number-e.stride[c]].times(demand[c] / float64(n))
				return
			}
		}
	})
	return g
}

// queued returns the convolution of g with a single server: G'(n) = G(n) + sum over c of D_c G'(n-1_c).
func (e *exact) queued(g []wide, demands []float64) []wide {
	out := make([]wide, e.count)
	e.walk(func(number int, vector []int) {
		sum := g[number]
		for c, n := range vector {
			if n > 0 && demands[c] > 0 {
				sum = sum.plus(out[number-e.stride[c]].times(demands[c]))
			}
		}
		out[number] = sum
	})
	return out
}

// weights returns f of a station: f(n) = sum over c of f(n-1_c) D_c/a(|n|).
func (e *exact) weights(s *Station) []wide {
	f := make([]wide, e.count)
	e.walk(func(number int, vector []int) {
		if number == 0 {
			f[0] = widen(1)
			return
		}
		total := 0
		for _, n := range vector {
			total += n
		}
		for c, n := range vector {
			if n > 0 {
				f[number] = f[number].plus(f[number-e.stride[c]].times(s.Demands[c] / s.rate(total)))
			}
		}
	})
	return f
}

// affordable returns an error if the convolutions would take too long.
func (e *exact) affordable() error {
	work := 0
	for i := range e.Stations {
		s := &e.Stations[i]
		if !s.several() {
			continue
		}
		support := 1 // the number of vectors whose weight is not 0
		for c, d := range s.Demands {
			if d > 0 {
				support *= e.size[c]
			}
		}
		// Each takes part in three convolutions; on average a quarter of all vectors are below a vector.
		if work += 3 * e.count / 4 * support; work > maxVectorWork {
			return fmt.Errorf("the exact solution takes more than %d steps: expected smaller populations, or use "+
				"Linearizer", maxVectorWork)
		}
	}
	return nil
}

// combine returns the convolution of g and f. f is 0 for vectors with customers of a class without a demand.
func (e *exact) combine(g, f []wide, demands []float64) []wide {
	out := make([]wide, e.count)
	k := make([]int, len(demands))
	e.walk(func(number int, vector []int) {
		var sum wide
		row := 1 // vectors that differ in the first class have successive numbers
		if demands[0] > 0 {
			row += vector[0]
		}
		clear(k)
		for taken := 0; ; {
			for i := taken + row - 1; i >= taken; i-- {
				sum = sum.add(wide{g[number-i].m * f[i].m, g[number-i].e + f[i].e})
			}
			c := 1
			for ; c < len(k); c++ {
				if demands[c] == 0 {
					continue
				}
				if k[c]++; k[c] <= vector[c] {
					taken += e.stride[c]
					break
				}
				taken -= (k[c] - 1) * e.stride[c]
				k[c] = 0
			}
			if c >= len(k) {
				break
			}
		}
		out[number] = sum.normal()
	})
	return out
}

// convolve computes G, and for each station with several rates G without it.
func (e *exact) convolve() {
	n := len(e.Stations)
	e.alone, e.others = make([][]wide, n), make([][]wide, n)
	g := e.delays()
	var several []int
	for i := range e.Stations {
		switch s := &e.Stations[i]; {
		case s.Kind == Delay:
		case s.several():
			several = append(several, i)
			e.alone[i] = e.weights(s)
		default:
			g = e.queued(g, s.Demands)
		}
	}
	for k, i := range several {
		e.others[i] = g // of the stations before i, and those with one rate
		for _, j := range several[k+1:] {
			e.others[i] = e.combine(e.others[i], e.alone[j], e.Stations[j].Demands)
		}
		g = e.combine(g, e.alone[i], e.Stations[i].Demands)
	}
	e.all = g
}

// solution returns the solution that follows from the constants.
func (e *exact) solution() ClassSolution {
	last := e.count - 1
	classes := len(e.Classes)
	x := make([]float64, classes)
	for c, class := range e.Classes {
		if class.Customers > 0 {
			x[c] = e.all[last-e.stride[c]].over(e.all[last])
		}
	}
	q := make([][]float64, len(e.Stations))
	e.p = make([][]float64, len(e.Stations))
	for i := range e.Stations {
		s := &e.Stations[i]
		q[i] = make([]float64, classes)
		switch {
		case s.Kind == Delay:
			for c := range q[i] {
				q[i][c] = x[c] * s.Demands[c]
			}
		case s.several():
			e.p[i] = make([]float64, e.count)
			e.walk(func(number int, vector []int) {
				p := min(e.alone[i][number].mul(e.others[i][last-number]).over(e.all[last]), 1)
				e.p[i][number] = p
				for c, n := range vector {
					q[i][c] += float64(n) * p
				}
			})
		default:
			// Q_c = sum over n of n_c p(n) = D_c G+(N-1_c)/G(N), where G+ has the station twice.
			twice := e.queued(e.all, s.Demands)
			for c, class := range e.Classes {
				if class.Customers > 0 {
					q[i][c] = twice[last-e.stride[c]].times(s.Demands[c]).over(e.all[last])
				}
			}
		}
		for c, class := range e.Classes {
			q[i][c] = min(q[i][c], float64(class.Customers))
		}
	}
	return e.Multiclass.solution(x, q)
}

func (m *Multiclass) customers() []float64 {
	n := make([]float64, len(m.Classes))
	for c, class := range m.Classes {
		n[c] = float64(class.Customers)
	}
	return n
}

// converged reports whether a and b are equal except for rounding.
func converged(a, b [][]float64) bool {
	near := func(x, y float64) bool { return !(math.Abs(x-y) > 1e-12*(1e-3+math.Abs(y))) }
	return slices.EqualFunc(a, b, func(x, y []float64) bool { return slices.EqualFunc(x, y, near) })
}
