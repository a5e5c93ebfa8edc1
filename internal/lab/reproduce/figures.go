package reproduce

import (
	"slices"

	"mcmw/internal/lab/claim"
	"mcmw/internal/lab/plot"
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
	for _, spec := range s.Report.Beside {
		if spec.Figure == nil {
			continue
		}
		if f, ok := s.arrivals(spec); ok {
			all = append(all, f)
		}
	}
	return all, nil
}

// delays draws what the findings about the variation come to with each delay that they were decided with, a panel for each.
func (s *Source) delays(findings []claim.Finding) (report.Figure, bool) {
	f := report.Figure{
		Name: "delay", Command: s.Command,
		Caption: "Parts of the variation that each factor explains, and all interactions together, over how long a packet travels one way. Dotted: what the finding asks for, and the delay of all suites.",
	}
	f.Title = "What hangs on the delay"
	for _, finding := range findings {
		c := plot.Chart{
			Title: "section " + finding.Section + ": " + string(finding.Verdict),
			X:     plot.Axis{Label: "delay", Unit: plot.Seconds}, Y: plot.Axis{Label: "variation explained", Unit: plot.Ratio, FromZero: true, Min: 0, Max: 1},
		}
		points := map[string][]plot.Point{}
		for _, at := range finding.Over {
			for name, share := range at.Shares {
				points[name] = append(points[name], plot.At(at.Delay, share))
			}
			c.X.At = append(c.X.At, at.Delay)
		}
		wanted, shown := variation(finding.Rule)
		if len(finding.Over) < 2 || len(points) == 0 {
			continue
		}
		for i, name := range shown {
			c.Marks = append(c.Marks, plot.Line{Name: name, Points: points[name], Series: i})
		}
		for _, y := range wanted {
			c.Marks = append(c.Marks, plot.Limit{Y: y})
		}
		c.Marks = append(c.Marks, plot.Limit{X: finding.Travel, Vertical: true})
		f.Panels = append(f.Panels, c)
	}
	return f, len(f.Panels) > 0
}

// variation returns the thresholds of a rule about the variation, and what of it is drawn.
func variation(r claim.Rule) (thresholds []float64, names []string) {
	switch {
	case r.Share != nil:
		for _, end := range []*float64{r.Share.Low, r.Share.High} {
			if end != nil {
				thresholds = append(thresholds, *end)
			}
		}
		names = r.Share.Factors
	case r.Order != nil:
		names = r.Order.Factors
	}
	return thresholds, append(slices.Clone(names), claim.Interactions)
}

// lower begins a title in the middle of a line.
func lower(title string) string {
	if title == "" || title[0] < 'A' || title[0] > 'Z' {
		return title
	}
	return string(title[0]-'A'+'a') + title[1:]
}
