package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"mcmw/lab/plot"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// Report has the models' predictions for each point of a record.
type Report struct {
	Data   *Data
	Models []ModelReport
}

// ModelReport has the predictions of one model, by point.
type ModelReport struct {
	Model
	All      []Prediction // with parameters from all points
	LeaveOut []Prediction // with parameters from all other points, to validate the model
}

// NewReport fits all models and validates them.
func NewReport(d *Data) *Report {
	r := Fitted(d)
	for j := range r.Models {
		m := &r.Models[j]
		for i, p := range d.Points {
			others := slices.Delete(slices.Clone(d.Points), i, i+1)
			m.LeaveOut = append(m.LeaveOut, m.Fit(d, others)(p))
		}
	}
	return r
}

// Fitted fits all models to all points. LeaveOut stays empty.
func Fitted(d *Data) *Report {
	r := &Report{Data: d}
	for _, m := range Models {
		predict := m.Fit(d, d.Points)
		mr := ModelReport{Model: m}
		for _, p := range d.Points {
			mr.All = append(mr.All, predict(p))
		}
		r.Models = append(r.Models, mr)
	}
	return r
}

// relative returns the relative error of a prediction; NaN if there is none.
func relative(predicted, measured float64) float64 { return (predicted - measured) / measured }

// errors returns the absolute relative errors of the predictions with parameters from the other points, at the points
// that keep selects and that the model predicts.
func (m *ModelReport) errors(points []Point, keep func(Point) bool) (x, r []float64) {
	for i, p := range points {
		if !keep(p) {
			continue
		}
		if e := math.Abs(relative(m.LeaveOut[i].X, p.X.Mean)); !m.Open && !math.IsNaN(e) {
			x = append(x, e)
		}
		if e := math.Abs(relative(m.LeaveOut[i].R, p.R.Mean)); !math.IsNaN(e) {
			r = append(r, e)
		}
	}
	return x, r
}

// The following functions format numbers; unknown ones are a dash.
func ops(v float64) string     { return text("%.0f", v) }
func ms(v float64) string      { return text("%.3f", 1e3*v) }
func percent(v float64) string { return text("%+.1f %%", 100*v) }

func text(format string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// Page returns for each configuration the predictions and the parameters, then the comparison of the models, and the
// figures.
func (r *Report) Page() (p table.Page) {
	for _, name := range r.Data.Configurations() {
		p.Blocks = append(p.Blocks, r.predictions(name), r.parameters(name))
	}
	p.Blocks = append(p.Blocks, r.comparison())
	figures := r.Figures()
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		p.Blocks = append(p.Blocks, table.Figure{Name: "model-" + name, Figure: figures[name]})
	}
	return p
}

// predictions returns the table of measurements and predictions of a configuration.
func (r *Report) predictions(configuration string) table.Table {
	t := table.Table{
		Caption: fmt.Sprintf("%s: measured and predicted. X in ops/s, R and the wait in the queue in ms; errors are "+
			"relative to the measurement.", configuration),
		Columns: []string{"clients", "model", "X", "error", "R", "error", "wait", "error", "utilization", "bottleneck"},
		Left:    []int{1, 8, 9},
	}
	for i, p := range r.Data.Points {
		if p.Configuration() != configuration {
			continue
		}
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(p.Clients), "measured", ops(p.X.Mean), "", ms(p.R.Mean), "", ms(p.Wait), "",
			fmt.Sprintf("workers %.2f", p.Busy/float64(p.AllWorkers())),
		})
		for _, m := range r.Models {
			q := m.All[i]
			if q.Problem != "" {
				t.Rows = append(t.Rows, []string{"", m.Name, "-", "", "-", "", "-", "", q.Problem})
				continue
			}
			x, xError := ops(q.X), percent(relative(q.X, p.X.Mean))
			if m.Open {
				x, xError = "given", ""
			}
			wait := percent(relative(q.Wait, p.Wait))
			if !(p.Wait > 0) {
				wait = ""
			}
			var used []string
			for _, s := range q.Utilizations {
				used = append(used, s.Name+" "+text("%.2f", s.Utilization))
			}
			t.Rows = append(t.Rows, []string{
				"", m.Name, x, xError, ms(q.R), percent(relative(q.R, p.R.Mean)), ms(q.Wait), wait,
				strings.Join(used, ", "), q.Bottleneck,
			})
		}
	}
	return t
}

