package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"mcmw/internal/lab/claim"
	"mcmw/internal/lab/paper"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/report"
)

// Confidence is the confidence level of all intervals.
const Confidence = 0.95

// Source has the records of one report's experiments.
type Source struct {
	Report *paper.Report
	// Command is the command line that makes the page again.
	Command string

	data []*report.Data // in the order of the experiments' names
	runs map[string][]record.Run
}

// Open reads the records of the report of a name; others are left out. They must stay open while the source is used.
func Open(ctx context.Context, name string, records []*record.Record) (*Source, error) {
	r, err := paper.Load(name)
	if err != nil {
		return nil, err
	}
	s := &Source{Report: r, runs: map[string][]record.Run{}}
	for _, from := range records {
		if ReportOf(from.Manifest().Name) != name {
			continue
		}
		d, err := report.Read(ctx, from, Confidence, nil)
		if err != nil {
			return nil, err
		}
		s.data = append(s.data, d)
		for _, p := range d.Points {
			s.runs[d.Manifest.Name] = append(s.runs[d.Manifest.Name], p.Runs...)
		}
	}
	slices.SortFunc(s.data, func(a, b *report.Data) int { return strings.Compare(a.Manifest.Name, b.Manifest.Name) })
	return s, nil
}

// ReportOf returns the name of the report that an experiment is of; "" if it is of none.
func ReportOf(experiment string) string {
	name, _, ok := strings.Cut(experiment, "-")
	if !ok || !slices.Contains(paper.Names, name) {
		return ""
	}
	return name
}

// Page returns what is found of the report: verdicts first, then figures and tables.
func (s *Source) Page(findings []claim.Finding) (*report.Report, error) {
	r := &report.Report{
		Title:    s.Report.Author + ": " + s.Report.Title + ", beside the same experiments here",
		Subtitle: s.Report.Where + "; " + s.about(),
		Rule: "A finding is confirmed or refuted if the confidence intervals of what decides it leave no doubt, and else undecided. By construction: it follows from how the testbed was configured. Other cause: " +
			"it holds, but what limits here is not what limited there. Depends on the delay: it holds only for some of the times that packets may have travelled. Not comparable: the records can't decide it: one is " +
			"missing, its runs violate checks, its machines or their delay are not the report's, the load limits itself, or the processors of the machine that emulates all others were used up. " +
			"docs/results/paper.md describes the rules.",
	}
	counts := map[claim.Verdict]int{}
	for _, f := range findings {
		counts[f.Verdict]++
	}
	var parts []string
	for _, v := range claim.Verdicts {
		if n := counts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", v, n))
		}
	}
	r.Findings = append(r.Findings, fmt.Sprintf("Of %d findings of the report: %s.", len(findings), strings.Join(parts, ", ")))
	var err error
	if r.Figures, err = s.figures(); err != nil {
		return nil, err
	}
	if f, ok := s.delays(findings); ok {
		r.Figures = append([]report.Figure{f}, r.Figures...)
	}
	tables, err := s.tables()
	if err != nil {
		return nil, err
	}
	r.Tables = append([]report.Table{s.verdicts(findings)}, tables...)
	r.Tables = append(r.Tables, s.records())
	return r, nil
}

func (s *Source) about() string {
	runs := 0
	for _, of := range s.runs {
		runs += len(of)
	}
	return fmt.Sprintf("%d records, %d complete runs", len(s.data), runs)
}

func (s *Source) verdicts(findings []claim.Finding) report.Table {
	t := report.Table{
		Name: report.FindingsTable, Title: "Findings of the report", Command: s.Command,
		Columns: []report.Column{{Name: "section", Text: true}, {Name: "finding", Text: true}, {Name: "here", Text: true}, {Name: "by the numbers", Text: true}},
	}
	for _, f := range findings {
		t.Rows = append(t.Rows, []string{f.Section, f.Text, string(f.Verdict), f.Why})
	}
	return t
}

func (s *Source) records() report.Table {
	t := report.Table{
		Name: "records", Title: "Records", Command: s.Command,
		Columns: []report.Column{{Name: "experiment", Text: true}, {Name: "testbed", Text: true}, {Name: "runs"}, {Name: "seconds each"}, {Name: "made", Text: true}, {Name: "less than asked for, and violated checks", Text: true}},
	}
	for _, d := range s.data {
		m := d.Manifest
		seconds := 0.0
		for _, run := range s.runs[m.Name] {
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
			m.Name, m.Testbed, fmt.Sprint(len(s.runs[m.Name])), fmt.Sprintf("%.0f", seconds), m.Created.UTC().Format("2006-01-02"), strings.Join(notes, "; "),
		})
	}
	return t
}

// where is levels of factors.
type where = paper.Levels

// each calls f with the points of a record that have these levels.
func (s *Source) each(experiment string, levels where, f func(report.Point)) {
	for _, d := range s.data {
		if d.Manifest.Name != experiment {
			continue
		}
		for _, p := range d.Points {
			fits := true
			for name, level := range levels {
				fits = fits && p.Levels[name] == level
			}
			if fits {
				f(p)
			}
		}
	}
}

// at returns the first point of a record with these levels; no estimate if the record or the point isn't there.
func (s *Source) at(experiment string, levels where) (at report.Point, ok bool) {
	s.each(experiment, levels, func(p report.Point) {
		if !ok {
			at, ok = p, true
		}
	})
	return at, ok
}

func (s *Source) estimate(experiment string, levels where, source, metric string) report.Estimate {
	p, ok := s.at(experiment, levels)
	if !ok {
		return report.Estimate{}
	}
	return p.Estimate(source, metric)
}

// none stands for what is not known.
const none = "–"

// shown is a number of the report with so many decimals.
func shown(v float64, decimals int) string {
	if math.IsNaN(v) {
		return none
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// measured is an estimate times a factor, with half the width of its interval.
func measured(e report.Estimate, times float64, decimals int) string {
	if !e.OK() {
		return none
	}
	text := shown(e.Mean*times, decimals)
	if e.Interval.Known() {
		text += "\u00a0±\u00a0" + shown(e.Interval.HalfWidth()*times, decimals)
	}
	return text
}

// beside returns columns for the report's columns, each with ours at its side.
func beside(first string, names ...string) []report.Column {
	columns := []report.Column{{Name: first, Text: true}}
	for _, name := range names {
		columns = append(columns, report.Column{Name: name + ": report"}, report.Column{Name: name + ": here"})
	}
	return columns
}

const milli = 1e3 // in a second

// some reports whether any cell of ours has a number: without one the table says nothing.
func some(t report.Table) bool {
	for _, row := range t.Rows {
		for i := 2; i < len(row); i += 2 {
			if row[i] != none {
				return true
			}
		}
	}
	return false
}
