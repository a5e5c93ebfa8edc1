package recomputed

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Verdict is the result of comparing a printed figure with its recomputation.
type Verdict string

// The verdicts.
const (
	// Agrees: the recomputed figure, rounded, is the printed one.
	Agrees Verdict = "agrees"
	// Rounding: the rounding of the printed inputs explains the difference.
	Rounding Verdict = "agrees within the rounding of its inputs"
	// CutOff: the difference is less than one unit of the last digit, as if the figure was truncated instead of rounded.
	CutOff Verdict = "cut off, not rounded"
	// Holds: a law between measured figures holds, within a tolerance.
	Holds Verdict = "holds"
	// Differs: none of these.
	Differs Verdict = "differs"
)

// Check is a printed figure of a report with its recomputation, in the report's unit.
type Check struct {
	Table      string  `json:"table"` // or section
	What       string  `json:"what"`
	Printed    float64 `json:"printed"`
	Recomputed float64 `json:"recomputed"`
	Unit       float64 `json:"unit"`   // place value of the last printed digit
	Spread     float64 `json:"spread"` // largest effect of the inputs' rounding
	Verdict    Verdict `json:"verdict"`
	Note       string  `json:"note,omitempty"` // says why they differ, or explains the check
}

// Recomputation describes checks of a report by expressions over its printed numbers (in the language of github.com/expr-lang/expr).
// Texts can have expressions in braces. Expressions can use
//
//   - the variables of For and Each;
//   - row(I), column(J) and interval(I, J) of the table, and row("T", I) of another table: printed figures, NaN where there is no
//     number; columns and rows, their names; text("NAME"), a number of the text; networks and published("DESIGN");
//   - responses("DESIGN", UNIT), the responses of a design, printed to this unit; analysis("DESIGN", RESPONSES, CONFIDENCE) and its
//     term(ANALYSIS, "NAME"); mm1(LAMBDA, MU), mmm(LAMBDA, MU, M), solve(NETWORK), sqrt;
//   - unit(V, U), V printed to a multiple of U; place(V, N), the unit of V's N-th significant digit; same(ROW), its figures with
//     the unit of the one with the most decimals.
type Recomputation struct {
	Table string // the table or section of the figures
	// There are checks for each mapping of For, which has variables and their values, and for each element of the list Each, an
	// expression. The variable it is the element, and i is its index.
	For  []map[string]any
	Each string
	What string
	// Printed is the figure. If it is NaN nothing was printed, and nothing is checked.
	Printed string
	// Inputs are printed figures, or lists of them, by the names of the variables that Is has for them. The check allows for their rounding.
	Inputs map[string]string
	Is     string // the recomputation
	// Law, if there is one, is the name of a law between Printed and Is, which are then measured figures. Within is the largest relative
	// difference with which it holds.
	Law    string
	Within float64
	Why    string // the reason of a difference
}

// printedFigure is a number and the place value of its last digit.
type printedFigure struct{ Value, Unit float64 }

// recompute makes the checks of a Recomputation.
func (r *Report) recompute(spec Recomputation) (checks []Check, err error) {
	cases := spec.For
	if cases == nil {
		cases = []map[string]any{{}}
	}
	for _, variables := range cases {
		e := evaluation{report: r, variables: maps.Clone(variables)}
		items := []any{nil}
		if e.table, err = e.fill(spec.Table); err == nil && spec.Each != "" {
			items, err = e.list(spec.Each)
		}
		for i := 0; i < len(items) && err == nil; i++ {
			e.variables["it"], e.variables["i"] = items[i], i
			var k *Check
			if k, err = e.check(spec); k != nil {
				checks = append(checks, *k)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("report %s, table %s, %s: %w", r.Name, spec.Table, spec.What, err)
		}
	}
	return checks, nil
}

// evaluation is the context in which the expressions of a check are evaluated.
type evaluation struct {
	report    *Report
	table     string
	variables map[string]any
}

// check makes one check. It returns nil if nothing was printed.
func (e *evaluation) check(spec Recomputation) (*Check, error) {
	k := &Check{Table: e.table}
	var err error
	if k.What, err = e.fill(spec.What); err != nil {
		return nil, err
	}
	if spec.Law != "" {
		return k, e.law(k, spec)
	}
	printed, err := e.figures(spec.Printed)
	if err != nil || math.IsNaN(printed[0].Value) {
		return nil, err
	}
	k.Printed, k.Unit = printed[0].Value, printed[0].Unit
	inputs := map[string][]printedFigure{}
	for name, expression := range spec.Inputs {
		if inputs[name], err = e.figures(expression); err != nil {
			return nil, err
		}
	}
	if err := e.compute(k, spec.Is, inputs); err != nil {
		return nil, err
	}
	k.judge()
	return k, e.explain(k, spec)
}

// compute sets Recomputed, and Spread, the effect of the rounding of the inputs.
func (e *evaluation) compute(k *Check, expression string, inputs map[string][]printedFigure) (err error) {
	// set makes the figures a variable, with figure number i moved by so many units.
	set := func(name string, i int, units float64) {
		values := make([]float64, len(inputs[name]))
		for j, f := range inputs[name] {
			values[j] = f.Value
		}
		values[i] += units * inputs[name][i].Unit
		e.variables[name] = values
		if len(values) == 1 {
			e.variables[name] = values[0]
		}
	}
	for name := range inputs {
		set(name, 0, 0)
	}
	if k.Recomputed, err = e.number(expression); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		for i := range inputs[name] {
			// A first-order bound: each input is moved to both ends of the interval that rounds to it.
			for _, units := range []float64{-0.5, 0.5} {
				set(name, i, units)
				moved, err := e.number(expression)
				if err != nil {
					return err
				}
				k.Spread += math.Abs(moved-k.Recomputed) / 2
			}
		}
		set(name, 0, 0)
	}
	return nil
}

// law checks a law between measured figures.
func (e *evaluation) law(k *Check, spec Recomputation) (err error) {
	if k.Printed, err = e.number(spec.Printed); err != nil {
		return err
	}
	if k.Recomputed, err = e.number(spec.Is); err != nil {
		return err
	}
	law, err := e.fill(spec.Law)
	if err != nil {
		return err
	}
	relative := (k.Recomputed - k.Printed) / k.Printed
	k.Note = fmt.Sprintf("%s: off by %+.1f %%", law, 100*relative)
	k.Verdict = Holds
	if !(math.Abs(relative) <= spec.Within) {
		k.Verdict = Differs
	}
	return e.explain(k, spec)
}

// explain adds the reason of a difference to the note.
func (e *evaluation) explain(k *Check, spec Recomputation) error {
	if k.Verdict != Differs || spec.Why == "" {
		return nil
	}
	why, err := e.fill(spec.Why)
	if k.Note != "" {
		why = k.Note + "; " + why
	}
	k.Note = why
	return err
}

// judge sets the verdict of a check without a law.
func (k *Check) judge() {
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
}

// Checks makes all checks of the report.
func (r *Report) Checks() ([]Check, error) {
	var all []Check
	for _, spec := range r.Recomputed {
		checks, err := r.recompute(spec)
		if err != nil {
			return nil, err
		}
		all = append(all, checks...)
	}
	return all, nil
}
