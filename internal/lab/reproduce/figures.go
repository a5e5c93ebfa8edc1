package reproduce

import (
	"slices"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/report"
)

// figures draws those of every record, and the report's own numbers beside ours where it prints a whole curve.
func (s *Source) figures() ([]report.Figure, error) {
	var all []report.Figure
	for _, d := range s.data {
		if len(d.Points) < 2 {
			continue
		}
		v, err := d.Choose(report.View{})
		if err != nil {
			return nil, err
		}
		names := []string{"throughput", "response-time"}
		if slices.Contains(d.Varied(), "keys_per_get") {
			names = []string{"throughput", "percentiles"}
		}
		figures, err := d.Figures(v, names)
		if err != nil {
			return nil, err
		}
		for _, f := range figures {
			f.Name = d.Manifest.Name + "-" + f.Name
			f.Title = d.Manifest.Title + ": " + lower(f.Title)
			all = append(all, f)
		}
	}
	if f, ok := s.arrivals(); ok {
		all = append(all, f)
	}
	return all, nil
}

// lower begins a title in the middle of a line.
func lower(title string) string {
	if title == "" || title[0] < 'A' || title[0] > 'Z' {
		return title
	}
	return string(title[0]-'A'+'a') + title[1:]
}

// arrivals draws table 5 of the 2018 report: the report's arrival rates and ours, a panel for each number of workers.
func (s *Source) arrivals() (report.Figure, bool) {
	f := report.Figure{
		Name: "table-5-arrivals", Command: s.Command,
		Caption: "Throughput of writes at the middlewares, by workers of each of the two. Dashed: as the report's table 5 has it.",
	}
	f.Title = "Writes on the full system, the report's and ours"
	any := false
	for i, workers := range fullWorkers {
		printed := plot.Line{Name: "report", Look: plot.Computed, Series: 1}
		ours := plot.Line{Name: "here"}
		for j, clients := range intensityClients {
			p, ok := s.at("kuechler-07-writes", where{"workers": workers, "clients": clients})
			if v := s.Report.Number("5", 2*i, j); v == v {
				printed.Points = append(printed.Points, plot.At(clientsNumber[j], v))
			}
			if e := p.Estimate(record.SourceMiddleware, "throughput"); ok && e.OK() {
				at := plot.At(clientsNumber[j], e.Mean)
				if e.Interval.Known() {
					at = plot.Between(at.X, e.Mean, e.Interval.Low, e.Interval.High)
				}
				ours.Points = append(ours.Points, at)
				any = true
			}
		}
		f.Panels = append(f.Panels, plot.Chart{
			Title: workers + " workers", X: plot.Axis{Label: "clients", FromZero: true}, Y: plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true},
			Marks: []plot.Mark{printed, ours},
		})
	}
	return f, any && s.Report.Name == "kuechler"
}

// clientsNumber are the numbers of intensityClients.
var clientsNumber = []float64{6, 12, 24, 48, 72, 96, 144}
