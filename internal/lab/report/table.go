package report

import (
	"slices"

	"mcmw/internal/lab/table"
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

func words(name string) Column { return Column{Name: name, Text: true} }

// Plain returns the table with its warnings among the notes, as it is written everywhere but on the page.
func (t Table) Plain() table.Table {
	plain := table.Table{Caption: t.Title, Label: t.Name, Rows: t.Rows, Notes: t.Notes}
	for i, c := range t.Columns {
		plain.Columns = append(plain.Columns, c.Name)
		if c.Text {
			plain.Left = append(plain.Left, i)
		}
	}
	if t.Warnings != "" {
		plain.Notes = append(slices.Clone(plain.Notes), "Warning: "+t.Warnings+".")
	}
	return plain
}
