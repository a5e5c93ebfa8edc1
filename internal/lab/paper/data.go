package paper

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
)

//go:embed data/*.json
var files embed.FS

// Names are the reports, by author, in the order in which they are listed.
var Names = []string{"kuechler", "pungas", "pavlik", "ribeiro", "cetin"}

// Report is the printed content of a report.
type Report struct {
	Name   string `json:"-"`
	Title  string `json:"title"`
	Author string `json:"author"`
	// Where is the place and year of publication.
	Where  string  `json:"where"`
	Tables []Table `json:"tables"`
	// Figures are numbers from the text.
	Figures []Figure `json:"figures"`
	// Errors are the report's known errors.
	Errors   []string  `json:"errors"`
	Designs  []Design  `json:"designs"`
	Networks []Network `json:"networks"`
}

// Table is a table as printed.
type Table struct {
	Name    string   `json:"name"`
	Section string   `json:"section"`
	Caption string   `json:"caption"`
	Kind    string   `json:"kind"`
	Columns []string `json:"columns"`
	Units   []string `json:"units"`
	Rows    []Row    `json:"rows"`
	Notes   []string `json:"notes"`
}

// Row is a row of a table.
type Row struct {
	Label  Label             `json:"label"`
	Values []json.RawMessage `json:"values"`
}

// Label is a row's label; several parts are joined.
type Label string

// UnmarshalJSON reads a text or a list of texts.
func (l *Label) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*l = Label(one)
		return nil
	}
	var several []string
	err := json.Unmarshal(text, &several)
	*l = Label(strings.Join(several, ", "))
	return err
}

// Figure is a number, or several, of a report's text.
type Figure struct {
	Section string          `json:"section"`
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value"`
	Unit    string          `json:"unit"`
}

// Design is an experiment's responses, with levels from 0.
type Design struct {
	Name    string   `json:"name"`
	Source  string   `json:"source"`
	Unit    string   `json:"unit"`
	Model   string   `json:"model"`
	Factors []string `json:"factors"`
	Cells   []struct {
		Levels []int     `json:"levels"`
		Y      []float64 `json:"y"`
	} `json:"cells"`
	// Published has the printed results, if they are not a table of the report.
	Published *struct {
		Order         []string           `json:"params_order"`
		Params        []float64          `json:"params"`
		SumsOfSquares map[string]float64 `json:"sum_of_squares_as_printed"`
		Fractions     map[string]float64 `json:"fraction_as_printed"`
		SSE           float64            `json:"SSE"`
		FractionError float64            `json:"fraction_error_as_printed"`
		SST           float64            `json:"SST_as_printed"`
	} `json:"published"`
}

// Network is a prediction of a network of queues, in milliseconds.
type Network struct {
	Name     string `json:"network"`
	Clients  int    `json:"clients"`
	Stations []struct {
		Name    string  `json:"name"`
		Kind    string  `json:"kind"`
		Service float64 `json:"service"`
		Visits  float64 `json:"visits"`
		Servers int     `json:"servers"`
	} `json:"stations"`
	Published struct {
		Utilization float64 `json:"util"`
		Throughput  float64 `json:"throughput"` // ops/s
		Latency     float64 `json:"latency_ms"`
		Queue       float64 `json:"qlen"`
	} `json:"published"`
}

// Load returns the report called name.
func Load(name string) (*Report, error) {
	text, err := files.ReadFile("data/" + name + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("report %q: expected one of %s", name, strings.Join(Names, ", "))
	}
	if err != nil {
		return nil, err
	}
	r := &Report{Name: name}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("report %s: %w", name, err)
	}
	return r, nil
}

// figure is a printed number and what its last digit stands for.
type figure struct{ value, unit float64 }

// printed is a number with so many decimals.
func printed(value float64, decimals int) figure { return figure{value, math.Pow10(-decimals)} }

// decimals returns how many decimals the values were printed with: the most that one of them has.
func decimals(values ...float64) int {
	most := 0
	for _, v := range values {
		if _, fraction, ok := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), "."); ok {
			most = max(most, len(fraction))
		}
	}
	return most
}

// same returns values that were printed with the same number of decimals.
func same(values []float64) []figure {
	d := decimals(values...)
	figures := make([]figure, len(values))
	for i, v := range values {
		figures[i] = printed(v, d)
	}
	return figures
}

// table returns the table of this name; a missing one is a mistake in the data.
func (r *Report) table(name string) *Table {
	for i := range r.Tables {
		if r.Tables[i].Name == name {
			return &r.Tables[i]
		}
	}
	panic(fmt.Sprintf("report %s has no table %q", r.Name, name))
}

// design returns the design of this name.
func (r *Report) design(name string) Design {
	for _, d := range r.Designs {
		if d.Name == name {
			return d
		}
	}
	panic(fmt.Sprintf("report %s has no design %q", r.Name, name))
}

// number returns the figure of this name of the text.
func (r *Report) number(name string) figure {
	for _, f := range r.Figures {
		if f.Name == name {
			v := numberOf(f.Value)
			return printed(v, decimals(v))
		}
	}
	panic(fmt.Sprintf("report %s has no figure %q", r.Name, name))
}

// numberOf returns a value as a number, NaN if it is none: of {"value": 1, "plus_minus": 2} the first.
func numberOf(raw json.RawMessage) float64 {
	var v *float64
	if json.Unmarshal(raw, &v) == nil && v != nil {
		return *v
	}
	var object struct {
		Value *float64 `json:"value"`
	}
	if json.Unmarshal(raw, &object) == nil && object.Value != nil {
		return *object.Value
	}
	return math.NaN()
}

// listOf returns a value as a list of numbers, nil if it is none: of {"interval": [1, 2]} the list.
func listOf(raw json.RawMessage) []float64 {
	var list []float64
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var object struct {
		Interval []float64 `json:"interval"`
	}
	if json.Unmarshal(raw, &object) == nil {
		return object.Interval
	}
	return nil
}

// row returns the numbers of a row, NaN for what is none.
func (t *Table) row(i int) []float64 {
	values := make([]float64, len(t.Rows[i].Values))
	for j, raw := range t.Rows[i].Values {
		values[j] = numberOf(raw)
	}
	return values
}

// column returns the numbers of a column, NaN for what is none.
func (t *Table) column(j int) []float64 {
	values := make([]float64, len(t.Rows))
	for i := range t.Rows {
		values[i] = numberOf(t.Rows[i].Values[j])
	}
	return values
}

// textOf is a value as the table shows it.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		return text
	}
	var spread struct {
		Value          *json.Number `json:"value"`
		PlusMinus      json.Number  `json:"plus_minus"`
		Interval       []float64    `json:"interval"`
		NotSignificant bool         `json:"not_significant"`
	}
	if json.Unmarshal(raw, &spread) == nil {
		switch {
		case spread.Value != nil:
			return spread.Value.String() + " ± " + spread.PlusMinus.String()
		case spread.Interval != nil && spread.NotSignificant:
			return fmt.Sprintf("%v (not significant)", spread.Interval)
		}
	}
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// Number returns a number of a table, by row and column from 0; NaN if it doesn't exist.
func (r *Report) Number(name string, row, column int) float64 {
	t, ok := r.find(name)
	if !ok || row >= len(t.Rows) || column >= len(t.Rows[row].Values) {
		return math.NaN()
	}
	return numberOf(t.Rows[row].Values[column])
}

// Text returns the number called name from the text; NaN if there is none.
func (r *Report) Text(name string) float64 {
	for _, f := range r.Figures {
		if f.Name == name {
			return numberOf(f.Value)
		}
	}
	return math.NaN()
}
