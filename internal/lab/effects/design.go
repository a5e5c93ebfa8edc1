package effects

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"mcmw/internal/lab/factorial"
	"mcmw/internal/lab/record"
)

// Aliases are short names of factors, as reports have them in their tables.
var Aliases = map[string]string{
	"S": "servers", "M": "middlewares", "W": "workers", "C": "connections", "D": "depth", "K": "keys_per_get", "R": "replicas",
	"V": "value_size", "P": "pipeline", "H": "sharded",
}

// Question selects what to analyse in the runs.
type Question struct {
	// Factors are names of factors, or aliases; they are shown as they are given.
	Factors []string
	// Response is the metric, and Source where it was measured.
	Response, Source string
	// Where holds other factors at a level: only runs that have it count.
	Where map[string]string
	// Ignore are factors, or columns of a table, that may vary although they are not analysed.
	Ignore []string
	// Repetitions is the number of runs to use of each combination, the first ones; 0 means all, of which each must have equally many.
	Repetitions int
}

// Factor is a factor with its levels.
type Factor struct {
	Name   string   `json:"name"`  // in the record
	Short  string   `json:"short"` // in tables
	Levels []string `json:"levels"`
}

// Experiment is a design whose levels have names.
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

// observation is a response and the levels it was measured at.
type observation struct {
	levels map[string]string
	y      float64
}

// FromRuns returns the responses of the complete runs of a record as a design.
func FromRuns(runs []record.Run, q Question) (*Experiment, error) {
	var seen []observation
	failed := 0
	metrics := map[string]bool{}
	for _, run := range runs {
		if !matches(run.Factors, q.Where) {
			continue
		}
		if run.State != record.Complete {
			failed++
			continue
		}
		y, ok := run.Value(q.Source, q.Response)
		for _, value := range run.Results {
			if value.Source == q.Source {
				metrics[value.Metric] = true
			}
		}
		if !ok {
			return nil, fmt.Errorf("run %d has no %s of source %q: expected one of %s",
				run.ID, q.Response, q.Source, orNothing(slices.Sorted(maps.Keys(metrics))))
		}
		seen = append(seen, observation{levels: run.Factors, y: y})
	}
	e, err := assemble(seen, q)
	if err != nil {
		if failed > 0 {
			err = fmt.Errorf("%w (%d runs failed and don't count)", err, failed)
		}
		return nil, err
	}
	e.Unit = unitOf(q.Response)
	return e, nil
}

// FromCSV returns the lines of a table as a design: one line per run, with a head that names the columns. Columns that are
// neither factors nor the response are factors that must not vary, unless they are called "repetition" or "run". A column
// that is called as a metric is in its base unit.
func FromCSV(r io.Reader, q Question) (*Experiment, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) < 2 {
		return nil, errors.New("the table has no lines: expected a head with the names of the columns, and a line per run")
	}
	head := lines[0]
	response := slices.Index(head, q.Response)
	if response < 0 {
		return nil, fmt.Errorf("the table has no column %s: expected one of %s", q.Response, strings.Join(head, ", "))
	}
	var seen []observation
	for number, line := range lines[1:] {
		o := observation{levels: map[string]string{}}
		for i, text := range line {
			switch {
			case i == response:
				if o.y, err = strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil {
					return nil, fmt.Errorf("line %d: %s is %q: expected a number", number+2, q.Response, text)
				}
			case head[i] != "repetition" && head[i] != "run":
				o.levels[head[i]] = text
			}
		}
		if matches(o.levels, q.Where) {
			seen = append(seen, o)
		}
	}
	e, err := assemble(seen, q)
	if err != nil {
		return nil, err
	}
	e.Unit = unitOf(q.Response)
	return e, nil
}

// unitOf returns the unit of a metric, nothing for what is none.
func unitOf(name string) string {
	metric, _ := record.Describe(name)
	return metric.Unit
}

func matches(levels, where map[string]string) bool {
	for name, level := range where {
		if levels[fullName(name, levels)] != level {
			return false
		}
	}
	return true
}

// fullName returns the factor's name that a name or an alias stands for.
func fullName(name string, levels map[string]string) string {
	if _, ok := levels[name]; !ok && Aliases[name] != "" {
		return Aliases[name]
	}
	return name
}

// orNothing joins names, or says that there are none.
func orNothing(names []string) string {
	if len(names) == 0 {
		return "nothing (there is none)"
	}
	return strings.Join(names, ", ")
}

