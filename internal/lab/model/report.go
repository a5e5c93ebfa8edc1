package model

import (
	"fmt"
	"io"
	"math"
	"slices"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/table"
)

// Report has the models' predictions for each point of a record, with parameters from the whole record and, to validate the models, from
// all points but the predicted one.
type Report struct {
	Data   *Data
	Models []ModelReport
}

// ModelReport has one model's predictions. Slices are by point.
type ModelReport struct {
	Model
	All      []Prediction // with parameters from all points
	LeaveOut []Prediction // with parameters from all other points
}

// NewReport fits all models.
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

// Fitted fits all models to all points, without the predictions from other points.
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

// relative returns the relative error of what was predicted, NaN where there is none.
func relative(predicted, measured float64) float64 { return (predicted - measured) / measured }

// Errors are the relative errors, as absolute values, of the predictions with parameters from the other points.
type Errors struct {
	X, R []float64
}

// Errors returns the errors at the points that keep selects and for which the model has a prediction.
func (m *ModelReport) Errors(points []Point, keep func(Point) bool) Errors {
	var e Errors
	for i, p := range points {
		if !keep(p) {
			continue
		}
		if x := math.Abs(relative(m.LeaveOut[i].X, p.X.Mean)); !m.Open && !math.IsNaN(x) {
			e.X = append(e.X, x)
		}
		if r := math.Abs(relative(m.LeaveOut[i].R, p.R.Mean)); !math.IsNaN(r) {
			e.R = append(e.R, r)
		}
	}
	return e
}

// mean returns the mean, NaN of nothing.
func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Texts of numbers; what is not known is a dash.
func ops(v float64) string   { return text("%.0f", v) }
func ms(v float64) string    { return text("%.3f", 1e3*v) }
func share(v float64) string { return text("%.2f", v) }
func percent(v float64) string {
	return text("%+.1f %%", 100*v)
}

func text(format string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// Tables returns the report: predictions beside measurements for each configuration, parameters, and the comparison of the models.
func (r *Report) Tables() []table.Table {
	var tables []table.Table
	for _, name := range r.Data.Configurations() {
		tables = append(tables, r.predictions(name), r.parameters(name))
	}
	return append(tables, r.comparison())
}

func (r *Report) predictions(configuration string) table.Table {
	t := table.Table{
		Caption: fmt.Sprintf("%s: measured and predicted. X in ops/s, R and the wait in the queue in ms; errors relative to measured.", configuration),
		Columns: []string{"clients", "model", "X", "error", "R", "error", "wait", "error", "utilization", "bottleneck"},
		Left:    []int{1, 8, 9},
	}
	for i, p := range r.Data.Points {
		if p.Configuration() != configuration {
			continue
		}
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(p.Clients), "measured", ops(p.X.Mean), "", ms(p.R.Mean), "", ms(p.Wait), "", fmt.Sprintf("workers %.2f", p.Busy/float64(p.AllWorkers())),
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
			t.Rows = append(t.Rows, []string{
				"", m.Name, x, xError, ms(q.R), percent(relative(q.R, p.R.Mean)), ms(q.Wait), wait, utilizations(q.Utilizations), q.Bottleneck,
			})
		}
	}
	return t
}

// utilizations writes them in a line; stations of the same name and number once.
func utilizations(stations []Station) string {
	line := ""
	for i, s := range stations {
		if i > 0 {
			line += ", "
		}
		line += s.Name + " " + share(s.Utilization)
	}
	return line
}

// parameters has those of the models at the point of the configuration with the most clients.
func (r *Report) parameters(configuration string) table.Table {
	last := -1
	for i, p := range r.Data.Points {
		if p.Configuration() == configuration {
			last = i
		}
	}
	t := table.Table{
		Caption: fmt.Sprintf("%s: parameters with %d clients, and where each is from.", configuration, r.Data.Points[last].Clients),
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

// comparison has the errors of the models with each point left out in turn.
func (r *Report) comparison() table.Table {
	t := table.Table{
		Caption: "How well each point is predicted from the others: mean and largest absolute relative error.",
		Columns: []string{"model", "points", "predicted", "X mean", "X largest", "R mean", "R largest"}, Left: []int{1},
		Notes: []string{
			"The open models are given the throughput of the point. The multiclass model takes its times from the nearest number of clients: in the tables above from the point itself, as its report does, here from another.",
		},
	}
	t.Notes = append(t.Notes, r.Data.Notes...)
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
			e := m.Errors(r.Data.Points, group.keep)
			t.Rows = append(t.Rows, []string{
				m.Name, group.name, fmt.Sprintf("%d of %d", len(e.R), count), percent0(mean(e.X)), percent0(largest(e.X)), percent0(mean(e.R)), percent0(largest(e.R)),
			})
		}
	}
	return t
}

func percent0(v float64) string { return text("%.1f %%", 100*v) }

// largest returns the largest value, NaN of nothing.
func largest(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Max(values)
}

// Write writes the tables.
func (r *Report) Write(w io.Writer, f table.Format) error {
	for _, t := range r.Tables() {
		if err := t.Write(w, f); err != nil {
			return err
		}
	}
	return nil
}

// Figures returns plots of measurements and predictions over the clients, by name: throughput and response-time. Without names
// of models they show all models.
func (r *Report) Figures(models ...string) map[string]plot.Figure {
	if len(models) > 0 {
		chosen := *r
		chosen.Models = slices.DeleteFunc(slices.Clone(r.Models), func(m ModelReport) bool { return !slices.Contains(models, m.Name) })
		r = &chosen
	}
	return map[string]plot.Figure{
		"throughput": r.figure("Throughput, measured and predicted", plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true}, true,
			func(p Point) Measured { return p.X }, func(p Prediction) float64 { return p.X }),
		"response-time": r.figure("Mean response time, measured and predicted", plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true}, false,
			func(p Point) Measured { return p.R }, func(p Prediction) float64 { return p.R }),
	}
}

func (r *Report) figure(title string, y plot.Axis, closed bool, measured func(Point) Measured, predicted func(Prediction) float64) plot.Figure {
	f := plot.Figure{Title: title}
	for _, name := range r.Data.Configurations() {
		c := plot.Chart{Title: name, X: plot.Axis{Label: "clients", Unit: plot.None, FromZero: true}, Y: y}
		line := plot.Line{Name: "measured"}
		lines := make([]plot.Line, len(r.Models))
		for j, m := range r.Models {
			lines[j] = plot.Line{Name: m.Name, Look: plot.Modelled, Series: 1 + slices.IndexFunc(Models, func(o Model) bool { return o.Name == m.Name })}
		}
		for i, p := range r.Data.Points {
			if p.Configuration() != name {
				continue
			}
			m := measured(p)
			at := plot.At(float64(p.Clients), m.Mean)
			if m.Interval.Known() {
				at = plot.Between(at.X, m.Mean, max(0, m.Interval.Low), m.Interval.High)
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
