package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"mcmw/internal/lab/check"
	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/table"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Report has all figures and tables of a record.
type Report struct {
	Title, Subtitle string
	Figures         []Figure
	Tables          []Table
	// Findings are sentences on where every line saturates and what limits it.
	Findings []string
	// Rule explains how that was decided.
	Rule string
	// Warnings are like a Figure's, over all runs.
	Warnings string
}

// Report draws all figures and makes all tables of a view.
func (d *Data) Report(v View) (*Report, error) {
	figures, err := d.Figures(v, nil)
	if err != nil {
		return nil, err
	}
	tables, err := d.Tables(v, nil)
	if err != nil {
		return nil, err
	}
	r := &Report{Title: d.Manifest.Title, Figures: figures, Tables: tables, Warnings: d.Caution(d.Points), Rule: Rule()}
	r.Title = cmp.Or(r.Title, d.Manifest.Name)
	total := len(runs(d.Points))
	r.Subtitle = fmt.Sprintf("%d points, %d runs", len(d.Points), total)
	r.Warnings = join(d.foreign(), r.Warnings)
	if len(d.Failed) > 0 {
		r.Subtitle += fmt.Sprintf(", %d more failed", len(d.Failed))
		r.Warnings = join(r.Warnings, fmt.Sprintf("%d runs failed and are not used", len(d.Failed)))
	}
	if !d.Manifest.Created.IsZero() {
		r.Subtitle += "; record of " + d.Manifest.Created.UTC().Format("2006-01-02")
	}
	a := &artist{d: d, v: v, analysis: d.Analyse(v)}
	a.each(func(panel Panel, l Line, s Saturation) {
		r.Findings = append(r.Findings, a.finding(panel, l, s))
	})
	if c := a.capacity(); c != nil {
		for _, l := range c.Lines {
			r.Findings = append(r.Findings, fmt.Sprintf("Highest load with %s: %s.", c.Rule, c.Words(l)))
		}
	}
	return r, nil
}

// foreign says what part of the processors was used by others than the experiment; "" if that was little, or was not measured.
func (d *Data) foreign() string {
	most, in, of := check.Foreign{}, 0, 0
	for _, run := range runs(d.Points) {
		samples, err := d.samples(run.ID)
		if err != nil {
			continue
		}
		run.HostSamples = samples
		f, ok := check.ForeignLoad(run, d.Manifest)
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
	return fmt.Sprintf("up to %s of the processor time in use was not the experiment's: something else ran on the machine in %d of %d runs", plot.Ratio.Format(most.Share()), in, of)
}

func (a *artist) finding(panel Panel, l Line, s Saturation) string {
	name := join(panel.Name, l.Name)
	if name != "" {
		name += ": "
	}
	text := name + s.Words(a.v)
	if s.Bottleneck.Words != "" {
		text += "; " + s.Bottleneck.Words
	}
	return capital(text) + "."
}

// Rule explains how points of saturation and bottlenecks are found.
func Rule() string {
	return fmt.Sprintf("The point of saturation is the least load whose throughput is within %.0f %% of the highest of its line; if that is the highest load and the throughput grew by more "+
		"than %.0f %% up to it, the system is not saturated. A component limits a line if, at its highest throughput, it is in use for at least %.0f %% of the time; of several the first counts of: load generator, "+
		"bandwidth of the path, upload and download of machines with limits, processor of the host, processor of a server, workers; what comes earlier makes what comes later wait.", 100*Near, 100*Near, 100*Busy)
}

// keyFigures are those that tell most in the least time, in their order; keyNumber is how many a page shows unfolded.
var keyFigures = []string{"throughput", "response-time", "stages", "utilization", "percentiles", "cost"}

const keyNumber = 6

// Key returns the figures that the page shows first: the key figures, and others in place of those that the record hasn't.
func (r *Report) Key() (key []Figure) {
	for _, name := range keyFigures {
		for _, f := range r.Figures {
			if f.Name == name {
				key = append(key, f)
			}
		}
	}
	for _, f := range r.Figures {
		if len(key) < keyNumber && !slices.Contains(keyFigures, f.Name) {
			key = append(key, f)
		}
	}
	return key
}

// Others returns the figures that the page shows folded.
func (r *Report) Others() []Figure {
	key := r.Key()
	return slices.DeleteFunc(slices.Clone(r.Figures), func(f Figure) bool {
		return slices.ContainsFunc(key, func(k Figure) bool { return k.Name == f.Name })
	})
}

// Unfolded returns the tables that the page shows before the figures: the findings of a published report.
func (r *Report) Unfolded() []Table {
	return slices.DeleteFunc(slices.Clone(r.Tables), func(t Table) bool { return t.Name != FindingsTable })
}

// Folded returns the other tables, behind the figures.
func (r *Report) Folded() []Table {
	return slices.DeleteFunc(slices.Clone(r.Tables), func(t Table) bool { return t.Name == FindingsTable })
}

// FindingsTable is the name of the table of a published report's findings.
const FindingsTable = "findings"

// Anchor is where the table is in the page; figures have the same names.
func (t Table) Anchor() string {
	if t.Name == "warnings" {
		return t.Name
	}
	return "table-" + t.Name
}

// Inline returns the panels of the figure as elements of a page.
func (f Figure) Inline() []template.HTML {
	elements := make([]template.HTML, len(f.Panels))
	for i, panel := range f.Panels {
		elements[i] = template.HTML(panel.Inline(join(f.Title, panel.Title))) //nolint:gosec // plot escapes the texts
	}
	return elements
}

// WriteHTML writes the report as one self-contained page.
func (r *Report) WriteHTML(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		*Report
		Style template.CSS
	}{r, template.CSS(plot.Style())})
}

