package plot_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"mcmw/lab/plot"
)

func TestAnyValuesMakeAFigure(t *testing.T) {
	value := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-10, 10),
		rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, 1e16, 1e16 + 2}))
	point := rapid.Custom(func(t *rapid.T) plot.Point {
		return plot.Point{
			X: value.Draw(t, "x"), Y: value.Draw(t, "y"), Low: value.Draw(t, "low"),
			High: value.Draw(t, "high"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(point, 0, 6).Draw(t, "points")
		values := make([]float64, len(points))
		bins := make([]plot.Bin, len(points))
		boxes := make([]plot.Percentiles, len(points))
		for i, p := range points {
			values[i] = p.Y
			bins[i] = plot.Bin{Lower: p.X, Upper: p.Y, Count: p.High}
			boxes[i] = plot.Percentiles{Low: p.Low, P25: p.X, P50: p.Y, P75: p.High, High: p.High, Mean: p.Y}
		}
		series := rapid.IntRange(0, 20).Draw(t, "series")
		marks := []plot.Mark{
			plot.Line{
				Name: "line", Points: points,
				Look: rapid.SampledFrom([]plot.Look{plot.Measured, plot.Computed, plot.Trace, plot.Dots}).
					Draw(t, "look"), Series: series,
			},
			plot.Limit{
				Name: "limit", Y: value.Draw(t, "limit"), X: value.Draw(t, "limit"),
				Vertical: rapid.Bool().Draw(t, "vertical"),
			},
			plot.Bars{Layers: []plot.Layer{{Values: values}, {Values: values, Series: 1}}},
			plot.Histogram{Bins: bins},
			plot.Line{Points: plot.CDF(bins)},
			plot.Line{Points: plot.QQLine(points)},
			plot.Boxes{Values: boxes},
		}
		axis := func(name string) plot.Axis {
			a := plot.Axis{
				Label: rapid.String().Draw(t, name), Log: rapid.Bool().Draw(t, name),
				FromZero: rapid.Bool().Draw(t, name),
			}
			a.Unit = rapid.SampledFrom([]plot.Unit{plot.None, plot.Seconds, plot.OpsPerSecond, plot.Bytes, plot.Ratio}).
				Draw(t, name)
			if rapid.Bool().Draw(t, name) {
				a.At = values
			}
			if rapid.Bool().Draw(t, name) {
				a.Categories = []string{"a", "b"}
			}
			return a
		}
		chosen := marks[rapid.IntRange(0, len(marks)-1).Draw(t, "mark")]
		chart := plot.Chart{
			Title: rapid.String().Draw(t, "title"), X: axis("x"), Y: axis("y"),
			Marks: []plot.Mark{chosen},
		}
		requireXML(t, string(plot.Figure{Panels: []plot.Chart{chart}}.SVG()))
	})
}

// The smallest and the largest float64 on a logarithmic axis once led to an endless number of ticks.
func TestExtremeValuesMakeASmallFigure(t *testing.T) {
	for _, v := range []float64{5e-324, math.MaxFloat64, 6.7e70, 1e100, 1e-100} {
		for _, log := range []bool{false, true} {
			axis := plot.Axis{Log: log, Unit: plot.Seconds}
			chart := plot.Chart{
				X: axis, Y: axis,
				Marks: []plot.Mark{plot.Line{Points: []plot.Point{
					plot.At(v, v), plot.At(1, 1),
					plot.At(5e-324, 1e100),
				}}},
			}
			svg := string(plot.Figure{Panels: []plot.Chart{chart}}.SVG())
			requireXML(t, svg)
			require.Less(t, len(svg), 100_000)
		}
	}
}
