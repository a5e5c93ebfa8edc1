package recomputed

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/lab/factorial"
	"mcmw/lab/queueing"
)

// Report has the printed numbers of a report, and their checks.
type Report struct {
	Tables   []Table
	Figures  []Figure // numbers in the text
	Errors   []string // known errors of the report
	Designs  []Design
	Networks []Network

	checks []Check
}

// Table is a table as printed. A value is a number, a text, a list of them, null, {value: V, plus_minus: W}, or
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

// Label is the label of a row.
type Label string

// UnmarshalYAML reads a text or a list of texts, which it joins.
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

// Figure is a number, or several, in the text of a report.
type Figure struct {
	Section string
	Name    string
	Value   yaml.Node
	Unit    string
}

// Design has the responses of an experiment. Levels count from 0.
type Design struct {
	Name      string
	Source    string
	Unit      string
	Model     factorial.Model
	Factors   []string
	Cells     []factorial.Cell
	Published Effects // the printed results, if they are not a table of the report
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

// load reads the numbers of the report with a name.
func load(name string) (*Report, error) {
	text, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	r := &Report{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("report %s: %w", name, err)
	}
	return r, nil
}

// find returns a table, which must exist.
func (r *Report) find(name string) *Table {
	return &r.Tables[slices.IndexFunc(r.Tables, func(t Table) bool { return t.Name == name })]
}

// numberOf returns a value as a number: that of {value: V, plus_minus: W} is V. It returns NaN for other values.
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

// intervalOf returns the ends of a value {interval: [LOW, HIGH]} or [LOW, HIGH]; NaN for other values.
func intervalOf(n *yaml.Node) []float64 {
	var object struct{ Interval []float64 }
	if n.Kind == yaml.SequenceNode {
		_ = n.Decode(&object.Interval) // a list of other things is not an interval
	} else if n.Kind == yaml.MappingNode {
		_ = n.Decode(&object)
	}
	if len(object.Interval) != 2 {
		return []float64{math.NaN(), math.NaN()}
	}
	return object.Interval
}

// values returns the numbers of a table's row; NaN for other values.
func (r *Report) values(table string, i int) (values []float64) {
	row := r.find(table).Rows[i]
	for j := range row.Values {
		values = append(values, numberOf(&row.Values[j]))
	}
	return values
}

// row and column return the numbers of a row or a column, printed to the same number of decimals; NaN for other values.
func (r *Report) row(table string, i int) []number { return same(r.values(table, i)) }

func (r *Report) column(table string, j int) []number {
	var values []float64
	for i := range r.find(table).Rows {
		values = append(values, r.values(table, i)[j])
	}
	return same(values)
}

// text returns the number with a name from the text, which must exist.
func (r *Report) text(name string) number {
	at := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
	return same([]float64{numberOf(&r.Figures[at].Value)})[0]
}

// design returns the design with a name, which must exist.
func (r *Report) design(name string) Design {
	return r.Designs[slices.IndexFunc(r.Designs, func(d Design) bool { return d.Name == name })]
}

// responses returns the responses, printed to a unit, in the order of the cells.
func (d Design) responses(unit float64) (all []number) {
	for _, cell := range d.Cells {
		for _, y := range cell.Y {
			all = append(all, number{y, unit})
		}
	}
	return all
}

// analysis analyses the design, with other responses if there are any.
func (d Design) analysis(y []float64, confidence float64) *factorial.Analysis {
	of := factorial.Design{Factors: d.Factors, Cells: slices.Clone(d.Cells)}
	for i := range of.Cells {
		if n := len(of.Cells[i].Y); y != nil {
			of.Cells[i].Y, y = y[:n:n], y[n:]
		}
	}
	a, err := factorial.Analyze(of, factorial.Options{Model: d.Model, Confidence: confidence})
	if err != nil {
		panic(err)
	}
	return a
}
