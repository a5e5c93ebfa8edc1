package compare

import (
	"encoding/json"

	"mcmw/internal/lab/sample"
)

// NumberInterval is an interval in JSON: its ends, null where it has none.
type NumberInterval sample.Interval

// Known reports whether the interval is bounded.
func (i NumberInterval) Known() bool { return sample.Interval(i).Known() }

// MarshalJSON writes the ends.
func (i NumberInterval) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]sample.Number{sample.Number(i.Low), sample.Number(i.High)})
}