// WriteMarkdown writes the findings, the figures as links to their files beside it, and the tables.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	warn := func(warnings string) {
		if warnings != "" {
			fmt.Fprintf(&b, "**Warning:** %s.\n\n", warnings)
		}
	}
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n", r.Title, r.Subtitle)
	warn(r.Warnings)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	fmt.Fprintf(&b, "\n%s\n\n", r.Rule)
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "## %s\n\n![%s](%s)\n\n%s\n\n", f.Title, f.Title, f.File(), f.Caption)
		warn(f.Warnings)
		fmt.Fprintf(&b, "Made by `%s`.\n\n", f.Command)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return r.markdownTables(w)
}

func (r *Report) markdownTables(w io.Writer) error {
	for _, t := range r.Tables {
		fmt.Fprintf(w, "### %s\n\n", t.Title)
		plain := t.Plain()
		plain.Caption = ""
		if err := plain.Write(w, table.Markdown); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "Made by `%s`.\n\n", t.Command); err != nil {
			return err
		}
	}
	return nil
}

// File is the name of the figure's file.
func (f Figure) File() string { return f.Name + ".svg" }

// WriteLaTeX writes the tables, to be included in a document.
func (r *Report) WriteLaTeX(w io.Writer) error {
	for _, t := range r.Tables {
		fmt.Fprintf(w, "%% %s\n", t.Command)
		if err := t.Plain().Write(w, table.LaTeX); err != nil {
			return err
		}
	}
	return nil
}

// Formats are the formats that a report can be written in.
var Formats = []string{"html", "markdown", "latex"}

// Write writes the report in a format of Formats.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case "html":
		return r.WriteHTML(w)
	case "markdown":
		return r.WriteMarkdown(w)
	case "latex":
		return r.WriteLaTeX(w)
	default:
		return fmt.Errorf("format %q: expected one of %v", format, Formats)
	}
}

// HasFormat reports whether a report can be written in a format.
func HasFormat(format string) bool { return slices.Contains(Formats, format) }

// WriteTables writes the tables alone in a format of Formats.
func (r *Report) WriteTables(w io.Writer, format string) error {
	if format == "markdown" {
		return r.markdownTables(w)
	}
	return r.Write(w, format)
}
