package effects

import (
	"maps"

	"mcmw/lab/factorial"
	"mcmw/lab/sample"
)

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
