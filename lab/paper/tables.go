package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcmw/lab/condition"
	"mcmw/lab/effects"
	"mcmw/lab/factorial"
	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// tables returns the tables of the report, without rows that have no measurement.
func (s *Source) tables() (all []table.Table) {
	for _, spec := range s.Report.Tables {
		t := table.Table{Label: spec.Name, Caption: spec.Title, Command: s.Command, Notes: spec.Notes}
		t.AddLeft(spec.Rows)
		var columns, names []string
		for _, c := range spec.Cells {
			if !slices.Contains(columns, c.Column) {
				columns = append(columns, c.Column)
				t.Add(c.Column+": report", c.Column+": here")
			}
		}
		for _, c := range spec.Cells {
			at := slices.Index(names, c.Row)
			if at < 0 {
				at = len(names)
				names = append(names, c.Row)
				t.Rows = append(t.Rows, append([]string{c.Row}, slices.Repeat([]string{none}, 2*len(columns))...))
			}
			column := 1 + 2*slices.Index(columns, c.Column)
			if c.Printed != "" {
				t.Rows[at][column] = c.Printed
			}
			t.Rows[at][column+1] = s.here(spec, c)
		}
		if t.Rows = slices.DeleteFunc(t.Rows, func(row []string) bool { return !filled(row) }); len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// here returns the measured number of a cell.
func (s *Source) here(t Table, c Cell) string {
	text := s.shown(c, c.Here.Runs[0])
	if text != none || !t.OrHighest {
		return text
	}
	any := condition.Runs{Record: c.Here.Runs[0].Record, Where: map[string]string{}, Highest: true}
	for factor, level := range c.Here.Runs[0].Where {
		if factor != "clients" {
			any.Where[factor] = level
		}
	}
	if text = s.shown(c, any); text == none {
		return none
	}
	return "(" + text + ")"
}

// shown returns the text of what a cell's term is at some runs.
func (s *Source) shown(c Cell, runs condition.Runs) string {
	term := c.Here
	switch term.Function {
	case "effect", "share":
		return s.variation(c)
	case "":
		return measured(s.point(runs).Estimate(term.Metric.Source, term.Metric.Name), c.Times, c.Decimals)
	case "derived":
		return measured(s.derived(runs, term.Metric), c.Times, c.Decimals)
	}
	p := s.point(runs)
	mean := func(metric string) float64 {
		if e := p.Estimate(term.Metric.Source, metric); e.OK() {
			return e.Mean
		}
		return math.NaN()
	}
	n, ok := p.Number("clients")
	if !ok {
		n = math.NaN()
	}
	v := math.NaN()
	switch term.Function {
	case "miss_rate":
		v = mean("misses") / (mean("hits") + mean("misses"))
	case "predicted":
		v = n / mean("throughput")
	case "predicted_error":
		r := mean("response_time_mean")
		v = (r - n/mean("throughput")) / r
	case "law_difference":
		if e := p.Derive(func(run record.Run) (float64, bool) {
			predicted, measured, ok := frame.ByLaw(run, term.Metric.Source)
			return measured - predicted, ok
		}); e.OK() {
			v = e.Mean
		}
	case "ratio":
		v = mean(term.Metric.Name) / s.point(term.Runs[1]).Estimate(term.Metric.Source, term.Metric.Name).Mean
	}
	return shown(c.Times*v, c.Decimals)
}

// point returns the first point of some runs, or the one with the highest throughput of the clients. Without one it
// returns a point that has no estimates.
func (s *Source) point(runs condition.Runs) frame.Point {
	points := s.points(runs.Record, runs.Where)
	throughput := func(p frame.Point) float64 { return p.Estimate(record.SourceClient, "throughput").Mean }
	if runs.Highest {
		slices.SortStableFunc(points, func(a, b frame.Point) int { return cmp.Compare(throughput(b), throughput(a)) })
	}
	return append(points, frame.Point{})[0]
}

// derived returns the throughput of the clients by the interactive law: N/(R + Z), where R is the source's response
// time and Z the round-trip time of the path.
func (s *Source) derived(runs condition.Runs, metric frame.Metric) sample.Estimate {
	p := s.point(runs)
	n, known := p.Number("clients")
	for _, d := range s.data {
		if z, ok := record.Find(d.Manifest.Path, record.SourcePath, "round_trip_time_mean"); ok && known &&
			d.Manifest.Name == runs.Record {
			return p.Derive(func(run record.Run) (float64, bool) {
				r, ok := run.Value(metric.Source, metric.Name)
				return frame.Loop{N: n, Z: z}.Throughput(r), ok && r+z > 0
			})
		}
	}
	return sample.Estimate{}
}

// variation returns the effect of a term of the 2^3 design of S, M and W, in brackets if it is not significant, or its
// share of the variation.
func (s *Source) variation(c Cell) string {
	a, name := s.analyse(c.Here.Runs[0].Record, c.Here.Metric), c.Here.Words[0]
	if a == nil {
		return none
	}
	term, ok := a.Term(name)
	switch {
	case c.Here.Function == "share" && name == "Error":
		return shown(c.Times*a.VariationError, c.Decimals)
	case !ok:
		return none
	case c.Here.Function == "share":
		return shown(c.Times*term.Variation, c.Decimals)
	case !term.Significant:
		return "(" + shown(c.Times*term.Q, c.Decimals) + ")"
	}
	return shown(c.Times*term.Q, c.Decimals)
}

// analyse returns the analysis of a 2^3 design of S, M and W; nil if the record does not have the measurements.
func (s *Source) analyse(experiment string, metric frame.Metric) *factorial.Analysis {
	runs := s.runs(experiment)
	least := len(runs)
	for _, p := range frame.Of(runs, report.DefaultConfidence).Points {
		least = min(least, len(p.Runs))
	}
	if least == 0 {
		return nil
	}
	e, err := effects.FromRuns(runs, effects.Question{
		Factors: []string{"S", "M", "W"}, Response: metric.Name,
		Source: metric.Source, Repetitions: least,
	})
	if err != nil {
		return nil
	}
	a, err := factorial.Analyze(e.Design, factorial.Options{Confidence: 0.9})
	if err != nil {
		return nil
	}
	return a
}

// figure draws the Figure of a table; false without measurements.
func (s *Source) figure(t Table) (f table.Figure, any bool) {
	if t.Figure == nil {
		return f, false
	}
	f = table.Figure{
		Name: t.Name + "-arrivals", Command: s.Command, Caption: t.Figure.Caption,
		Figure: plot.Figure{Title: t.Figure.Title},
	}
	var panels []string
	lines := map[string]*[2]plot.Line{}
	for _, c := range t.Cells {
		workers, clients, _ := strings.Cut(c.Row, ", ")
		x, err := strconv.ParseFloat(clients, 64)
		if c.Column != t.Figure.Column || err != nil {
			continue
		}
		if lines[workers] == nil {
			panels = append(panels, workers)
			lines[workers] = &[2]plot.Line{{Name: "report", Look: plot.Computed, Series: 1}, {Name: "here"}}
		}
		printed, here := &lines[workers][0], &lines[workers][1]
		if v, err := strconv.ParseFloat(c.Printed, 64); err == nil {
			printed.Points = append(printed.Points, plot.At(x, v))
		}
		e := s.point(c.Here.Runs[0]).Estimate(c.Here.Metric.Source, c.Here.Metric.Name)
		switch {
		case e.Known() && e.OK():
			here.Points = append(here.Points, plot.Between(x, e.Mean, e.Low, e.High))
		case e.OK():
			here.Points = append(here.Points, plot.At(x, e.Mean))
		}
		any = any || e.OK()
	}
	for _, workers := range panels {
		f.Panels = append(f.Panels, plot.Chart{
			Title: fmt.Sprintf("%s workers", workers), X: plot.Axis{Label: "clients", FromZero: true},
			Y:     plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true},
			Marks: []plot.Mark{lines[workers][0], lines[workers][1]},
		})
	}
	return f, any
}
