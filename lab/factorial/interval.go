package factorial

import (
	"fmt"
	"math"
)

// checkOptions returns an error if a confidence or a largest order of interactions is out of range.
func checkOptions(confidence float64, maxOrder int) error {
	if !(confidence > 0 && confidence < 1) {
		return fmt.Errorf("confidence level %v: expected a number between 0 and 1, such as 0.95", confidence)
	}
	if maxOrder < 0 {
		return fmt.Errorf("interactions of at most %d factors: expected 1 or more, or 0 for all", maxOrder)
	}
	return nil
}

// ratio returns part/whole; NaN if the whole is 0, because then there are no shares of variation.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return part / whole
}
