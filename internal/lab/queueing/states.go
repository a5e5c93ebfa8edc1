package queueing

import (
	"fmt"
	"slices"
)

// maxStates is how many states of a queue are kept one by one: 80 MB of them.
const maxStates = 10_000_000

// atMost returns an error unless n is most or less.
func atMost(name string, n, most int) error {
	if n > most {
		return fmt.Errorf("%s is %d: expected at most %d", name, n, most)
	}
	return nil
}

// states holds the probabilities of 0, 1, ... in a birth and death process, which add up to 1.
type states struct{ p []float64 }

// birthDeath returns the probabilities of 0..last of the process in which p(n) = p(n-1) step(n) (Jain, section 31.1). step
// falls as n grows. The largest is taken as 1 and the others come from it by products in both directions, so that none overflows, and
// those that underflow are too small to matter.
func birthDeath(last int, step func(n int) float64) states {
	mode := 0
	for mode < last && step(mode+1) > 1 {
		mode++
	}
	p := make([]float64, last+1)
	p[mode] = 1
	for n := mode + 1; n <= last; n++ {
		p[n] = p[n-1] * step(n)
	}
	for n := mode; n > 0; n-- {
		p[n-1] = p[n] / step(n)
	}
	var sum float64
	for _, v := range p {
		sum += v
	}
	for n := range p {
		p[n] /= sum
	}
	return states{p}
}

// mean returns the sum of f(n) p(n) for n from first on.
func (s states) mean(first int, f func(n int) float64) float64 {
	var sum float64
	for n := max(first, 0); n < len(s.p); n++ {
		sum += f(n) * s.p[n]
	}
	return sum
}

// poisson returns the probabilities of first, first+1, ... of a Poisson distribution of the given mean: those that matter. What is
// left out is less than 1e-15 together.
func poisson(mean float64) (first int, p []float64) {
	const least = 1e-18 // of the mode's
	mode := int(mean)
	var below []float64
	for j, w := mode, 1.0; j > 0; j-- {
		if w *= float64(j) / mean; w < least {
			break
		}
		below = append(below, w)
	}
	slices.Reverse(below)
	first = mode - len(below)
	p = append(below, 1)
	for j, w := mode+1, 1.0; ; j++ {
		if w *= mean / float64(j); w < least {
			break
		}
		p = append(p, w)
	}
	var sum float64
	for _, w := range p {
		sum += w
	}
	for i := range p {
		p[i] /= sum
	}
	return first, p
}
