package report

import (
	"slices"

	"mcmw/lab/table"
)

// Table is a table whose cells are formatted texts.
type Table struct {
	Name     string // selects it: --table NAME
	Title    string
	Columns  []Column
	Rows     [][]string
	Notes    []string // sentences below it
	Command  string   // command line that makes it again
	Warnings string   // as in Figure
}

// Column is a column of a table.
type Column struct {
	Name string // with the unit, if the cells do not have it
	Text bool   // aligned to the left; numbers are aligned to the right
}

func number(name string) Column { return Column{Name: name} }

func words(name string) Column { return Column{Name: name, Text: true} }

// Plain returns the table as it is written everywhere except on the page: with its warnings among the notes.
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
