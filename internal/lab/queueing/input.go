package queueing

import (
	"errors"
	"fmt"
	"math"
)

// ErrUnstable is wrapped by the errors for queues that grow without bound.
var ErrUnstable = errors.New("no steady state")

// positive returns an error unless v is a number above 0.
func positive(name string, v float64) error {
	if !(v > 0) || math.IsInf(v, 1) {
		return fmt.Errorf("%s is %v: expected a number above 0", name, v)
	}
	return nil
}

// notNegative returns an error unless v is a number, 0 or above.
func notNegative(name string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 1) {
		return fmt.Errorf("%s is %v: expected a number, 0 or above", name, v)
	}
	return nil
}

// atLeast returns an error unless n is least or more.
func atLeast(name string, n, least int) error {
	if n < least {
		return fmt.Errorf("%s is %d: expected at least %d", name, n, least)
	}
	return nil
}

// atMost returns an error unless n is most or less.
func atMost(name string, n, most int) error {
	if n > most {
		return fmt.Errorf("%s is %d: expected at most %d", name, n, most)
	}
	return nil
}

// share returns an error unless q can be the share of a percentile.
func share(q float64) error {
	if !(q >= 0 && q < 1) {
		return fmt.Errorf("percentile %v: expected a share from 0 to below 1, as 0.99", q)
	}
	return nil
}

// unstable returns the error of a queue without bound that gets more than it can serve.
func unstable(model string, lambda, capacity, rho float64) error {
	return fmt.Errorf("%s: %w: arrivals of %v per unit of time to servers that finish %v at most (rho = %v, expected below 1)",
		model, ErrUnstable, lambda, capacity, rho)
}

// clamp1 returns u, and 1 where rounding carried a probability or utilization above it.
func clamp1(u float64) float64 { return min(u, 1) }
