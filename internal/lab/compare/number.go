package compare

import (
	"encoding/json"
	"math"

	"mcmw/internal/lab/sample"
)

// Number is a number that may be unknown (NaN) or without bound, which JSON has no words for: both are null there.
type Number float64

// Known reports whether the number is known and finite.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes the number, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// NumberInterval is an interval whose ends are null in JSON where it has none.
type NumberInterval sample.Interval

// Known reports whether the interval is bounded.
func (i NumberInterval) Known() bool { return sample.Interval(i).Known() }

// MarshalJSON writes the ends.
func (i NumberInterval) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]Number{Number(i.Low), Number(i.High)})
}
