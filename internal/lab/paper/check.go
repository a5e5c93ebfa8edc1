package paper

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

// Recomputation is a kind of check of a report: expressions (the language of github.com/expr-lang/expr) over what it prints. Any
// text may have expressions in braces. They know
//
//   - the variables of For and Each;
//   - row(I), column(J) and interval(I, J) of the table, and row("T", I) of another: printed figures, NaN where there is no
//     number; columns and rows, their names; text("NAME"), a number of the text; networks and published("DESIGN");
//   - responses("DESIGN", UNIT), those of a design, printed to this unit; analysis("DESIGN", RESPONSES, CONFIDENCE) and its
//     term(ANALYSIS, "NAME"); mm1(LAMBDA, MU), mmm(LAMBDA, MU, M), solve(NETWORK), sqrt;
//   - unit(V, U), V printed to a multiple of U; place(V, N), the unit of V's N-th significant digit; same(ROW), its figures with
//     the unit of the one with the most decimals.
type Recomputation struct {
	// Table is where the figures are.
	Table string
	// For is a list of variables and their values, for each of which there is a check, and Each an expression of a list: for each
	// of its elements there is a check, which knows it as `it` and its number from 0 as `i`.
	For  []map[string]any
	Each string
	What string
	// Printed is the figure. Where it is NaN nothing was printed, and nothing is checked.
	Printed string
	// Inputs are printed figures, or lists of them, that Is knows as numbers by their names. The check allows for their rounding.
	Inputs map[string]string
	Is     string
	// Law says that Printed and Is are measured figures, what relates them, and Within how far apart they may be, as a ratio.
	Law    string
	Within float64
	// Why is the reason of a difference.
	Why string
}

// printedFigure is a number and what its last digit stands for.
type printedFigure struct{ Value, Unit float64 }

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

// check makes one check; nil if nothing was printed.
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

// compute sets what a check recomputes, and how far the rounding of the inputs may move it.
func (e *evaluation) compute(k *Check, expression string, inputs map[string][]printedFigure) (err error) {
	values := make(map[string][]float64, len(inputs))
	for name, figures := range inputs {
		values[name] = make([]float64, len(figures))
		e.variables[name] = values[name]
		for i, f := range figures {
			values[name][i] = f.Value
		}
		if len(figures) == 1 {
			e.variables[name] = figures[0].Value
		}
	}
	if k.Recomputed, err = e.number(expression); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		for i, input := range inputs[name] {
			// A first-order bound: each input is moved to the ends of what rounds to it.
			for _, end := range []float64{-0.5, 0.5} {
				values[name][i] = input.Value + end*input.Unit
				if len(inputs[name]) == 1 {
					e.variables[name] = values[name][0]
				}
				moved, err := e.number(expression)
				if err != nil {
					return err
				}
				k.Spread += math.Abs(moved-k.Recomputed) / 2
			}
			values[name][i] = input.Value
			if len(inputs[name]) == 1 {
				e.variables[name] = input.Value
			}
		}
	}
	return nil
}

// law states how far a law between measured figures holds.
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

// judge compares what is printed and what is recomputed.
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

// Checks recomputes what can be recomputed of the report.
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
