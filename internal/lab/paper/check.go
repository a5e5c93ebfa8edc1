package paper

import (
	"fmt"
	"math"
)

// Verdict is the result of comparing a printed figure with its recomputation.
type Verdict string

// The verdicts.
const (
	// Agrees: the recomputed figure, rounded, is the printed one.
	Agrees Verdict = "agrees"
	// Rounding: it differs by no more than the rounding of the printed inputs explains.
	Rounding Verdict = "agrees within the rounding of its inputs"
	// CutOff: it is off by less than its last digit, as if it was truncated instead of rounded.
	CutOff Verdict = "cut off, not rounded"
	// Holds: a law between measured figures holds, to the stated difference.
	Holds Verdict = "holds"
	// Differs: none of these.
	Differs Verdict = "differs"
)

// Check is a figure of a report with its recomputation.
type Check struct {
	// Table is the figure's table or section.
	Table string `json:"table"`
	What  string `json:"what"`
	// Printed and Recomputed are in the report's unit.
	Printed    float64 `json:"printed"`
	Recomputed float64 `json:"recomputed"`
	// Unit is the place value of the last printed digit, and Spread the largest effect of the inputs' rounding.
	Unit    float64 `json:"unit"`
	Spread  float64 `json:"spread"`
	Verdict Verdict `json:"verdict"`
	// Note says why they differ, or explains the check.
	Note string `json:"note,omitempty"`
}

// checker collects checks of one report.
type checker struct {
	report *Report
	table  string // that the checks belong to
	checks []Check
}

// compute checks figures that a function of printed inputs gives; names and outputs go together. Where a figure is NaN
// nothing was printed, and nothing is checked.
func (c *checker) compute(names []string, outputs, inputs []figure, f func([]float64) []float64) {
	x := make([]float64, len(inputs))
	for i, input := range inputs {
		x[i] = input.value
	}
	got := f(x)
	spread := make([]float64, len(outputs))
	for i, input := range inputs {
		// A first-order bound: each input is moved to the ends of what rounds to it.
		for _, end := range []float64{-0.5, 0.5} {
			x[i] = input.value + end*input.unit
			moved := f(x)
			for j := range spread {
				spread[j] += math.Abs(moved[j]-got[j]) / 2
			}
		}
		x[i] = input.value
	}
	for j, output := range outputs {
		if !math.IsNaN(output.value) {
			c.add(Check{What: names[j], Printed: output.value, Recomputed: got[j], Unit: output.unit, Spread: spread[j]})
		}
	}
}

// one is compute for a single figure.
func (c *checker) one(name string, output figure, f func(x []float64) float64, inputs ...figure) {
	c.compute([]string{name}, []figure{output}, inputs, func(x []float64) []float64 { return []float64{f(x)} })
}

// add judges a check and keeps it.
func (c *checker) add(k Check) {
	const slack = 1 + 1e-6
	difference := math.Abs(k.Printed - k.Recomputed)
	switch {
	case difference <= k.Unit/2*slack:
		k.Verdict = Agrees
	case difference <= (k.Unit/2+k.Spread)*slack:
		k.Verdict = Rounding
	case difference < k.Unit && math.Abs(k.Printed) < math.Abs(k.Recomputed):
		k.Verdict = CutOff
	default:
		k.Verdict = Differs
	}
	k.Table = c.table
	c.checks = append(c.checks, k)
}

// law states how far a law between measured figures holds, and that it doesn't beyond the limit, a ratio.
func (c *checker) law(what string, measured, predicted, limit float64, law string) {
	relative := (predicted - measured) / measured
	k := Check{
		Table: c.table, What: what, Printed: measured, Recomputed: predicted, Verdict: Holds,
		Note: fmt.Sprintf("%s: off by %+.1f %%", law, 100*relative),
	}
	if !(math.Abs(relative) <= limit) {
		k.Verdict = Differs
	}
	c.checks = append(c.checks, k)
}

// explain gives the checks of the table whose names begin with what, and that differ, a reason.
func (c *checker) explain(what, note string) {
	for i := range c.checks {
		k := &c.checks[i]
		if k.Table == c.table && k.Verdict == Differs && len(k.What) >= len(what) && k.What[:len(what)] == what {
			if k.Note != "" {
				k.Note += "; "
			}
			k.Note += note
		}
	}
}

// Checks recomputes what can be recomputed of the report.
func (r *Report) Checks() ([]Check, error) {
	c := &checker{report: r}
	var err error
	switch r.Name {
	case "kuechler":
		err = c.kuechler()
	case "pungas":
		c.pungas()
	case "pavlik":
		c.pavlik()
	case "ribeiro":
		err = c.ribeiro()
	case "cetin":
		err = c.cetin()
	}
	return c.checks, err
}
