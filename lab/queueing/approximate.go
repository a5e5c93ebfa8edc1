package queueing

import (
	"errors"
	"fmt"
)

// maxIterations limits the iterations of an approximation; one that converges needs some hundred.
const maxIterations = 100_000

// Linearizer returns an approximate solution. It estimates how the share of each class at each station changes when one
// customer leaves, by solving the networks without one customer of each class (K. M. Chandy and D. Neuse, "Linearizer:
// a heuristic algorithm for queueing network models of computing systems", Communications of the ACM 25 (1982)). Its
// errors are mostly below one percent. A station of m servers is replaced by a server m times as fast and a delay (A.
// Seidmann).
func (m Multiclass) Linearizer() (ClassSolution, error) {
	a, err := m.approximation()
	if err != nil {
		return ClassSolution{}, err
	}
	classes := len(m.Classes)
	full := m.customers()
	// change[j][i][c] is by how much the share of class c at station i grows when a customer of class j leaves.
	var change [][][]float64
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
	return m.solution(x, q), nil
}

// approximation is a network whose stations consist of a single server and a delay. Demands are by station and class.
type approximation struct {
	waiting [][]float64 // demands on the server
	fixed   [][]float64 // demands on the delay
	think   []float64   // by class
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
			if s.Kind == Delay {
				a.fixed[i][c] = d
			} else {
				a.waiting[i][c] = d / servers
				a.fixed[i][c] = d * (servers - 1) / servers
			}
		}
	}
	return a, nil
}

// core returns the throughputs by class, and the mean numbers of customers by station and class. n are the customers by
// class. change is as in Linearizer; nil stands for zeros.
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
	return nil, nil,
		errors.New("network with classes: the approximation does not converge: expected less extreme demands")
}

// seen returns the number of customers that an arriving customer of class j finds at station i. q are the mean numbers
// there and n the customers, by class.
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

// table returns zeros.
func table(rows, columns int) [][]float64 {
	t := make([][]float64, rows)
	for i := range t {
		t[i] = make([]float64, columns)
	}
	return t
}
