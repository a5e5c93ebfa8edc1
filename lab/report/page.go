package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"mcmw/lab/check"
	"mcmw/lab/plot"
	"mcmw/lab/table"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"anchor": Anchor,
	// unfolded, before the figures; others are folded, after them
	"findings": func(name string) bool { return name == FindingsTable },
	// no line begins with a percent sign
	"joined": func(text string) string { return strings.ReplaceAll(text, " %", "\u00a0%") },
}).Parse(pageText))

// Report has the figures and tables of a record.
type Report struct {
	Title, Subtitle string
	Figures         []table.Figure
	Tables          []table.Table
	Findings        []string // sentences that say where every line saturates, and what limits it
	Answer          string   // the sentence that answers the question of the experiment
	Rule            string   // explains how that was decided
	Warnings        string   // as in Figure, over all runs
}

// Report makes all figures and tables of a view.
func (d *Data) Report(v View) (*Report, error) {
	figures, err := d.Figures(v, nil)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Title:    cmp.Or(d.Manifest.Title, d.Manifest.Name),
		Subtitle: fmt.Sprintf("%d points, %d runs", len(d.Points), len(d.Runs())),
		Figures:  figures, Tables: d.Tables(v, nil), Warnings: join(d.foreign(), d.Caution(d.Points)), Rule: Rule(),
	}
	if len(d.Failed) > 0 {
		r.Subtitle += fmt.Sprintf(", %d more failed", len(d.Failed))
		r.Warnings = join(r.Warnings, fmt.Sprintf("%d runs failed and are not used", len(d.Failed)))
	}
	if !d.Manifest.Created.IsZero() {
		r.Subtitle += "; record of " + d.Manifest.Created.UTC().Format("2006-01-02")
	}
	a := d.artist(v)
	best := 0.0 // the throughput of the best line so far
	add := func(finding string, throughput float64) {
		if r.Findings = append(r.Findings, finding); throughput > best || r.Answer == "" {
			best, r.Answer = throughput, finding
		}
	}
	a.each(func(panel Panel, l Line) {
		throughput := 0.0
		if l.Highest >= 0 {
			throughput = v.throughput(l.Points[l.Highest]).Mean
		}
		add(a.finding(panel, l), throughput)
	})
	lines := len(r.Findings)
	if c := a.capacity(); c != nil { // the question of an experiment with a quality of service
		best, lines, r.Answer = 0, len(c.Lines), ""
		for _, l := range c.Lines {
			top, _ := l.Top()
			add(fmt.Sprintf("Highest load with %s: %s.", c.Rule, c.Words(l)), top.Throughput.Mean)
		}
	}
	if lines > 1 {
		r.Answer = fmt.Sprintf("Highest of %d: %s", lines, r.Answer)
	}
	return r, nil
}

// foreign warns of programs outside the experiment that used the processors during the runs; "" if they used little, or
// it was not measured.
func (d *Data) foreign() string {
	most, in, of := check.Foreign{}, 0, 0
	for _, run := range d.Runs() {
		means, _ := d.sampled(run.ID) // none if they can't be read
		f, ok := check.ForeignLoad(run, means, d.Manifest)
		if !ok {
			continue
		}
		of++
		if !f.TooMuch() {
			continue
		}
		in++
		if f.Share() > most.Share() || most.Seconds == 0 {
			most = f
		}
	}
	if in == 0 {
		return ""
	}
	return fmt.Sprintf("programs outside the experiment, or other virtual machines on the same hardware, used up to "+
		"%[3]s of the used processor time in %[1]d of %[2]d runs", in, of, plot.Ratio.Format(most.Share()))
}

// finding returns the sentence about the saturation of a line.
func (a *artist) finding(panel Panel, l Line) string {
	text := l.Words(a.v)
	if l.Bottleneck.Words != "" {
		text += "; " + l.Bottleneck.Words
	}
	if name := join(panel.Name, l.Name); name != "" {
		text = name + ": " + text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Rule explains how points of saturation and bottlenecks are found.
func Rule() string {
	return fmt.Sprintf("The point of saturation is the least load whose throughput is within %.0f %% of the highest "+
		"throughput of its line. If this is the highest load, and the throughput grew by more "+
		"than %.0f %% up to it, the system is not saturated. A component limits a line if it is in use for at least "+
		"%.0f %% of the time at the highest throughput of the line. Of several components the first of these "+
		"is named, because it makes the later ones wait: load generator, bandwidth of the path, upload and download "+
		"of machines with limits, processor of a host, of the middleware, of a server, workers.", 100*Near, 100*Near,
		100*Busy)
}

// keyFigures are the figures that the page shows first, if the record has them. It shows as many figures unfolded.
var keyFigures = []string{"throughput", "response-time", "stages", "utilization", "percentiles", "cost"}

// ordered returns the figures, the key figures first.
func (r *Report) ordered() []table.Figure {
	rank := func(f table.Figure) int {
		if i := slices.Index(keyFigures, f.Name); i >= 0 {
			return i
		}
		return len(keyFigures)
	}
	return slices.SortedStableFunc(slices.Values(r.Figures), func(f, g table.Figure) int { return rank(f) - rank(g) })
}

// Key returns the figures that the page shows unfolded: the key figures, and others in place of missing ones.
func (r *Report) Key() []table.Figure { return r.ordered()[:min(len(keyFigures), len(r.Figures))] }

// Others returns the figures that the page shows folded.
func (r *Report) Others() []table.Figure { return r.ordered()[len(r.Key()):] }

// FindingsTable is the name of the table with the findings of a published report.
const FindingsTable = "findings"

// Anchor returns the id of a table in the page. The prefix distinguishes it from a figure with the same name.
func Anchor(name string) string {
	if name == "warnings" {
		return name
	}
	return "table-" + name
}

// WriteHTML writes the report as one self-contained page.
func (r *Report) WriteHTML(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		*Report
		Style template.CSS
	}{r, template.CSS(plot.Style())})
}

// Write writes the report in a format: HTML and Markdown with everything, the other formats only with the tables.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case table.HTML:
		return r.WriteHTML(w)
	case table.Markdown:
		return r.writeMarkdown(w)
	default:
		return table.Of(nil, r.Tables...).Write(w, format)
	}
}

// writeMarkdown writes the findings, links to the figures in the same directory, and the tables.
func (r *Report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n", r.Title, r.Subtitle)
	if r.Warnings != "" {
		fmt.Fprintf(&b, "**Warning:** %s.\n\n", r.Warnings)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	fmt.Fprintf(&b, "\n%s\n\n", r.Rule)
	p := table.Of(nil, r.Tables...)
	for i, f := range r.Figures {
		p.Blocks = slices.Insert(p.Blocks, i, table.Block(f))
	}
	if err := p.Write(&b, table.Markdown); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}
