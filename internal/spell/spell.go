// Package spell formats numbers for people.
package spell

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// Time formats a time of ns nanoseconds with three digits and a unit; for 0, which means no time, it returns a dash.
func Time(ns float64) string {
	if ns == 0 {
		return "–"
	}
	for _, u := range []struct {
		name string
		ns   float64
	}{{"µs", 1e3}, {"ms", 1e6}} {
		if v := ns / u.ns; v < 999.5 {
			return digits(v) + " " + u.name
		}
	}
	return digits(ns/1e9) + " s"
}

// digits formats v with about three digits.
func digits(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Count formats v as a whole number with commas between the thousands.
func Count(v float64) string { return humanize.Commaf(math.RoundToEven(v)) }
