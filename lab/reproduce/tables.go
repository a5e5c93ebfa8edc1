package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"mcmw/lab/effects"
	"mcmw/lab/factorial"
	"mcmw/lab/frame"
	"mcmw/lab/paper"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/sample"
)

// tables returns the tables of the report for which there are measurements.
func (s *Source) tables() (all []report.Table, err error) {
	for _, spec := range s.Report.Beside {
		t := report.Table{Name: spec.Name, Title: spec.Title, Command: s.Command, Notes: spec.Notes}
		switch spec.Kind {
		case "":
			t.Columns = beside(spec.Columns[0], spec.Columns[1:]...)
			t.Rows, err = s.cells(spec)
		case "variation":
			s.variation(&t, spec)
		case "rates":
			s.rates(&t, spec)
		case "law":
			s.laws(&t, spec)
		default:
			err = fmt.Errorf("kind %q: expected variation, rates, law, or none for cells", spec.Kind)
		}
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", spec.Name, err)
		}
		if slices.ContainsFunc(t.Rows, filled) {
			all = append(all, t)
		}
	}
	return all, nil
}

// cells returns the rows of a table of cells.
func (s *Source) cells(spec paper.Beside) (rows [][]string, err error) {
	for n, values := range spec.For {
		pairs := []string{"{n}", strconv.Itoa(n)}
		for name, value := range values {
			pairs = append(pairs, "{"+name+"}", value)
		}
		in := strings.NewReplacer(pairs...).Replace
		levels := func(sets ...paper.Levels) paper.Levels {
			all := paper.Levels{}
			for _, set := range sets {
				for name, level := range set {
					all[name] = in(level)
				}
			}
			return all
		}
		row := []string{in(spec.Label)}
		for _, c := range spec.Cells {
			printed, err := s.printed(in(c.Printed), in(c.Text))
			if err != nil {
				return nil, err
			}
			times, decimals := 1.0, 0
			if c.Times != "" {
				times, err = strconv.ParseFloat(in(c.Times), 64)
			}
			if c.Decimals != "" && err == nil {
				decimals, err = strconv.Atoi(in(c.Decimals))
			}
			if err != nil {
				return nil, err
			}
			of, _ := frame.ParseMetric(in(c.Of), "")
			here := s.here(in(spec.Record), levels(spec.At, c.At), of.Source, of.Name, times, decimals)
			if here == none && c.OrHighest != nil {
				if e := s.highest(in(spec.Record), levels(c.OrHighest), of.Source, of.Name); e.OK() {
					here = "(" + measured(e, times, decimals) + ")"
				}
			}
			row = append(row, printed, here)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// printed returns a printed number: of a table, or of the text.
func (s *Source) printed(cell, text string) (string, error) {
	if text != "" {
		return shown(s.Report.Text(text), 0), nil
	}
	parts := strings.Split(cell, "/")
	if len(parts) != 4 {
		return "", fmt.Errorf("printed %q: expected TABLE/ROW/COLUMN/DECIMALS", cell)
	}
	var n [3]int
	for i, part := range parts[1:] {
		var err error
		if n[i], err = strconv.Atoi(part); err != nil {
			return "", fmt.Errorf("printed %q: %w", cell, err)
		}
	}
	return shown(s.Report.Number(parts[0], n[0], n[1]), n[2]), nil
}

// here returns the measured number of a cell: the estimate of a metric, or a number derived from estimates.
func (s *Source) here(experiment string, levels paper.Levels, source, metric string, times float64, decimals int) string {
	p := s.at(experiment, levels)
	mean := func(metric string) float64 {
		if e := p.Estimate(source, metric); e.OK() {
			return e.Mean
		}
		return math.NaN()
	}
	n, ok := p.Number("clients")
	if !ok {
		n = math.NaN()
	}
	switch metric {
	case "miss_rate":
		return shown(times*mean("misses")/(mean("hits")+mean("misses")), decimals)
	case "interactive":
		return measured(s.interactive(experiment, p, n), times, decimals)
	case "predicted": // R by the interactive law: N/X
		return shown(times*n/mean("throughput"), decimals)
	case "predicted_error": // relative error of that
		r := mean("response_time_mean")
		return shown(times*(r-n/mean("throughput"))/r, decimals)
	}
	return measured(p.Estimate(source, metric), times, decimals)
}

// highest returns the highest mean of a metric at the points with these levels.
func (s *Source) highest(experiment string, levels paper.Levels, source, metric string) (best sample.Estimate) {
	for _, p := range s.points(experiment, levels) {
		if e := p.Estimate(source, metric); e.OK() && e.Mean > best.Mean {
			best = e
		}
	}
	return best
}

// interactive returns the throughput of n clients by the interactive law: N/(R + Z), where R is the middlewares' response time and Z the
// round-trip time of the path.
func (s *Source) interactive(experiment string, p frame.Point, n float64) sample.Estimate {
	var values []float64
	for _, d := range s.data {
		z, ok := record.Find(d.Manifest.Path, record.SourcePath, "round_trip_time_mean")
		if d.Manifest.Name != experiment || !ok || math.IsNaN(n) {
			continue
		}
		for _, run := range p.Runs {
			if r, ok := run.Value(record.SourceMiddleware, "response_time_mean"); ok && r+z > 0 {
				values = append(values, frame.Loop{N: n, Z: z}.Throughput(r))
			}
		}
	}
	return sample.Of(values).Estimate(Confidence)
}

// variation fills in the effects and the allocation of variation of a 2^3 design.
func (s *Source) variation(t *report.Table, spec paper.Beside) {
	t.Columns = beside("factor", "effect, ops/s", "variation of throughput, %", "effect, ms", "variation of response time, %")
	t.Notes = []string{"In brackets: effects that are not significant, because their 90 % confidence interval contains 0."}
	analyses := []struct {
		analysis *factorial.Analysis // nil without measurements
		times    float64
		decimals int
	}{{s.analyse(spec.Record, "throughput"), 1, 0}, {s.analyse(spec.Record, "response_time_mean"), milli, 1}}
	for i, term := range []string{"I", "S", "M", "W", "SM", "SW", "MW", "SMW", "Error"} {
		row := []string{term}
		for j, a := range analyses {
			q, share := effect(a.analysis, term, a.times, a.decimals)
			row = append(row, shown(s.Report.Number(spec.Printed, i, 4*j), a.decimals), q, shown(s.Report.Number(spec.Printed, i, 4*j+2), 1), share)
		}
		t.Rows = append(t.Rows, row)
	}
}

// effect returns the effect of a term and its share of the variation in percent.
func effect(a *factorial.Analysis, name string, times float64, decimals int) (q, share string) {
	if a == nil {
		return none, none
	}
	if name == "Error" {
		return none, shown(100*a.VariationError, 1)
	}
	term, ok := a.Term(name)
	if !ok {
		return none, none
	}
	q = shown(term.Q*times, decimals)
	if !term.Significant {
		q = "(" + q + ")"
	}
	return q, shown(100*term.Variation, 1)
}

// analyse returns the analysis of a 2^3 design of S, M and W; nil if the record does not have the measurements.
func (s *Source) analyse(experiment, metric string) *factorial.Analysis {
	runs := s.runs(experiment)
	least := len(runs)
	for _, p := range frame.Of(runs, Confidence).Points {
		least = min(least, len(p.Runs))
	}
	if least == 0 {
		return nil
	}
	e, err := effects.FromRuns(runs, effects.Question{Factors: []string{"S", "M", "W"}, Response: metric, Source: record.SourceClient, Repetitions: least})
	if err != nil {
		return nil
	}
	a, err := factorial.Analyze(e.Design, factorial.Options{Confidence: 0.9})
	if err != nil {
		return nil
	}
	return a
}

// rates fills in the arrival rates, lambda, and their ratios to the highest rate with the same number of workers, rho.
func (s *Source) rates(t *report.Table, spec paper.Beside) {
	t.Columns = []report.Column{{Name: "workers", Text: true}, {Name: "clients"}, {Name: "λ: here"}, {Name: "λ: report"}, {Name: "ρ: here"}, {Name: "ρ: report"}}
	for i, workers := range spec.Workers {
		most := s.highest(spec.Record, paper.Levels{"workers": workers}, record.SourceMiddleware, "throughput").Mean
		for j, clients := range spec.Clients {
			if e := s.rate(spec, workers, clients); e.OK() {
				t.Rows = append(t.Rows, []string{
					workers, clients, measured(e, 1, 0), shown(s.Report.Number(spec.Printed, 2*i, j), 0), shown(e.Mean/most, 2), shown(s.Report.Number(spec.Printed, 2*i+1, j), 2),
				})
			}
		}
	}
}

func (s *Source) rate(spec paper.Beside, workers, clients string) sample.Estimate {
	return s.at(spec.Record, paper.Levels{"workers": workers, "clients": clients}).Estimate(record.SourceMiddleware, "throughput")
}

// arrivals draws the Figure of a table of rates, with a panel for each number of workers; false without measurements.
func (s *Source) arrivals(spec paper.Beside) (f report.Figure, any bool) {
	if spec.Figure == nil {
		return f, false
	}
	f = report.Figure{Name: spec.Name + "-arrivals", Command: s.Command, Caption: spec.Figure.Caption, Figure: plot.Figure{Title: spec.Figure.Title}}
	for i, workers := range spec.Workers {
		printed := plot.Line{Name: "report", Look: plot.Computed, Series: 1}
		here := plot.Line{Name: "here"}
		for j, clients := range spec.Clients {
			x, _ := strconv.ParseFloat(clients, 64)
			if v := s.Report.Number(spec.Printed, 2*i, j); !math.IsNaN(v) {
				printed.Points = append(printed.Points, plot.At(x, v))
			}
			if e := s.rate(spec, workers, clients); e.OK() {
				at := plot.At(x, e.Mean)
				if e.Known() {
					at = plot.Between(x, e.Mean, e.Low, e.High)
				}
				here.Points = append(here.Points, at)
				any = true
			}
		}
		f.Panels = append(f.Panels, plot.Chart{
			Title: workers + " workers", X: plot.Axis{Label: "clients", FromZero: true}, Y: plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true},
			Marks: []plot.Mark{printed, here},
		})
	}
	return f, any
}

// laws fills in the errors of the interactive law for the clients' response time, in ms.
func (s *Source) laws(t *report.Table, spec paper.Beside) {
	t.Columns = []report.Column{{Name: "workers", Text: true}, {Name: "clients"}, {Name: "writes: here"}, {Name: "writes: report"}}
	t.Notes = []string{"R - N/X with the clients' response time R and the middlewares' throughput X, mean over the repetitions."}
	if spec.Reads != "" {
		t.Columns = append(t.Columns, report.Column{Name: "reads: here"}, report.Column{Name: "reads: report"})
	}
	for i, workers := range spec.Workers {
		for j, n := range spec.Clients {
			row := []string{workers, n, s.lawError(spec.Record, workers, n), shown(s.Report.Number(spec.Printed, i, j), 1)}
			if spec.Reads != "" {
				printed := math.NaN()
				if j < spec.ReadsClients {
					printed = s.Report.Number(spec.Printed, i, len(spec.Clients)+j)
				}
				row = append(row, s.lawError(spec.Reads, workers, n), shown(printed, 1))
			}
			if filled(row) {
				t.Rows = append(t.Rows, row)
			}
		}
	}
}

// lawError returns the mean error of the interactive law at a point, in ms.
func (s *Source) lawError(experiment, workers, clients string) string {
	var errors []float64
	for _, run := range s.at(experiment, paper.Levels{"workers": workers, "clients": clients}).Runs {
		if predicted, measured, ok := frame.ByLaw(run, record.SourceMiddleware); ok {
			errors = append(errors, measured-predicted)
		}
	}
	return shown(milli*stat.Mean(errors, nil), 2) // NaN without errors
}
