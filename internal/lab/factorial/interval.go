package factorial

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a confidence interval.
type Interval struct {
	Low, High float64
}

// excludesZero reports whether 0 is outside i: what it is the interval of is significant.
func (i Interval) excludesZero() bool { return i.Low > 0 || i.High < 0 }

// studentQuantile returns t[1-alpha/2; dof] for the confidence level 1-alpha.
func studentQuantile(confidence float64, dof int) float64 {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(dof)}
	return t.Quantile(1 - (1-confidence)/2)
}

// checkConfidence refuses what is no confidence level.
func checkConfidence(confidence float64) error {
	if !(confidence > 0 && confidence < 1) {
		return fmt.Errorf("confidence level %v: expected a number between 0 and 1, such as 0.95", confidence)
	}
	return nil
}

// around returns q -+ halfWidth.
func around(q, halfWidth float64) Interval { return Interval{Low: q - halfWidth, High: q + halfWidth} }

// ratio returns part/whole, NaN when the whole is 0: what doesn't vary has no shares of variation.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return part / whole
}
