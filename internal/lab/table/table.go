// Package table writes tables for terminals, Markdown, LaTeX and HTML.
package table

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Format is a way to write a table.
type Format string

// The formats.
const (
	Text     Format = "text"
	Markdown Format = "markdown"
	LaTeX    Format = "latex"
	HTML     Format = "html"
)

// Formats are all of them, in the order in which help lists them.
var Formats = []Format{Text, Markdown, LaTeX, HTML}

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	if slices.Contains(Formats, Format(name)) {
		return Format(name), nil
	}
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return "", fmt.Errorf("format %q: expected one of %s", name, strings.Join(names, ", "))
}

// Table is a table of finished texts.
type Table struct {
	Caption string
	// Label is the table's label in LaTeX; "" for none.
	Label   string
	Columns []string
	// Rows have a text per column; missing ones at the end are empty.
	Rows [][]string
	// Left are the numbers of the columns that are aligned to the left beside the first; the others are numbers, aligned
	// to the right.
	Left []int
	// Notes are sentences that stand below.
	Notes []string
}

// Write writes t, ended by an empty line.
func (t Table) Write(w io.Writer, f Format) error {
	var b strings.Builder
	switch f {
	case Text:
		t.text(&b)
	case Markdown:
		t.markdown(&b)
	case LaTeX:
		t.latex(&b)
	case HTML:
		t.html(&b)
	default:
		return fmt.Errorf("format %q is none", f)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Table) left(column int) bool { return column == 0 || slices.Contains(t.Left, column) }

// cell returns a text of a row, empty beyond its end.
func cell(row []string, column int) string {
	if column < len(row) {
		return row[column]
	}
	return ""
}

// Lines writes the columns and rows alone, for terminals: no rule, no caption, no notes, and no empty line.
func (t Table) Lines(w io.Writer) error {
	var b strings.Builder
	t.lines(&b, false)
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Table) text(b *strings.Builder) {
	if t.Caption != "" {
		b.WriteString(t.Caption + "\n\n")
	}
	t.lines(b, true)
	for _, note := range t.Notes {
		b.WriteString("\n" + note + "\n")
	}
}

// lines writes the columns, if they have names, and the rows.
func (t Table) lines(b *strings.Builder, ruled bool) {
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i := range t.Columns {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell(row, i)))
		}
	}
	write := func(row []string) {
		line := ""
		for i := range t.Columns {
			text := cell(row, i)
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if t.left(i) {
				line += text + pad
			} else {
				line += pad + text
			}
			line += "  "
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
	if t.Caption != "" {
		b.WriteString("**" + escapeMarkdown(t.Caption) + "**\n\n")
	}
	write := func(row []string) {
		for i := range t.Columns {
			b.WriteString("| " + escapeMarkdown(cell(row, i)) + " ")
		}
		b.WriteString("|\n")
	}
	write(t.Columns)
	for i := range t.Columns {
		if t.left(i) {
			b.WriteString("| --- ")
		} else {
			b.WriteString("| ---: ")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.Rows {
		write(row)
	}
	for _, note := range t.Notes {
		b.WriteString("\n" + escapeMarkdown(note) + "\n")
	}
}

var markdownEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", ">", "&gt;", "`", "\\`", "\n", " ", "\u00a0", " ")

func escapeMarkdown(text string) string { return markdownEscapes.Replace(text) }

func (t Table) latex(b *strings.Builder) {
	b.WriteString("\\begin{table}[htb]\n\\centering\n")
	if t.Caption != "" {
		b.WriteString("\\caption{" + escapeLaTeX(t.Caption) + "}\n")
	}
	if t.Label != "" {
		b.WriteString("\\label{tab:" + t.Label + "}\n")
	}
	align := ""
	for i := range t.Columns {
		if t.left(i) {
			align += "l"
		} else {
			align += "r"
		}
	}
	b.WriteString("\\begin{tabular}{" + align + "}\n\\hline\n")
	write := func(row []string) {
		texts := make([]string, len(t.Columns))
		for i := range t.Columns {
			texts[i] = escapeLaTeX(cell(row, i))
		}
		b.WriteString(strings.Join(texts, " & ") + " \\\\\n")
	}
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

var latexEscapes = strings.NewReplacer(
	`\`, `\textbackslash{}`, "&", `\&`, "%", `\%`, "$", `\$`, "#", `\#`, "_", `\_`, "{", `\{`, "}", `\}`, "~", `\textasciitilde{}`,
	"^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`, "λ", `$\lambda$`, "μ", `$\mu$`, "ρ", `$\rho$`, "±", `$\pm$`, "−", "$-$", "√", `$\surd$`,
	"–", "--", "µ", `$\mu$`, "≥", `$\geq$`, "≤", `$\leq$`, "⚠", "!", "…", `\dots{}`, "×", `$\times$`, "\u00a0", "~")

func escapeLaTeX(text string) string { return latexEscapes.Replace(text) }

func (t Table) html(b *strings.Builder) {
	b.WriteString("<table>\n")
	if t.Caption != "" {
		b.WriteString("<caption>" + html.EscapeString(t.Caption) + "</caption>\n")
	}
	write := func(row []string, tag string) {
		b.WriteString("<tr>")
		for i := range t.Columns {
			style := ""
			if !t.left(i) {
				style = ` style="text-align:right"`
			}
			fmt.Fprintf(b, "<%s%s>%s</%s>", tag, style, html.EscapeString(cell(row, i)), tag)
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
		fmt.Fprintf(b, "<tfoot>\n")
		for _, note := range t.Notes {
			fmt.Fprintf(b, "<tr><td colspan=\"%d\">%s</td></tr>\n", len(t.Columns), html.EscapeString(note))
		}
		b.WriteString("</tfoot>\n")
	}
	b.WriteString("</table>\n")
}
