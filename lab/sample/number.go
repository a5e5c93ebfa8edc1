package sample

import (
	"encoding/json"
	"math"
)

// Number is a number that may be NaN (unknown) or infinite. JSON has neither; there both are null.
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
