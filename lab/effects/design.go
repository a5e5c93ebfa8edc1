package effects

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"

	"mcmw/lab/factorial"
	"mcmw/lab/frame"
	"mcmw/lab/record"
)

// Aliases maps short names of factors, as used in reports, to their names.
var Aliases = map[string]string{
	"S": "servers", "M": "middlewares", "W": "workers", "C": "clients", "D": "depth", "K": "keys_per_get",
	"R": "replicas",
	"V": "value_size", "P": "pipeline", "H": "sharded",
}

// Question selects what to analyse in the runs.
type Question struct {
	// Factors has names of factors or aliases. Tables show them unchanged.
	Factors []string
	// Response is the metric, Source its source.
	Response, Source string
	// Where fixes levels of other factors: only runs with these levels count.
	Where map[string]string
	// Ignore has factors, or columns of a table, that can vary without being analysed.
	Ignore []string
	// Repetitions is the number of runs to use of each combination, the first ones. 0: all; each combination must have
	// the same number.
	Repetitions int
}

// Factor is a factor with its levels.
type Factor struct {
	Name   string   `json:"name"`  // in the record
	Short  string   `json:"short"` // in tables
	Levels []string `json:"levels"`
}

// Experiment is a design with the names of its factors and levels.
type Experiment struct {
	Factors  []Factor
	Response string
	Unit     string // of the responses
	Design   factorial.Design
}

// TwoLevel reports whether every factor has two levels.
func (e *Experiment) TwoLevel() bool {
	return !slices.ContainsFunc(e.Factors, func(f Factor) bool { return len(f.Levels) != 2 })
}

// FromRuns returns the responses of the complete runs of a record as a design.
func FromRuns(runs []record.Run, q Question) (*Experiment, error) {
	var seen []record.Run
	failed := 0
	for _, run := range runs {
		if !matches(run.Factors, q.Where) {
			continue
		}
		if run.State != record.Complete {
			failed++
			continue
		}
		if _, ok := run.Value(q.Source, q.Response); !ok {
			metrics := map[string]bool{}
			for _, value := range run.Results {
				if value.Source == q.Source {
					metrics[value.Metric] = true
				}
			}
			return nil, fmt.Errorf("run %d has no metric %s of the source %q, it has %s", run.ID, q.Response, q.Source,
				joined(metrics))
		}
		seen = append(seen, run)
	}
	e, err := assemble(seen, q)
	if err != nil && failed > 0 {
		err = fmt.Errorf("%w (%d runs failed and don't count)", err, failed)
	}
	return e, err
}

// FromCSV returns the lines of a CSV file as a design: a header with the names of the columns, then one line per run.
// Columns other than the factors and the response are factors that must not vary, except "repetition" and "run". A
// column with the name of a metric is in the metric's base unit.
func FromCSV(r io.Reader, q Question) (*Experiment, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) < 2 {
		return nil,
			errors.New("the file has no runs: expected a line with the names of the columns, then a line per run")
	}
	header := lines[0]
	response := slices.Index(header, q.Response)
	if response < 0 {
		return nil, fmt.Errorf("the file has no column %s: expected one of %s", q.Response, strings.Join(header, ", "))
	}
	var seen []record.Run
	for number, line := range lines[1:] {
		run := record.Run{State: record.Complete, Factors: map[string]string{}}
		for i, text := range line {
			switch {
			case i == response:
				y, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				if err != nil {
					return nil, fmt.Errorf("line %d: %s is %q: expected a number", number+2, q.Response, text)
				}
				run.Results = []record.Value{{Source: q.Source, Metric: q.Response, Value: y}}
			case header[i] != "repetition" && header[i] != "run":
				run.Factors[header[i]] = text
			}
		}
		if matches(run.Factors, q.Where) {
			seen = append(seen, run)
		}
	}
	return assemble(seen, q)
}

func matches(levels, where map[string]string) bool {
	for name, level := range where {
		if levels[fullName(name, levels)] != level {
			return false
		}
	}
	return true
}

// fullName returns the name of a factor from its name or alias.
func fullName(name string, levels map[string]string) string {
	if _, ok := levels[name]; !ok && Aliases[name] != "" {
		return Aliases[name]
	}
	return name
}

// joined returns the keys of a map for an error.
func joined[V any](names map[string]V) string {
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(names)), ", "), "none")
}

