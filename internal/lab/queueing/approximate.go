package queueing

import (
	"errors"
	"fmt"
)

// maxIterations is when an approximation is given up; it takes some hundred where it converges.
const maxIterations = 100_000

// Linearizer returns the approximate solution that also estimates how the share of each class at each station changes when
// one customer leaves, by solving the networks without one customer of each class (K. M. Chandy and D. Neuse, "Linearizer: a
// heuristic algorithm for queueing network models of computing systems", Communications of the ACM 25 (1982)). Its errors are mostly
// below one percent. A station of m servers is taken as a server m times as fast and a delay (A. Seidmann).
// Load-dependent stations are refused.
func (m Multiclass) Linearizer() (ClassSolution, error) {
	a, err := m.approximation()
	if err != nil {
		return ClassSolution{}, err
	}
	classes := len(m.Classes)
	full := m.customers()
	// change[j][i][c] is the share of class c at station i without a customer of class j, less that with all.
	change := make([][][]float64, classes)
	for j := range change {
		change[j] = table(len(m.Stations), classes)
	}
	const rounds = 3 // as its authors recommend
	for range rounds {
		_, with, err := a.core(full, change)
		if err != nil {
			return ClassSolution{}, err
		}
		next := make([][][]float64, classes)
		for j := range next {
			next[j] = table(len(m.Stations), classes)
			if full[j] == 0 {
				continue
			}
			less := m.customers()
			less[j]--
			_, without, err := a.core(less, change)
			if err != nil {
				return ClassSolution{}, err
			}
			for i := range with {
				for c := range with[i] {
					if less[c] > 0 {
						next[j][i][c] = without[i][c]/less[c] - with[i][c]/full[c]
					}
				}
			}
		}
		change = next
	}
	x, q, err := a.core(full, change)
	if err != nil {
		return ClassSolution{}, err
	}
	return m.solution(x, q, nil), nil
}

// approximation is a network whose stations wait for one server, or don't wait.
type approximation struct {
	waiting [][]float64 // demands on a single server, by station and class
	fixed   [][]float64 // demands without a wait
	think   []float64
}

func (m *Multiclass) approximation() (approximation, error) {
	if err := m.check(); err != nil {
		return approximation{}, fmt.Errorf("network with classes: %w", err)
	}
	a := approximation{waiting: table(len(m.Stations), len(m.Classes)), fixed: table(len(m.Stations), len(m.Classes))}
	for _, class := range m.Classes {
		a.think = append(a.think, class.Think)
	}
	for i := range m.Stations {
		s := &m.Stations[i]
		servers := 1.0
		if s.Kind == Multi {
			servers = float64(s.Servers)
		}
		for c, d := range s.Demands {
			switch s.Kind {
			case Delay:
				a.fixed[i][c] = d
			case LoadDependent:
				return approximation{}, fmt.Errorf("network with classes: station %q has the kind ld: expected queue, delay or multi, or use Exact", s.Name)
			default:
				a.waiting[i][c] = d / servers
				a.fixed[i][c] = d * (servers - 1) / servers
			}
		}
	}
	return a, nil
}

// core returns throughputs by class, and mean numbers by station and class, of n customers by class. change is as in
// Linearizer; nil is none.
func (a *approximation) core(n []float64, change [][][]float64) (x []float64, q [][]float64, err error) {
	classes := len(n)
	q = table(len(a.waiting), classes)
	for i := range q {
		for c := range q[i] {
			q[i][c] = n[c] / float64(len(q))
		}
	}
	x = make([]float64, classes)
	for range maxIterations {
		next := table(len(q), classes)
		for c := range classes {
			if n[c] == 0 {
				continue
			}
			sum := a.think[c]
			for i := range q {
				next[i][c] = a.fixed[i][c] + a.waiting[i][c]*(1+seen(q[i], n, c, i, change))
				sum += next[i][c]
			}
			x[c] = n[c] / sum
			for i := range q {
				next[i][c] *= x[c]
			}
		}
		done := converged(q, next)
		q = next
		if done {
			return x, q, nil
		}
	}
	return nil, nil, errors.New("network with classes: the approximation does not converge: expected demands that are less extreme, or use Exact")
}

// seen returns how many customers a customer of class j finds at station i, where q is the mean number by class.
func seen(q, n []float64, j, i int, change [][][]float64) float64 {
	var sum float64
	for c := range q {
		others := n[c]
		if c == j {
			others--
		}
		if others <= 0 {
			continue
		}
		part := q[c] / n[c]
		if change != nil {
			part += change[j][i][c]
		}
		sum += max(0, others*part)
	}
	return sum
}

func table(rows, columns int) [][]float64 {
	t := make([][]float64, rows)
	for i := range t {
		t[i] = make([]float64, columns)
	}
	return t
}
