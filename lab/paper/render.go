package paper

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcmw/lab/table"
)

// Selection selects a part of a report. The zero value selects the recomputation of every table that has checks.
type Selection struct {
	Table       string // only this table
	All         bool   // all tables as printed, too, even without checks
	Differences bool   // only numbers that differ
}

// Selected returns the selected checks.
func (r *Report) Selected(s Selection) ([]Check, error) {
	checks, err := r.Checks()
	if err != nil {
		return nil, err
	}
	if names := r.tableNames(checks); s.Table != "" && !slices.Contains(names, s.Table) {
		return nil, fmt.Errorf("report %s has no table %q: expected one of %s", r.Name, s.Table, strings.Join(names, "; "))
	}
	return slices.DeleteFunc(checks, func(k Check) bool {
		return s.Table != "" && k.Table != s.Table || s.Differences && k.Verdict != Differs
	}), nil
}

// Render returns the selected tables, as printed and recomputed, and the report's known errors.
func (r *Report) Render(s Selection) ([]table.Table, error) {
	checks, err := r.Selected(s)
	if err != nil {
		return nil, err
	}
	var tables []table.Table
	for _, name := range r.tableNames(checks) {
		if s.Table != "" && name != s.Table {
			continue
		}
		original, known := r.find(name)
		if known && (s.All || s.Table != "") {
			tables = append(tables, original.asPrinted())
		}
		caption := fmt.Sprintf("%s, %s, recomputed", r.Author, title(name))
		if known {
			caption += ": " + original.Caption
		}
		if t, ok := renderChecks(caption, name, checks); ok {
			tables = append(tables, t)
		}
	}
	if s.Table == "" && len(r.Errors) > 0 {
		t := table.Table{Caption: "Known errors of the report by " + r.Author, Columns: []string{""}}
		for _, text := range r.Errors {
			t.Rows = append(t.Rows, []string{text})
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// tableNames returns the names of the report's tables in its order, followed by the sections that have checks.
func (r *Report) tableNames(checks []Check) (names []string) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, t := range r.Tables {
		add(t.Name)
	}
	for _, k := range checks {
		add(k.Table)
	}
	return names
}

// title returns "table 5" for a name that is a number.
func title(name string) string {
	if name[0] >= '0' && name[0] <= '9' || name[0] == 'A' {
		return "table " + name
	}
	return name
}

func (t *Table) asPrinted() table.Table {
	out := table.Table{Caption: fmt.Sprintf("%s (section %s): %s, as printed", title(t.Name), t.Section, t.Caption), Columns: []string{""}, Notes: t.Notes}
	for i, column := range t.Columns {
		if i < len(t.Units) && len(t.Units) == len(t.Columns) && t.Units[i] != "" && t.Units[i] != "text" {
			column += " [" + t.Units[i] + "]"
		}
		out.Columns = append(out.Columns, column)
	}
	if len(t.Units) == 1 && len(t.Columns) != 1 && t.Units[0] != "" {
		out.Caption += " [" + t.Units[0] + "]"
	}
	for _, row := range t.Rows {
		texts := []string{string(row.Label)}
		for i := range row.Values {
			texts = append(texts, textOf(&row.Values[i]))
		}
		out.Rows = append(out.Rows, texts)
	}
	return out
}

// renderChecks returns a table of the checks of the report's table name, with their notes below; false if there are none.
func renderChecks(caption, name string, checks []Check) (table.Table, bool) {
	t := table.Table{Caption: caption, Columns: []string{"figure", "printed", "recomputed", "verdict"}, Left: []int{3}}
	var notes []string
	for _, k := range checks {
		if k.Table != name {
			continue
		}
		verdict := string(k.Verdict)
		if k.Verdict == Holds {
			verdict += ": " + k.Note
		} else if k.Note != "" {
			if !slices.Contains(notes, k.Note) {
				notes = append(notes, k.Note)
			}
			verdict += fmt.Sprintf(" [%d]", slices.Index(notes, k.Note)+1)
		}
		t.Rows = append(t.Rows, []string{k.What, k.format(k.Printed, 0), k.format(k.Recomputed, 1), verdict})
	}
	for i, note := range notes {
		t.Notes = append(t.Notes, fmt.Sprintf("[%d] %s", i+1, note))
	}
	return t, len(t.Rows) > 0
}

// format returns a number with as many decimals as the printed one, and more.
func (k Check) format(v float64, more int) string {
	if k.Unit == 0 {
		return strconv.FormatFloat(v, 'g', 5, 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, int(math.Round(-math.Log10(k.Unit)))+more), 64)
}

// Summary returns a table of all reports.
func Summary() (table.Table, error) {
	t := table.Table{
		Columns: []string{"name", "report", "tables", "checks", "agree", "hold", "differ"}, Left: []int{1},
		Notes: []string{"agree: the recomputed number equals the printed one, to the last digit or within the rounding of its inputs; hold: a law between measured numbers holds; differ: neither, and there is a reason."},
	}
	for _, name := range Names {
		r, err := Load(name)
		if err != nil {
			return t, err
		}
		checks, err := r.Checks()
		if err != nil {
			return t, err
		}
		count := map[Verdict]int{}
		for _, k := range checks {
			count[k.Verdict]++
		}
		t.Rows = append(t.Rows, []string{
			name, r.Author + ": " + r.Title + ", " + r.Where, strconv.Itoa(len(r.Tables)), strconv.Itoa(len(checks)),
			strconv.Itoa(count[Agrees] + count[Rounding] + count[CutOff]), strconv.Itoa(count[Holds]), strconv.Itoa(count[Differs]),
		})
	}
	return t, nil
}
