package compare

import (
	"encoding/json"

	"mcmw/lab/sample"
)

// NumberInterval is an interval whose JSON is a list of its two ends, which are null if it is unbounded.
type NumberInterval sample.Interval

// Known reports whether the interval is bounded.
func (i NumberInterval) Known() bool { return sample.Interval(i).Known() }

// MarshalJSON writes the ends.
func (i NumberInterval) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]sample.Number{sample.Number(i.Low), sample.Number(i.High)})
}
