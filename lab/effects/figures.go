package effects

import (
	"mcmw/lab/factorial"
	"mcmw/lab/plot"
)

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
