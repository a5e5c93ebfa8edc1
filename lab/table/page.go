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

	"mcmw/lab/plot"
)

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
		b.WriteString(strings.ReplaceAll(escapeMarkdownLines(text), "\n", "  \n") + "\n\n")
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

func escapeMarkdownLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = escapeMarkdown(line)
	}
	return strings.Join(lines, "\n")
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
