package factorial

import (
	"fmt"
	"math"
)

// checkConfidence refuses what is no confidence level.
func checkConfidence(confidence float64) error {
	if !(confidence > 0 && confidence < 1) {
		return fmt.Errorf("confidence level %v: expected a number between 0 and 1, such as 0.95", confidence)
	}
	return nil
}

// ratio returns part/whole, NaN when the whole is 0: what doesn't vary has no shares of variation.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return part / whole
}
