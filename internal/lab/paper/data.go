package paper

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/experiments"
	"mcmw/internal/lab/factorial"
	"mcmw/internal/lab/queueing"
)

// Names are the reports, by author.
var Names = names()

func names() (all []string) {
	files, err := experiments.Reports.ReadDir("reports")
	if err != nil {
		panic(err) // The directory is part of the program.
	}
	for _, f := range files {
		all = append(all, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return all
}

// Report is the printed content of a report, and what is made of it here.
type Report struct {
	Name   string `yaml:"-"`
	Title  string
	Author string
	// Where is the place and year of publication.
	Where  string
	Tables []Table
	// Figures are numbers from the text.
	Figures []Figure
	// Errors are the report's known errors.
	Errors   []string
	Designs  []Design
	Networks []Network
	// Recomputed are the checks of what is printed.
	Recomputed []Recomputation `yaml:"checks"`
	// Beside are the tables that the repeated experiments are set beside.
	Beside []Beside

	analyses map[string]*factorial.Analysis // by design, responses and confidence: every figure of a design asks for the same ones
}

// Table is a table as printed. A value is a number, a text, a list of them, nothing, {value: V, plus_minus: W}, or
// {interval: [LOW, HIGH], not_significant: true}.
type Table struct {
	Name    string
	Section string
	Caption string
	Columns []string
	Units   []string
	Rows    []struct {
		Label  Label
		Values []yaml.Node
	}
	Notes []string
}

// Label is a row's label; several parts are joined.
type Label string

// UnmarshalYAML reads a text or a list of texts.
func (l *Label) UnmarshalYAML(n *yaml.Node) error {
	parts := []string{n.Value}
	if n.Kind == yaml.SequenceNode {
		if err := n.Decode(&parts); err != nil {
			return err
		}
	}
	*l = Label(strings.Join(parts, ", "))
	return nil
}

// Figure is a number, or several, of a report's text.
type Figure struct {
	Section string
	Name    string
	Value   yaml.Node
	Unit    string
}

// Design is an experiment's responses, with levels from 0.
type Design struct {
	Name    string
	Source  string
	Unit    string
	Model   factorial.Model
	Factors []string
	Cells   []factorial.Cell
	// Published has the printed results, if they are not a table of the report.
	Published Effects
}

// Effects are the printed results of a design, by effect.
type Effects struct {
	Order         []string
	Effects       []float64          // in this order
	SumsOfSquares map[string]float64 `yaml:"sums_of_squares"`
	Shares        map[string]float64 // of the variation
	SSE           float64
	ShareOfErrors float64 `yaml:"share_of_errors"`
	SST           float64
}

// Network is a prediction of a network of queues, in milliseconds.
type Network struct {
	Name      string
	Clients   int
	Stations  []queueing.Station
	Published struct {
		Utilization  float64
		Throughput   float64 // ops/s
		ResponseTime float64 `yaml:"response_time"`
		Jobs         float64
	}
}

// Load returns the report called name.
func Load(name string) (*Report, error) {
	text, err := experiments.Reports.ReadFile("reports/" + name + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("report %q: expected one of %s", name, strings.Join(Names, ", "))
	}
	if err != nil {
		return nil, err
	}
	r := &Report{Name: name, analyses: map[string]*factorial.Analysis{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("report %s: %w", name, err)
	}
	return r, nil
}

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

func (r *Report) find(name string) (*Table, bool) {
	for i := range r.Tables {
		if r.Tables[i].Name == name {
			return &r.Tables[i], true
		}
	}
	return nil, false
}

// numberOf returns a value as a number, NaN if it is none: of {value: 1, plus_minus: 2} the first.
func numberOf(n *yaml.Node) float64 {
	var pair struct{ Value *float64 }
	if n.Kind == yaml.MappingNode && n.Decode(&pair) == nil && pair.Value != nil {
		return *pair.Value
	}
	if v := math.NaN(); n.Kind == yaml.ScalarNode && n.Tag != "!!null" && n.Decode(&v) == nil {
		return v
	}
	return math.NaN()
}

// intervalOf returns the ends of a value {interval: [LOW, HIGH]} or [LOW, HIGH], NaN where it is none.
func intervalOf(n *yaml.Node) []float64 {
	var object struct{ Interval []float64 }
	if n.Kind == yaml.SequenceNode {
		_ = n.Decode(&object.Interval) // what is no list of numbers is no interval
	} else if n.Kind == yaml.MappingNode {
		_ = n.Decode(&object)
	}
	if len(object.Interval) != 2 {
		return []float64{math.NaN(), math.NaN()}
	}
	return object.Interval
}

// row returns the numbers of a row, NaN for what is none.
func (t *Table) row(i int) []float64 {
	values := make([]float64, len(t.Rows[i].Values))
	for j := range values {
		values[j] = numberOf(&t.Rows[i].Values[j])
	}
	return values
}

// column returns the numbers of a column, NaN for what is none.
func (t *Table) column(j int) []float64 {
	values := make([]float64, len(t.Rows))
	for i := range t.Rows {
		values[i] = numberOf(&t.Rows[i].Values[j])
	}
	return values
}

// textOf is a value as the table shows it.
func textOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		parts := make([]string, len(n.Content))
		for i, part := range n.Content {
			parts[i] = textOf(part)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case n.Kind == yaml.MappingNode:
		var spread struct {
			Value          yaml.Node
			PlusMinus      yaml.Node `yaml:"plus_minus"`
			Interval       []float64
			NotSignificant bool `yaml:"not_significant"`
		}
		switch err := n.Decode(&spread); {
		case err != nil:
		case !spread.Value.IsZero():
			return spread.Value.Value + " ± " + spread.PlusMinus.Value
		case spread.NotSignificant:
			return fmt.Sprintf("%v (not significant)", spread.Interval)
		}
	case n.Tag == "!!null":
		return ""
	}
	return n.Value
}

// Number returns a number of a table, by row and column from 0; NaN if it doesn't exist.
func (r *Report) Number(name string, row, column int) float64 {
	t, ok := r.find(name)
	if !ok || row >= len(t.Rows) || column >= len(t.Rows[row].Values) {
		return math.NaN()
	}
	return numberOf(&t.Rows[row].Values[column])
}

// Text returns the number called name from the text; NaN if there is none.
func (r *Report) Text(name string) float64 {
	for i := range r.Figures {
		if r.Figures[i].Name == name {
			return numberOf(&r.Figures[i].Value)
		}
	}
	return math.NaN()
}
