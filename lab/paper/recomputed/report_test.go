package recomputed

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/lab/factorial"
	"mcmw/lab/queueing"
)

// Report has the printed numbers of a report, and what the lab does with them.
type Report struct {
	Name       string `yaml:"-"`
	Tables     []Table
	Figures    []Figure // numbers in the text
	Errors     []string // known errors of the report
	Designs    []Design
	Networks   []Network
	Recomputed []Recomputation `yaml:"checks"`

	analyses map[string]*factorial.Analysis // by design, responses and confidence; many checks need the same one
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
	r := &Report{Name: name, analyses: map[string]*factorial.Analysis{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("report %s: %w", name, err)
	}
	return r, nil
}

// decimals returns the largest number of decimals of the values.
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
	i := slices.IndexFunc(r.Tables, func(t Table) bool { return t.Name == name })
	if i < 0 {
		return nil, false
	}
	return &r.Tables[i], true
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

// row returns the numbers of a row; NaN for other values.
func (t *Table) row(i int) []float64 {
	values := make([]float64, len(t.Rows[i].Values))
	for j := range values {
		values[j] = numberOf(&t.Rows[i].Values[j])
	}
	return values
}

// column returns the numbers of a column; NaN for other values.
func (t *Table) column(j int) []float64 {
	values := make([]float64, len(t.Rows))
	for i := range t.Rows {
		values[i] = numberOf(&t.Rows[i].Values[j])
	}
	return values
}

// Text returns the number with a name from the text; NaN if there is none.
func (r *Report) Text(name string) float64 {
	for i := range r.Figures {
		if r.Figures[i].Name == name {
			return numberOf(&r.Figures[i].Value)
		}
	}
	return math.NaN()
}