// parameters returns the table of the models' parameters at the point of the configuration with the most clients.
func (r *Report) parameters(configuration string) table.Table {
	last := -1
	for i, p := range r.Data.Points {
		if p.Configuration() == configuration {
			last = i
		}
	}
	t := table.Table{
		Caption: fmt.Sprintf("%s: parameters with %d clients, and their sources.", configuration,
			r.Data.Points[last].Clients),
		Columns: []string{"model", "parameter", "value", "from"}, Left: []int{1, 3},
	}
	for _, m := range r.Models {
		name := m.Name
		for _, p := range m.All[last].Parameters {
			value := text("%.6g", p.Value)
			switch p.Unit {
			case "s":
				value = text("%.6g", 1e3*p.Value) + " ms"
			case "1/s":
				value += " /s"
			}
			t.Rows = append(t.Rows, []string{name, p.Name, value, p.From})
			name = ""
		}
	}
	return t
}

// comparison returns the table of the models' errors when each point is predicted from the others.
func (r *Report) comparison() table.Table {
	t := table.Table{
		Caption: "Errors of predicting each point from the others: mean and largest absolute relative error.",
		Columns: []string{"model", "points", "predicted", "X mean", "X largest", "R mean", "R largest"}, Left: []int{1},
		Notes: append([]string{
			"The open models are given the throughput of the point. The multiclass model uses the times of the " +
				"nearest number of clients: in the tables above those of the point itself, as in the 2016 report, " +
				"here " +
				"those of another point.",
		}, r.Data.Notes...),
	}
	for _, group := range []struct {
		name string
		keep func(Point) bool
	}{
		{"all", func(Point) bool { return true }},
		{"clients < workers", func(p Point) bool { return p.Clients < p.AllWorkers() }},
		{"clients >= workers", func(p Point) bool { return p.Clients >= p.AllWorkers() }},
	} {
		count := 0
		for _, p := range r.Data.Points {
			if group.keep(p) {
				count++
			}
		}
		if count == 0 {
			continue
		}
		for _, m := range r.Models {
			x, r := m.errors(r.Data.Points, group.keep)
			row := []string{m.Name, group.name, fmt.Sprintf("%d of %d", len(r), count)}
			for _, errors := range [][]float64{x, r} {
				mean, most := stat.Mean(errors, nil), math.NaN()
				if len(errors) > 0 {
					most = slices.Max(errors)
				}
				row = append(row, text("%.1f %%", 100*mean), text("%.1f %%", 100*most))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// Figures returns two figures by name, throughput and response-time: the measurements and the predictions of the named
// models over the clients. Without names they show all models.
func (r *Report) Figures(models ...string) map[string]plot.Figure {
	if len(models) > 0 {
		chosen := *r
		chosen.Models = slices.DeleteFunc(slices.Clone(r.Models), func(m ModelReport) bool {
			return !slices.Contains(models, m.Name)
		})
		r = &chosen
	}
	return map[string]plot.Figure{
		"throughput": r.figure("Throughput, measured and predicted",
			plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true}, true,
			func(p Point) sample.Estimate { return p.X }, func(p Prediction) float64 { return p.X }),
		"response-time": r.figure("Mean response time, measured and predicted",
			plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true}, false,
			func(p Point) sample.Estimate { return p.R }, func(p Prediction) float64 { return p.R }),
	}
}

// figure returns a figure with a panel for each configuration. closed leaves out the open models.
func (r *Report) figure(title string, y plot.Axis, closed bool, measured func(Point) sample.Estimate,
	predicted func(Prediction) float64,
) plot.Figure {
	f := plot.Figure{Title: title}
	for _, name := range r.Data.Configurations() {
		c := plot.Chart{Title: name, X: plot.Axis{Label: "clients", Unit: plot.None, FromZero: true}, Y: y}
		line := plot.Line{Name: "measured"}
		lines := make([]plot.Line, len(r.Models))
		for j, m := range r.Models {
			lines[j] = plot.Line{
				Name: m.Name, Look: plot.Modelled,
				Series: 1 + slices.IndexFunc(Models, func(o Model) bool { return o.Name == m.Name }),
			}
		}
		for i, p := range r.Data.Points {
			if p.Configuration() != name {
				continue
			}
			m := measured(p)
			at := plot.At(float64(p.Clients), m.Mean)
			if m.Known() {
				at = plot.Between(at.X, m.Mean, max(0, m.Low), m.High)
			}
			line.Points = append(line.Points, at)
			for j := range r.Models {
				lines[j].Points = append(lines[j].Points, plot.At(float64(p.Clients), predicted(r.Models[j].All[i])))
			}
		}
		c.Marks = append(c.Marks, line)
		for j, l := range lines {
			if !closed || !r.Models[j].Open {
				c.Marks = append(c.Marks, l)
			}
		}
		f.Panels = append(f.Panels, c)
	}
	return f
}
