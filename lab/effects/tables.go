package effects

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcmw/lab/factorial"
	"mcmw/lab/plot"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// decimalsFor returns the number of decimals that show about five digits of values of a size.
func decimalsFor(size float64) int {
	if size == 0 || math.IsNaN(size) || math.IsInf(size, 0) {
		return 0
	}
	return min(12, max(0, 4-int(math.Floor(math.Log10(math.Abs(size))))))
}

// fixed formats v with a number of decimals, without a minus before zeros; NaN is "".
func fixed(v float64, decimals int) string {
	if math.IsNaN(v) {
		return ""
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-")
	}
	return text
}

// percent formats a ratio in per cent; NaN is "".
func percent(ratio float64) string { return fixed(100*ratio, 2) }

// unit returns the unit in brackets; "" without a unit.
func unit(name string) string {
	if name == "" {
		return ""
	}
	return " [" + name + "]"
}

func (e *Experiment) legend() string {
	var parts []string
	for _, f := range e.Factors {
		text := f.Name
		if f.Short != f.Name {
			text = f.Short + " " + f.Name
		}
		if len(f.Levels) == 2 {
			text += fmt.Sprintf(": %s (-1), %s (+1)", f.Levels[0], f.Levels[1])
		} else {
			text += ": " + strings.Join(f.Levels, ", ")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// SignTable returns the design of a two-level analysis with its responses, in the form of the reports.
func (e *Experiment) SignTable(a *factorial.Analysis) table.Table {
	d := decimalsFor(e.Design.Largest())
	t := table.Table{
		Caption: fmt.Sprintf("Sign table and responses: %s%s", e.Response, unit(e.Unit)),
		Columns: []string{"i"},
		Notes:   []string{e.legend()},
	}
	for _, term := range a.Terms {
		t.Columns = append(t.Columns, term.Name)
	}
	for j := range a.R {
		t.Columns = append(t.Columns, "y"+strconv.Itoa(j+1))
	}
	t.Columns = append(t.Columns, "mean")
	if a.Model == factorial.Multiplicative {
		t.Columns[len(t.Columns)-1] = "geometric mean"
	}
	for i, cell := range a.Cells {
		row := []string{strconv.Itoa(i + 1)}
		for _, term := range a.Terms {
			row = append(row, strconv.Itoa(factorial.Sign(cell, term.Effect)))
		}
		for _, y := range cell.Y {
			row = append(row, fixed(y, d))
		}
		mean := a.CellMeans[i]
		if a.Model == factorial.Multiplicative {
			mean = math.Pow(a.LogBase, mean)
		}
		t.Rows = append(t.Rows, append(row, fixed(mean, d)))
	}
	return t
}

// EffectsTable returns effects, variation and intervals, in the form of the reports.
func (e *Experiment) EffectsTable(a *factorial.Analysis) table.Table {
	of, d := e.Response+unit(e.Unit), decimalsFor(a.Terms[0].Q)
	if a.Model == factorial.Multiplicative {
		of, d = "logarithm of "+of, 6
		if a.LogBase != math.E {
			of = fmt.Sprintf("logarithm to the base %v of %s", a.LogBase, e.Response+unit(e.Unit))
		}
	}
	t := table.Table{
		Caption: fmt.Sprintf("Effects and allocation of variation, %s model: %s", a.Model, of),
		Columns: []string{
			"", "effect", "sum of squares", "variation [%]",
			fmt.Sprintf("%v%% interval", round(100*a.Confidence)), "significant",
		},
	}
	if a.Model == factorial.Multiplicative {
		t.Columns = append(t.Columns, "multiplier")
	}
	squares := decimalsFor(a.SST)
	for _, term := range a.Terms {
		row := []string{
			term.Name, fixed(term.Q, d), fixed(term.SS, squares), percent(term.Variation), "", "",
		}
		if a.DOF > 0 && !term.Pooled {
			row[4] = "(" + fixed(term.Interval.Low, d) + ", " + fixed(term.Interval.High, d) + ")"
			row[5] = yes(term.Significant)
		}
		if term.Pooled {
			row[5] = "counted as error"
		}
		if a.Model == factorial.Multiplicative {
			row = append(row, fixed(term.Multiplier, decimalsFor(term.Multiplier)))
		}
		t.Rows = append(t.Rows, row)
	}
	t.Rows = append(t.Rows, []string{"error", "", fixed(a.SSE, squares), percent(a.VariationError)})
	t.Rows = append(t.Rows, []string{"SST", "", fixed(a.SST, squares), ""})
	if a.DOF > 0 {
		t.Notes = append(t.Notes,
			fmt.Sprintf("%d degrees of freedom of the errors, t = %.4g, s_e = %.5g, half width of the intervals "+
				"%.5g, of a predicted mean %.5g",
				a.DOF, a.T, a.SE, a.HalfWidth, a.CellHalfWidth))
	} else {
		t.Notes = append(t.Notes,
			"no degrees of freedom remain for the errors, so there are no intervals: repeat the runs, or count "+
				"interactions of many factors as errors (--max-order)")
	}
	if s := factorial.Straightness(factorial.QQ(a.Residuals)); !math.IsNaN(s) {
		t.Notes = append(t.Notes,
			fmt.Sprintf("residuals: correlation %.3f with normal quantiles (1 if they are normal)", s))
	}
	return t
}

// ConfoundingTable returns the confounded effects of a fractional design; false for a full design.
func (e *Experiment) ConfoundingTable(a *factorial.Analysis) (table.Table, bool) {
	if len(a.Words) == 0 {
		return table.Table{}, false
	}
	t := table.Table{
		Caption: fmt.Sprintf("Confounding: I = %s, resolution %d", strings.Join(a.Relation(), " = "), a.Resolution),
		Columns: []string{"effect", "confounded with"}, Left: []int{1},
	}
	for _, term := range a.Terms {
		t.Rows = append(t.Rows, []string{term.Name, strings.Join(a.AliasNames(term), ", ")})
	}
	return t, true
}

// ComparisonTable returns the better model and the reasons.
func ComparisonTable(c *factorial.Comparison) table.Table {
	verdict := fmt.Sprintf("The %s model fits better", c.Preferred)
	if !c.Decisive {
		verdict = "The models fit equally well; the additive one is simpler"
	}
	t := table.Table{Caption: verdict, Columns: []string{"because"}}
	for _, reason := range c.Reasons {
		t.Rows = append(t.Rows, []string{reason})
	}
	return t
}

// VarianceTables returns the analysis of variance, and the effect of each level of each factor.
func (e *Experiment) VarianceTables(v *factorial.Variance) []table.Table {
	squares := decimalsFor(v.SST)
	t := table.Table{
		Caption: fmt.Sprintf("Analysis of variance: %s%s", e.Response, unit(e.Unit)),
		Columns: []string{
			"", "sum of squares", "variation [%]", "degrees of freedom", "mean square", "F",
			fmt.Sprintf("F[%v; ...]", v.Confidence), "p", "significant",
		},
		Notes: []string{e.legend()},
	}
	for _, s := range v.Sources {
		row := []string{
			s.Name, fixed(s.SS, squares), percent(s.Variation), strconv.Itoa(s.DOF), fixed(s.MS, squares),
			"", "", "", "",
		}
		switch {
		case s.Pooled:
			row[8] = "counted as error"
		case v.DOF > 0:
			row[5], row[6], row[7], row[8] = fmt.Sprintf("%.4g", s.F), fmt.Sprintf("%.4g", s.Quantile),
				fmt.Sprintf("%.2g", s.P), yes(s.Significant)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Rows = append(t.Rows,
		[]string{"error", fixed(v.SSE, squares), percent(v.VariationError), strconv.Itoa(v.DOF), fixed(v.MSE, squares)},
		[]string{"SST", fixed(v.SST, squares), "", strconv.Itoa(len(v.Residuals) - 1)})
	if v.DOF == 0 {
		t.Notes = append(t.Notes,
			"no degrees of freedom remain for the errors, so there are no tests: repeat the runs, or count "+
				"interactions of many factors as errors (--max-order)")
	}
	d := decimalsFor(v.Mean)
	levels := table.Table{
		Caption: fmt.Sprintf("Effect of each level on the mean %s: %s%s", fixed(v.Mean, d), e.Response, unit(e.Unit)),
		Columns: []string{"factor", "level", "effect", fmt.Sprintf("%v%% interval", round(100*v.Confidence))},
	}
	for _, s := range v.Sources {
		if s.Effect.Order() > 1 {
			continue
		}
		for _, effect := range s.Effects {
			f := slices.IndexFunc(e.Factors, func(f Factor) bool { return f.Short == s.Name })
			row := []string{s.Name, e.Factors[f].Levels[effect.Levels[0]], fixed(effect.Effect, d), ""}
			if v.DOF > 0 {
				row[3] = "(" + fixed(effect.Interval.Low, d) + ", " + fixed(effect.Interval.High, d) + ")"
			}
			levels.Rows = append(levels.Rows, row)
		}
	}
	return []table.Table{t, levels}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// round removes rounding errors from a confidence in per cent.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// Figures returns the plots that show whether a model's assumptions hold: the residuals over the predicted responses,
// which should have no trend and the same spread everywhere, and the residuals over normal quantiles, which should lie
// on the line. unitName is the unit of the residuals; "" for none.
func Figures(residuals []factorial.Residual, response, unitName string) map[string]plot.Figure {
	over := make([]plot.Point, len(residuals))
	for i, r := range residuals {
		over[i] = plot.At(r.Predicted, r.Error)
	}
	var quantiles []plot.Point
	x, y := factorial.QQ(residuals)
	for i := range x {
		quantiles = append(quantiles, plot.At(x[i], y[i]))
	}
	return map[string]plot.Figure{
		"residuals": {Title: "Residuals over predicted responses", Panels: []plot.Chart{{
			X:     plot.Axis{Label: "predicted " + response + unit(unitName)},
			Y:     plot.Axis{Label: "residual" + unit(unitName)},
			Marks: []plot.Mark{plot.Limit{Y: 0}, plot.Line{Points: over, Look: plot.Dots}},
		}}},
		"qq": {Title: "Residuals over normal quantiles", Panels: []plot.Chart{{
			X: plot.Axis{Label: "normal quantile"},
			Y: plot.Axis{Label: "residual" + unit(unitName)},
			Marks: []plot.Mark{
				plot.Line{Name: "normal", Points: plot.QQLine(quantiles), Look: plot.Computed},
				plot.Line{Name: "residuals", Points: quantiles, Look: plot.Dots},
			},
		}}},
	}
}

// Object returns the analyses for JSON, in base units. v is nil, or a and c are.
func (e *Experiment) Object(a *factorial.Analysis, c *factorial.Comparison, v *factorial.Variance) map[string]any {
	object := map[string]any{"response": e.Response, "unit": e.Unit, "factors": e.Factors}
	if a != nil {
		object["analysis"] = analysisObject(a)
	}
	if c != nil {
		object["comparison"] = map[string]any{
			"preferred": c.Preferred, "decisive": c.Decisive,
			"log_likelihood_ratio": sample.Number(c.LogLikelihoodRatio), "range": sample.Number(c.Range),
			"interactions_additive":       sample.Number(c.InteractionsAdditive),
			"interactions_multiplicative": sample.Number(c.InteractionsMultiplicative),
			"spread_slope":                sample.Number(c.SpreadSlope), "reasons": c.Reasons,
		}
	}
	if v != nil {
		object["variance"] = varianceObject(v)
	}
	return object
}

func analysisObject(a *factorial.Analysis) map[string]any {
	var terms []map[string]any
	for _, term := range a.Terms {
		t := map[string]any{
			"name": term.Name, "effect": term.Q, "sum_of_squares": term.SS,
			"variation": sample.Number(term.Variation), "pooled": term.Pooled,
		}
		if a.DOF > 0 && !term.Pooled {
			t["interval"], t["significant"] = []float64{term.Interval.Low, term.Interval.High}, term.Significant
		}
		if a.Model == factorial.Multiplicative {
			t["multiplier"] = term.Multiplier
		}
		if len(term.Aliases) > 0 {
			t["aliases"] = a.AliasNames(term)
		}
		terms = append(terms, t)
	}
	cells := make([]map[string]any, len(a.Cells))
	for i, cell := range a.Cells {
		cells[i] = map[string]any{"levels": cell.Levels, "y": cell.Y, "mean": a.CellMeans[i]}
	}
	object := allocationObject(a.Allocation)
	maps.Copy(object, map[string]any{
		"model": a.Model, "terms": terms, "cells": cells,
		"variation_error": sample.Number(a.VariationError), "t": sample.Number(a.T), "s_q": sample.Number(a.SQ),
		"half_width": sample.Number(a.HalfWidth), "cell_mean_half_width": sample.Number(a.CellHalfWidth),
		"defining_relation": a.Relation(), "resolution": a.Resolution,
	})
	return object
}

func varianceObject(v *factorial.Variance) map[string]any {
	var sources []map[string]any
	for _, s := range v.Sources {
		var effects []map[string]any
		for _, e := range s.Effects {
			effect := map[string]any{"levels": e.Levels, "effect": e.Effect}
			if v.DOF > 0 && !s.Pooled {
				effect["interval"] = []float64{e.Interval.Low, e.Interval.High}
			}
			effects = append(effects, effect)
		}
		sources = append(sources, map[string]any{
			"name": s.Name, "sum_of_squares": s.SS, "dof": s.DOF, "mean_square": s.MS,
			"variation": sample.Number(s.Variation),
			"f":         sample.Number(s.F), "f_quantile": sample.Number(s.Quantile), "p": sample.Number(s.P),
			"significant": s.Significant, "pooled": s.Pooled, "effects": effects,
		})
	}
	object := allocationObject(v.Allocation)
	object["mean"], object["sources"], object["MSE"] = v.Mean, sources, sample.Number(v.MSE)
	return object
}

// allocationObject returns what both analyses have.
func allocationObject(a factorial.Allocation) map[string]any {
	residuals := make([]map[string]any, len(a.Residuals))
	for i, r := range a.Residuals {
		residuals[i] = map[string]any{
			"cell": r.Cell, "repetition": r.Repetition, "y": r.Y, "predicted": r.Predicted,
			"error": r.Error,
		}
	}
	return map[string]any{
		"confidence": a.Confidence, "repetitions": a.R, "SSY": a.SSY, "SS0": a.SS0, "SST": a.SST, "SSE": a.SSE,
		"error_dof": a.DOF, "s_e": sample.Number(a.SE), "residuals": residuals,
	}
}