// assemble groups observations by the levels of the factors.
func assemble(seen []observation, q Question) (*Experiment, error) {
	if len(seen) == 0 {
		return nil, errors.New("no complete run fits what is asked for")
	}
	e := &Experiment{Response: q.Response}
	asked := map[string]bool{}
	for _, name := range q.Ignore {
		asked[fullName(name, seen[0].levels)] = true
	}
	for _, short := range q.Factors {
		f, err := factorOf(short, seen)
		if err != nil {
			return nil, err
		}
		if twin := twins[f.Name]; asked[twin] && together(seen, f.Name, twin) {
			return nil, fmt.Errorf("factors %s and %s always change together: name one of them", twin, f.Name)
		}
		asked[f.Name] = true
		e.Factors = append(e.Factors, f)
		e.Design.Factors = append(e.Design.Factors, short)
	}
	if err := checkOthers(seen, asked); err != nil {
		return nil, err
	}
	cells := map[string]int{}
	for _, o := range seen {
		var levels []int
		for _, f := range e.Factors {
			levels = append(levels, slices.Index(f.Levels, o.levels[f.Name]))
		}
		key := fmt.Sprint(levels)
		at, ok := cells[key]
		if !ok {
			at = len(e.Design.Cells)
			cells[key] = at
			e.Design.Cells = append(e.Design.Cells, factorial.Cell{Levels: levels})
		}
		if y := &e.Design.Cells[at].Y; q.Repetitions == 0 || len(*y) < q.Repetitions {
			*y = append(*y, o.y)
		}
	}
	return e, e.checkRepetitions(q.Repetitions)
}

// factorOf returns the factor that short stands for, with the levels that were seen.
func factorOf(short string, seen []observation) (Factor, error) {
	f := Factor{Short: short, Name: fullName(short, seen[0].levels)}
	for _, o := range seen {
		level, ok := o.levels[f.Name]
		if !ok {
			return f, fmt.Errorf("factor %s: a run has no such factor: expected one of %s", short, orNothing(slices.Sorted(maps.Keys(o.levels))))
		}
		if !slices.Contains(f.Levels, level) {
			f.Levels = append(f.Levels, level)
		}
	}
	slices.SortFunc(f.Levels, record.CompareLevels)
	if len(f.Levels) < 2 {
		return f, fmt.Errorf("factor %s has the one level %s in all runs: expected at least two", short, f.Levels[0])
	}
	return f, nil
}

// twins are two names for the same thing: where they change together, one of them is the factor.
var twins = map[string]string{"connections": "clients", "clients": "connections"}

// together reports whether every level of a factor comes with one level of another, and the other way round.
func together(seen []observation, name, other string) bool {
	to, from := map[string]string{}, map[string]string{}
	for _, o := range seen {
		a, b := o.levels[name], o.levels[other]
		if known, ok := to[a]; ok && known != b {
			return false
		}
		if known, ok := from[b]; ok && known != a {
			return false
		}
		to[a], from[b] = b, a
	}
	return true
}

// checkOthers refuses factors that vary and are not asked for: their effect would pass for error.
func checkOthers(seen []observation, asked map[string]bool) error {
	levels := map[string]map[string]bool{}
	for _, o := range seen {
		for name, level := range o.levels {
			if twin := twins[name]; !asked[name] && (!asked[twin] || !together(seen, name, twin)) {
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
			return fmt.Errorf("factor %s varies, too (%s): name it among the factors, hold it with --where %s=%s, or --ignore it", name, strings.Join(all, ", "), name, all[0])
		}
	}
	return nil
}

// checkRepetitions refuses combinations that were not measured equally often.
func (e *Experiment) checkRepetitions(wanted int) error {
	cells := slices.Clone(e.Design.Cells)
	sort.SliceStable(cells, func(i, j int) bool { return len(cells[i].Y) < len(cells[j].Y) })
	fewest, most := cells[0], cells[len(cells)-1]
	switch {
	case wanted > len(fewest.Y):
		return fmt.Errorf("%s has %d complete runs: expected %d", e.where(fewest), len(fewest.Y), wanted)
	case len(fewest.Y) != len(most.Y):
		return fmt.Errorf("%s has %d complete runs and %s has %d: expected as many everywhere (--repetitions %d takes the first of each)",
			e.where(fewest), len(fewest.Y), e.where(most), len(most.Y), len(fewest.Y))
	}
	return nil
}

// where names a combination of levels.
func (e *Experiment) where(c factorial.Cell) string {
	var parts []string
	for i, level := range c.Levels {
		parts = append(parts, e.Factors[i].Short+"="+e.Factors[i].Levels[level])
	}
	return strings.Join(parts, ", ")
}

// Shown returns the experiment with its responses in units for display, times in milliseconds.
func (e *Experiment) Shown() *Experiment {
	if e.Unit == record.OperationsPerSecond {
		shown := *e
		shown.Unit = "ops/s"
		return &shown
	}
	if e.Unit != record.Seconds {
		return e
	}
	shown := *e
	shown.Unit = "ms"
	shown.Design.Cells = nil
	for _, cell := range e.Design.Cells {
		c := factorial.Cell{Levels: cell.Levels}
		for _, y := range cell.Y {
			c.Y = append(c.Y, 1e3*y)
		}
		shown.Design.Cells = append(shown.Design.Cells, c)
	}
	return &shown
}
