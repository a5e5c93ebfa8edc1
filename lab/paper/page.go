package paper

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// Source has the records of the experiments of one report.
type Source struct {
	Report  *Report
	Command string // command line that makes the page again

	data []*report.Data // in the order of the experiments' names
}

// Of returns the source of a report with one record of each of its experiments: the one with the report's delay, or
// else the one with the least delay.
func Of(r *Report, e *Evidence) *Source {
	s := &Source{Report: r}
	for _, name := range slices.Sorted(maps.Keys(e.sets)) {
		if ReportOf(name) == r.Name {
			s.data = append(s.data, e.pick(name, r.travel))
		}
	}
	return s
}

// ReportOf returns the name of the report that an experiment belongs to; "" if there is none.
func ReportOf(experiment string) string {
	name, _, ok := strings.Cut(experiment, "-")
	if !ok || !slices.Contains(Names, name) {
		return ""
	}
	return name
}

// Page returns the page: verdicts first, then figures and tables.
func (s *Source) Page(findings []Finding) (*report.Report, error) {
	counts := map[Verdict]int{}
	for _, f := range findings {
		counts[f.Verdict]++
	}
	var parts []string
	for _, v := range Verdicts {
		if n := counts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", v, n))
		}
	}
	figures, err := s.figures()
	if err != nil {
		return nil, err
	}
	runs := 0
	for _, d := range s.data {
		runs += len(s.runs(d.Manifest.Name))
	}
	return &report.Report{
		Title:    s.Report.Author + ": " + s.Report.Title + ", compared with the same experiments here",
		Subtitle: fmt.Sprintf("%s; %d records, %d valid runs", s.Report.Where, len(s.data), runs),
		Rule: "A finding is confirmed or refuted if the confidence intervals leave no doubt; otherwise it is " +
			"undecided. By construction: the finding follows from the configuration of the testbed. Other cause: " +
			"it holds, but the limit here is not the limit in the report. Depends on the delay: it holds only for " +
			"some possible travel times of packets. Not comparable: the records can't decide it, because a record " +
			"is missing, its runs violate checks, its machines or their delay are not the report's, the load " +
			"generator is the limit, or the processors of the machine that emulates all others were used up. " +
			"docs/results/paper.md describes the rules.",
		Findings: []string{fmt.Sprintf("Of %d findings of the report: %s.", len(findings), strings.Join(parts, ", "))},
		Figures:  append(s.delays(findings), figures...),
		Tables:   slices.Concat([]table.Table{s.verdicts(findings)}, s.tables(), []table.Table{s.records()}),
	}, nil
}

// verdicts returns the table of the findings.
func (s *Source) verdicts(findings []Finding) table.Table {
	t := table.Table{Label: report.FindingsTable, Caption: "Findings of the report", Command: s.Command}
	t.AddLeft("section", "finding", "verdict", "why")
	for _, f := range findings {
		t.Rows = append(t.Rows, []string{f.Section, f.Text, string(f.Verdict), f.Why})
	}
	return t
}

// records returns the table of the records.
func (s *Source) records() table.Table {
	t := table.Table{Label: "records", Caption: "Records", Command: s.Command}
	t.AddLeft("experiment", "testbed")
	t.Add("runs", "seconds each")
	t.AddLeft("made", "shortfalls and violated checks")
	for _, d := range s.data {
		m := d.Manifest
		seconds, runs := 0.0, s.runs(m.Name)
		for _, run := range runs {
			seconds = max(seconds, run.Seconds)
		}
		notes := slices.Clone(m.Shortfalls)
		if caution := d.Caution(d.Points); caution != "" {
			notes = append(notes, caution)
		}
		if n := len(d.Failed); n > 0 {
			notes = append(notes, fmt.Sprintf("%d runs failed", n))
		}
		t.Rows = append(t.Rows, []string{
			m.Name, m.Testbed, fmt.Sprint(len(runs)), fmt.Sprintf("%.0f", seconds),
			m.Created.UTC().Format("2006-01-02"), strings.Join(notes, "; "),
		})
	}
	return t
}

// points returns the points of an experiment that have these levels, with their valid runs.
func (s *Source) points(experiment string, levels map[string]string) (points []frame.Point) {
	for _, d := range s.data {
		for _, p := range d.Points {
			if d.Manifest.Name == experiment && p.Has(levels) {
				p.Runs = valid(p.Runs)
				points = append(points, p)
			}
		}
	}
	return points
}

// runs returns the runs of an experiment.
func (s *Source) runs(experiment string) (runs []record.Run) {
	for _, p := range s.points(experiment, nil) {
		runs = append(runs, p.Runs...)
	}
	return runs
}

// none is the cell of an unknown number.
const none = "–"

// shown returns a number with decimals.
func shown(v float64, decimals int) string {
	if math.IsNaN(v) {
		return none
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// measured returns an estimate, multiplied by a factor, with half the width of its interval.
func measured(e sample.Estimate, times float64, decimals int) string {
	if !e.OK() {
		return none
	}
	text := shown(e.Mean*times, decimals)
	if e.Known() {
		text += "\u00a0±\u00a0" + shown(e.HalfWidth()*times, decimals)
	}
	return text
}

// filled reports whether a row has a measurement: columns 2, 4, ...
func filled(row []string) bool {
	for i := 2; i < len(row); i += 2 {
		if row[i] != none {
			return true
		}
	}
	return false
}

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
func (s *Source) delays(findings []Finding) []table.Figure {
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
		c.Marks = append(c.Marks, plot.Limit{X: s.Report.travel, Vertical: true})
		f.Panels = append(f.Panels, c)
	}
	if len(f.Panels) == 0 {
		return nil
	}
	return []table.Figure{f}
}
