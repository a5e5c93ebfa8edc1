package queueing

import (
	"errors"
	"fmt"
	"math"
)

// ErrUnstable is wrapped by the errors of queues that grow without bound.
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
