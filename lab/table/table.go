// Package table writes pages of texts, tables and figures: for terminals, as Markdown, LaTeX, HTML, CSV and JSON.
package table

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"mcmw/lab/plot"
)

// The output formats.
const (
	Text     = "text"
	Markdown = "markdown"
	LaTeX    = "latex"
	HTML     = "html"
	CSV      = "csv"  // only the tables
	JSON     = "json" // unformatted numbers, where a command has them
)

// Formats lists the formats in the order of the help.
var Formats = []string{Text, Markdown, LaTeX, HTML, CSV, JSON}

// Table is a table whose cells are formatted texts.
type Table struct {
	Caption string   `json:"caption,omitempty"`
	Label   string   `json:"name,omitempty"` // selects it, and is the label in LaTeX; "": none
	Columns []string `json:"columns"`
	// Rows have a cell for each column; missing cells at the end are empty.
	Rows [][]string `json:"rows"`
	// Left has the indexes of the columns that are aligned to the left, in addition to the first. The others hold
	// numbers, which are aligned to the right.
	Left []int `json:"-"`
	// Notes are sentences below the table. Warnings, the last of them, says which checks the runs violate; "": none.
	Notes    []string `json:"notes,omitempty"`
	Warnings string   `json:"warnings,omitempty"`
	Command  string   `json:"command,omitempty"` // command line that makes it again
}

// Write writes t and, unless in CSV and JSON, an empty line.
func (t Table) Write(w io.Writer, f string) error { return Of(t, t).Write(w, f) }

func (t Table) write(b *strings.Builder, f string) {
	if t.Warnings != "" {
		t.Notes = append(slices.Clone(t.Notes), "Warning: "+t.Warnings+".")
	}
	map[string]func(*strings.Builder){
		Text: t.text, Markdown: t.markdown, LaTeX: t.latex, HTML: t.html,
		CSV: t.csv,
	}[f](b)
	if f != CSV {
		b.WriteByte('\n')
	}
}

// Add adds columns with numbers, and AddLeft columns with words.
func (t *Table) Add(names ...string) { t.Columns = append(t.Columns, names...) }

// AddLeft adds columns that are aligned to the left.
func (t *Table) AddLeft(names ...string) {
	for _, name := range names {
		t.Left = append(t.Left, len(t.Columns))
		t.Columns = append(t.Columns, name)
	}
}

// Words reports whether a column holds words, as Left says.
func (t Table) Words(column int) bool { return slices.Contains(t.Left, column) }

// aligned returns the text for the alignment of a column.
func (t Table) aligned(column int, left, right string) string {
	if column == 0 || slices.Contains(t.Left, column) {
		return left
	}
	return right
}

// cells returns a row with all its cells, escaped.
func (t Table) cells(row []string, escape func(string) string) []string {
	texts := make([]string, len(t.Columns))
	for i := range min(len(row), len(texts)) {
		texts[i] = escape(row[i])
	}
	return texts
}

// Lines writes the names of the columns and the rows for terminals, without rule, caption, notes and empty line.
func (t Table) Lines(w io.Writer) error {
	var b strings.Builder
	t.lines(&b, false)
	_, err := io.WriteString(w, b.String())
	return err
}

// text writes the table; one whose columns have no names without rule and empty line after the caption.
func (t Table) text(b *strings.Builder) {
	named := slices.ContainsFunc(t.Columns, func(name string) bool { return name != "" })
	if t.Caption != "" {
		b.WriteString(t.Caption + "\n")
		if named {
			b.WriteString("\n")
		}
	}
	t.lines(b, named)
	for _, note := range t.Notes {
		b.WriteString("\n" + note + "\n")
	}
}

