package bench

import "mcmw/internal/lab/plot"

// Figure returns the curve: throughput, CPU per request and the 99th percentile of the response time over the quantity. Medians
// over rounds; the bars reach from the least to the greatest.
func (s CurveSummary) Figure() plot.Figure {
	x := plot.Axis{Label: s.Curve.X, Unit: s.Curve.unit, Log: !s.Curve.linear, FromZero: s.Curve.linear}
	panel := func(title string, y plot.Axis, value func(p CurvePoint) Spread) plot.Chart {
		chart := plot.Chart{Title: title, X: x, Y: y}
		for i, line := range s.Lines {
			var points []plot.Point
			for _, p := range line.Points {
				if v := value(p); v.Median > 0 {
					points = append(points, plot.Between(p.X, v.Median, v.Min, v.Max))
				}
			}
			if len(points) > 0 {
				chart.Marks = append(chart.Marks, plot.Line{Name: line.System, Points: points, Series: i})
			}
		}
		return chart
	}
	return plot.Figure{Title: s.Curve.Title, Columns: 3, Panels: []plot.Chart{
		panel("Throughput", plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true}, func(p CurvePoint) Spread { return p.OpsPerSec }),
		panel("CPU per request", plot.Axis{Label: "CPU per request", Unit: plot.Seconds, FromZero: true}, func(p CurvePoint) Spread { return p.CPUPerRequest }),
		panel("99th percentile", plot.Axis{Label: "response time, p99", Unit: plot.Seconds, Log: true}, func(p CurvePoint) Spread { return p.P99 }),
	}}
}

// cpuFigure returns the CPU per request of the systems under the workloads.
func (r *Report) cpuFigure() plot.Figure {
	chart := plot.Chart{X: plot.Axis{}, Y: plot.Axis{Label: "CPU per request", Unit: plot.Seconds, FromZero: true}}
	layers := map[string]*plot.Layer{}
	var order []string
	for i, w := range r.Workloads {
		chart.X.Categories = append(chart.X.Categories, w.Workload.Name)
		for _, s := range w.Systems {
			if s.System == Direct {
				continue
			}
			if layers[s.System] == nil {
				layers[s.System] = &plot.Layer{Name: s.System, Series: len(order), Values: make([]plot.Point, len(r.Workloads))}
				order = append(order, s.System)
			}
			layers[s.System].Values[i] = plot.At(0, s.CPUPerRequest.Seconds())
		}
	}
	bars := plot.Bars{}
	for _, name := range order {
		bars.Layers = append(bars.Layers, *layers[name])
	}
	chart.Marks = []plot.Mark{bars}
	return plot.Figure{Title: "CPU per request under each workload", Panels: []plot.Chart{chart}}
}

// cpuFigureName is the name of the file of cpuFigure; those of the curves have the curves' names.
const cpuFigureName = "cpu-per-request"

// Figures returns the figures of the report by the names of their files.
func (r *Report) Figures() map[string]plot.Figure {
	figures := make(map[string]plot.Figure)
	if len(r.Workloads) > 0 {
		figures[cpuFigureName] = r.cpuFigure()
	}
	for _, c := range r.Curves {
		figures[c.Curve.Name] = c.Figure()
	}
	return figures
}
