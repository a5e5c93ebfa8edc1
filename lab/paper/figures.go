package paper

import (
	"slices"
	"strings"

	"mcmw/lab/claim"
	"mcmw/lab/plot"
	"mcmw/lab/report"
	"mcmw/lab/table"
)

// figures draws the figures of every record, and the curves that the report prints beside the measured ones.
func (s *Source) figures() ([]table.Figure, error) {
	var all []table.Figure
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
			f.Title = d.Manifest.Title + ": " + strings.ToLower(f.Title[:1]) + f.Title[1:]
			all = append(all, f)
		}
	}
	for _, t := range s.Report.Tables {
		if f, ok := s.figure(t); ok {
			all = append(all, f)
		}
	}
	return all, nil
}

// delays draws, for every finding that was decided with several delays, the variation over the delay. It returns one
// figure or none.
func (s *Source) delays(findings []claim.Finding) []table.Figure {
	f := table.Figure{
		Name: "delay", Command: s.Command,
		Caption: "Share of the variation that each factor and all interactions together explain, over the travel " +
			"time of a packet in one direction. Dotted: the thresholds of the finding, and the delay of the " +
			"experiments.",
		Figure: plot.Figure{Title: "Findings that depend on the delay"},
	}
	for _, finding := range findings {
		c := plot.Chart{
			Title: "section " + finding.Section + ": " + string(finding.Verdict),
			X:     plot.Axis{Label: "delay", Unit: plot.Seconds},
			Y:     plot.Axis{Label: "variation explained", Unit: plot.Ratio, FromZero: true, Min: 0, Max: 1},
		}
		points := map[string][]plot.Point{}
		for _, at := range finding.Over {
			for name, share := range at.Shares {
				points[name] = append(points[name], plot.At(at.Delay, share))
			}
			c.X.At = append(c.X.At, at.Delay)
		}
		thresholds, names := finding.Variation()
		if len(finding.Over) < 2 || len(points) == 0 {
			continue
		}
		for i, name := range names {
			c.Marks = append(c.Marks, plot.Line{Name: name, Points: points[name], Series: i})
		}
		for _, y := range thresholds {
			c.Marks = append(c.Marks, plot.Limit{Y: y})
		}
		c.Marks = append(c.Marks, plot.Limit{X: finding.Travel, Vertical: true})
		f.Panels = append(f.Panels, c)
	}
	if len(f.Panels) == 0 {
		return nil
	}
	return []table.Figure{f}
}