// assemble groups the responses of runs by the levels of the factors.
func assemble(seen []record.Run, q Question) (*Experiment, error) {
	if len(seen) == 0 {
		return nil, errors.New("there are no complete runs with the selected levels")
	}
	metric, _ := record.Describe(q.Response)
	e := &Experiment{Response: q.Response, Unit: metric.Unit}
	known := map[string]bool{} // analysed or ignored factors
	for _, name := range q.Ignore {
		known[fullName(name, seen[0].Factors)] = true
	}
	for _, short := range q.Factors {
		f, err := factorOf(short, seen)
		if err != nil {
			return nil, err
		}
		known[f.Name] = true
		e.Factors = append(e.Factors, f)
		e.Design.Factors = append(e.Design.Factors, short)
	}
	if err := checkOthers(seen, known); err != nil {
		return nil, err
	}
	var names []string
	for _, f := range e.Factors {
		names = append(names, f.Name)
	}
	for _, p := range frame.By(seen, names, 0).Points {
		var cell factorial.Cell
		for _, f := range e.Factors {
			cell.Levels = append(cell.Levels, slices.Index(f.Levels, p.Levels[f.Name]))
		}
		for _, run := range p.Runs {
			if y, _ := run.Value(q.Source, q.Response); q.Repetitions == 0 || len(cell.Y) < q.Repetitions {
				cell.Y = append(cell.Y, y)
			}
		}
		e.Design.Cells = append(e.Design.Cells, cell)
	}
	if err := e.checkRepetitions(q.Repetitions); err != nil {
		return nil, err
	}
	return e, nil
}

// factorOf returns the factor with a name or alias, with the levels of the runs.
func factorOf(short string, seen []record.Run) (Factor, error) {
	f := Factor{Short: short, Name: fullName(short, seen[0].Factors)}
	for _, run := range seen {
		if _, ok := run.Factors[f.Name]; !ok {
			return f, fmt.Errorf("a run has no factor %s, it has %s", short, joined(run.Factors))
		}
	}
	f.Levels = frame.By(seen, []string{f.Name}, 0).Levels(f.Name)
	if len(f.Levels) < 2 {
		return f, fmt.Errorf("factor %s has the level %s in all runs: expected at least two levels", short, f.Levels[0])
	}
	return f, nil
}

// checkOthers returns an error if a factor that is not known varies: its effect would count as error.
func checkOthers(seen []record.Run, known map[string]bool) error {
	levels := map[string]map[string]bool{}
	for _, run := range seen {
		for name, level := range run.Factors {
			if !known[name] {
				if levels[name] == nil {
					levels[name] = map[string]bool{}
				}
				levels[name][level] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		if len(levels[name]) > 1 {
			all := slices.SortedFunc(maps.Keys(levels[name]), record.CompareLevels)
			return fmt.Errorf("factor %s varies, too (%s): add it to --factors, fix it, such as with --where %s=%s, "+
				"or --ignore it", name, strings.Join(all, ", "), name, all[0])
		}
	}
	return nil
}

// checkRepetitions returns an error if the combinations don't have the same number of runs, at least wanted.
func (e *Experiment) checkRepetitions(wanted int) error {
	byRuns := func(a, b factorial.Cell) int { return len(a.Y) - len(b.Y) }
	fewest, most := slices.MinFunc(e.Design.Cells, byRuns), slices.MaxFunc(e.Design.Cells, byRuns)
	switch {
	case wanted > len(fewest.Y):
		return fmt.Errorf("%s has %d complete runs: expected %d", e.label(fewest), len(fewest.Y), wanted)
	case len(fewest.Y) != len(most.Y):
		return fmt.Errorf("%s has %d complete runs and %s has %d: expected the same number everywhere (--repetitions "+
			"%d uses the first of each)",
			e.label(fewest), len(fewest.Y), e.label(most), len(most.Y), len(fewest.Y))
	}
	return nil
}

// label names a combination of levels.
func (e *Experiment) label(c factorial.Cell) string {
	var parts []string
	for i, level := range c.Levels {
		parts = append(parts, e.Factors[i].Short+"="+e.Factors[i].Levels[level])
	}
	return strings.Join(parts, ", ")
}

// Shown returns the experiment with its responses in units for display, such as milliseconds for times.
func (e *Experiment) Shown() *Experiment {
	shown := *e
	switch e.Unit {
	case record.OperationsPerSecond:
		shown.Unit = "ops/s"
	case record.Seconds:
		shown.Unit = "ms"
		shown.Design.Cells = nil
		for _, cell := range e.Design.Cells {
			cell.Y = slices.Clone(cell.Y)
			floats.Scale(1e3, cell.Y)
			shown.Design.Cells = append(shown.Design.Cells, cell)
		}
	}
	return &shown
}