// lines writes the names of the columns, if they have any, and the rows.
func (t Table) lines(b *strings.Builder, ruled bool) {
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i := range min(len(row), len(widths)) {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	write := func(row []string) {
		line := ""
		for i, text := range t.cells(row, func(s string) string { return s }) {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			line += t.aligned(i, text+pad, pad+text) + "  "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if slices.ContainsFunc(t.Columns, func(name string) bool { return name != "" }) {
		write(t.Columns)
	}
	if ruled {
		rule := make([]string, len(t.Columns))
		for i, width := range widths {
			rule[i] = strings.Repeat("-", width)
		}
		write(rule)
	}
	for _, row := range t.Rows {
		write(row)
	}
}

func (t Table) markdown(b *strings.Builder) {
	switch {
	case t.Command != "": // one of many, in a section of its own
		b.WriteString("### " + t.Caption + "\n\n")
	case t.Caption != "":
		b.WriteString("**" + escapeMarkdown(t.Caption) + "**\n\n")
	}
	write := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	write(t.cells(t.Columns, escapeMarkdown))
	rule := make([]string, len(t.Columns))
	for i := range rule {
		rule[i] = t.aligned(i, "---", "---:")
	}
	write(rule)
	for _, row := range t.Rows {
		write(t.cells(row, escapeMarkdown))
	}
	for _, note := range t.Notes {
		b.WriteString("\n" + escapeMarkdown(note) + "\n")
	}
	if t.Command != "" {
		b.WriteString("\nMade by `" + t.Command + "`.\n")
	}
}

var escapeMarkdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", ">", "&gt;", "`",
	"\\`", "\n", " ", "\u00a0", " ").Replace

func (t Table) latex(b *strings.Builder) {
	if t.Command != "" {
		b.WriteString("% " + t.Command + "\n")
	}
	b.WriteString("\\begin{table}[htb]\n\\centering\n")
	if t.Caption != "" {
		b.WriteString("\\caption{" + escapeLaTeX(t.Caption) + "}\n")
	}
	if t.Label != "" {
		b.WriteString("\\label{tab:" + t.Label + "}\n")
	}
	align := ""
	for i := range t.Columns {
		align += t.aligned(i, "l", "r")
	}
	b.WriteString("\\begin{tabular}{" + align + "}\n\\hline\n")
	write := func(row []string) { b.WriteString(strings.Join(t.cells(row, escapeLaTeX), " & ") + " \\\\\n") }
	write(t.Columns)
	b.WriteString("\\hline\n")
	for _, row := range t.Rows {
		write(row)
	}
	b.WriteString("\\hline\n\\end{tabular}\n")
	for _, note := range t.Notes {
		b.WriteString("\\par\\smallskip " + escapeLaTeX(note) + "\n")
	}
	b.WriteString("\\end{table}\n")
}

var escapeLaTeX = strings.NewReplacer(
	`\`, `\textbackslash{}`, "&", `\&`, "%", `\%`, "$", `\$`, "#", `\#`, "_", `\_`, "{", `\{`, "}", `\}`, "~",
	`\textasciitilde{}`,
	"^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`, "λ", `$\lambda$`, "μ", `$\mu$`, "ρ", `$\rho$`,
	"±", `$\pm$`, "−", "$-$", "√", `$\surd$`,
	"–", "--", "µ", `$\mu$`, "≥", `$\geq$`, "≤", `$\leq$`, "⚠", "!", "…", `\dots{}`, "×", `$\times$`, "\u00a0",
	"~").Replace

func (t Table) html(b *strings.Builder) {
	b.WriteString("<table>\n")
	if t.Caption != "" {
		b.WriteString("<caption>" + html.EscapeString(t.Caption) + "</caption>\n")
	}
	write := func(row []string, tag string) {
		b.WriteString("<tr>")
		for i, text := range t.cells(row, html.EscapeString) {
			fmt.Fprintf(b, "<%s%s>%s</%s>", tag, t.aligned(i, "", ` style="text-align:right"`), text, tag)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("<thead>\n")
	write(t.Columns, "th")
	b.WriteString("</thead>\n<tbody>\n")
	for _, row := range t.Rows {
		write(row, "td")
	}
	b.WriteString("</tbody>\n")
	if len(t.Notes) > 0 {
		b.WriteString("<tfoot>\n")
		for _, note := range t.Notes {
			fmt.Fprintf(b, "<tr><td colspan=\"%d\">%s</td></tr>\n", len(t.Columns), html.EscapeString(note))
		}
		b.WriteString("</tfoot>\n")
	}
	b.WriteString("</table>\n")
}

// Page is what a command answers: texts, tables and figures in their order.
type Page struct {
	Blocks []Block
	// Object is what JSON has instead of the blocks; nil: the blocks themselves.
	Object any
}

// Block is a Paragraph, a Table or a Figure.
type Block interface {
	write(b *strings.Builder, f string)
}

// Paragraph is a text. A line end in it is one in every format for terminals.
type Paragraph string

// Figure is a figure. HTML has it inline, and Markdown as a link to its file, which Save writes; other formats have
// none.
type Figure struct {
	Name    string // selects it, and is the name of its file
	Caption string
	plot.Figure
	Command  string // command line that makes it again
	Warnings string // summary of the checks that its runs violate; "": none
}

// Of returns a page of tables and the object that they show.
func Of(object any, tables ...Table) Page {
	p := Page{Object: object}
	for _, t := range tables {
		p.Blocks = append(p.Blocks, t)
	}
	return p
}

// Write writes the page in a format.
func (p Page) Write(w io.Writer, f string) error {
	if !slices.Contains(Formats, f) {
		return fmt.Errorf("format %q: expected one of %s", f, strings.Join(Formats, ", "))
	}
	if f == JSON {
		object := p.Object
		if object == nil {
			object = slices.DeleteFunc(slices.Clone(p.Blocks),
				func(block Block) bool { _, isFigure := block.(Figure); return isFigure })
		}
		text, err := json.MarshalIndent(object, "", "  ")
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
		return err
	}
	var b strings.Builder
	styled := false
	for _, block := range p.Blocks {
		if _, isFigure := block.(Figure); isFigure && f == HTML && !styled {
			styled = true
			fmt.Fprintf(&b, "<style>%s</style>\n", plot.Style())
		}
		if f == CSV && b.Len() > 0 {
			b.WriteByte('\n')
		}
		block.write(&b, f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Save writes the figures as NAME.svg into a directory, which it creates if needed.
func (p Page) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, block := range p.Blocks {
		if f, ok := block.(Figure); ok {
			if err := os.WriteFile(filepath.Join(dir, f.File()), f.SVG(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p Paragraph) write(b *strings.Builder, f string) {
	switch text := string(p); f {
	case Text:
		b.WriteString(text + "\n\n")
	case Markdown:
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			lines[i] = escapeMarkdown(line)
		}
		b.WriteString(strings.Join(lines, "  \n") + "\n\n")
	case LaTeX:
		b.WriteString(escapeLaTeX(text) + "\n\n")
	case HTML:
		b.WriteString("<p>" + strings.ReplaceAll(html.EscapeString(text), "\n", "<br>\n") + "</p>\n\n")
	}
}

// ForTerminals is a Paragraph that only text has.
type ForTerminals string

func (p ForTerminals) write(b *strings.Builder, f string) {
	if f == Text {
		Paragraph(p).write(b, f)
	}
}

// File is the name of the figure's file.
func (f Figure) File() string { return f.Name + ".svg" }

// Inline returns the panels as HTML elements.
func (f Figure) Inline() []template.HTML {
	elements := make([]template.HTML, len(f.Panels))
	for i, panel := range f.Panels {
		title := f.Title
		if title != "" && panel.Title != "" {
			title += ", "
		}
		elements[i] = template.HTML(panel.Inline(title + panel.Title)) //nolint:gosec // plot escapes the texts
	}
	return elements
}

func (f Figure) write(b *strings.Builder, format string) {
	switch format {
	case HTML:
		for _, panel := range f.Inline() {
			fmt.Fprintf(b, "<figure>%s<figcaption>%s</figcaption></figure>\n", panel, html.EscapeString(f.Title))
		}
	case Markdown:
		fmt.Fprintf(b, "## %s\n\n![%s](%s)\n\n%s\n\n", f.Title, f.Title, f.File(), f.Caption)
		if f.Warnings != "" {
			fmt.Fprintf(b, "**Warning:** %s.\n\n", f.Warnings)
		}
		fmt.Fprintf(b, "Made by `%s`.\n\n", f.Command)
	}
}

// csv writes the names of the columns and the rows.
func (t Table) csv(b *strings.Builder) {
	w := csv.NewWriter(b)
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		_ = w.Write(t.cells(row, func(s string) string { return s })) // a builder takes everything
	}
	w.Flush()
}
