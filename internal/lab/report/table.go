package report

import (
	"fmt"
	"io"
	"strings"
)

// Table is a table of texts with named columns.
type Table struct {
	Name    string // for selecting it
	Title   string
	Columns []Column
	Rows    [][]string
	Notes   []string // sentences below it
	Command string   // makes it again
	// Warnings are like a Figure's.
	Warnings string
}

// Column is a column's name; the unit of its values is in it.
type Column struct {
	Name string
	// Text columns are aligned to the left, numbers to the right.
	Text bool
}

// number returns a column of numbers.
func number(name string) Column { return Column{Name: name} }

// words returns a column of texts.
func words(name string) Column { return Column{Name: name, Text: true} }

// WriteMarkdown writes the table as Markdown.
func (t Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	escape := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", together, " ").Replace
	fmt.Fprintf(&b, "### %s\n\n", escape(t.Title))
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + escape(c) + " ")
		}
		b.WriteString("|\n")
	}
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	line(names)
	for _, c := range t.Columns {
		if c.Text {
			b.WriteString("|---")
		} else {
			b.WriteString("|---:")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.Rows {
		line(row)
	}
	b.WriteString("\n")
	for _, note := range t.notes() {
		b.WriteString(escape(note) + "\n\n")
	}
	fmt.Fprintf(&b, "Made by `%s`.\n\n", t.Command)
	_, err := io.WriteString(w, b.String())
	return err
}

// notes returns what stands below the table: its notes, and the checks that its runs violate.
func (t Table) notes() []string {
	notes := t.Notes
	if t.Warnings != "" {
		notes = append(notes[:len(notes):len(notes)], "Warning: "+t.Warnings+".")
	}
	return notes
}

// latexEscapes is what LaTeX takes for commands, and the signs that its default fonts have not.
var latexEscapes = strings.NewReplacer(`\`, `\textbackslash{}`, "&", `\&`, "%", `\%`, "$", `\$`, "#", `\#`, "_", `\_`, "{", `\{`, "}", `\}`, "~", `\textasciitilde{}`,
	"^", `\textasciicircum{}`, "–", "--", "±", `$\pm$`, "µ", `$\mu$`, "≥", `$\geq$`, "≤", `$\leq$`, "<", `$<$`, ">", `$>$`, "⚠", "!", "…", `\dots{}`, together, "~", "×", `$\times$`)

// WriteLaTeX writes the table as a LaTeX table; it needs no package.
func (t Table) WriteLaTeX(w io.Writer) error {
	var b strings.Builder
	format := ""
	var names []string
	for _, c := range t.Columns {
		if c.Text {
			format += "l"
		} else {
			format += "r"
		}
		names = append(names, latexEscapes.Replace(c.Name))
	}
	fmt.Fprintf(&b, "%% %s\n\\begin{table}\n\\centering\n\\begin{tabular}{%s}\n\\hline\n%s \\\\\n\\hline\n", t.Command, format, strings.Join(names, " & "))
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = latexEscapes.Replace(c)
		}
		b.WriteString(strings.Join(cells, " & ") + " \\\\\n")
	}
	caption := t.Title + "."
	for _, note := range t.notes() {
		caption += " " + note
	}
	fmt.Fprintf(&b, "\\hline\n\\end{tabular}\n\\caption{%s}\n\\label{tab:%s}\n\\end{table}\n\n", latexEscapes.Replace(caption), t.Name)
	_, err := io.WriteString(w, b.String())
	return err
}
