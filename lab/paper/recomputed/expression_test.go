package recomputed

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"mcmw/lab/factorial"
	"mcmw/lab/queueing"
)

// programs are the compiled expressions, by their text.
var programs sync.Map

// run evaluates an expression. printed converts the printed numbers that it uses.
func (e *evaluation) run(text string, printed func([]float64) any) (any, error) {
	program, ok := programs.Load(text)
	if !ok {
		compiled, err := expr.Compile(text)
		if err != nil {
			return nil, err
		}
		program, _ = programs.LoadOrStore(text, compiled)
	}
	environment := e.environment(printed)
	maps.Copy(environment, e.variables)
	return expr.Run(program.(*vm.Program), environment)
}

// evaluate evaluates an expression over plain numbers.
func (e *evaluation) evaluate(text string) (any, error) {
	return e.run(text, func(values []float64) any { return values })
}

// number is evaluate for an expression whose value is a number.
func (e *evaluation) number(text string) (float64, error) {
	v, err := e.evaluate(text)
	if err != nil {
		return 0, err
	}
	return toFloat(v)
}

// figures evaluates an expression whose value is one or more printed figures.
func (e *evaluation) figures(text string) ([]printedFigure, error) {
	v, err := e.run(text, func(values []float64) any { return same(values) })
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case printedFigure:
		return []printedFigure{v}, nil
	case []printedFigure:
		if len(v) > 0 {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s is %T: expected a printed figure, or a list of them", text, v)
}

// list is evaluate for an expression whose value is a list.
func (e *evaluation) list(text string) ([]any, error) {
	v, err := e.evaluate(text)
	if err != nil {
		return nil, err
	}
	of := reflect.ValueOf(v)
	if of.Kind() != reflect.Slice {
		return nil, fmt.Errorf("%s is %T: expected a list", text, v)
	}
	items := make([]any, of.Len())
	for i := range items {
		items[i] = of.Index(i).Interface()
	}
	return items, nil
}

var braces = regexp.MustCompile(`\{[^{}]*\}`)

// fill replaces the expressions in braces in a text by their values.
func (e *evaluation) fill(text string) (filled string, err error) {
	filled = braces.ReplaceAllStringFunc(text, func(part string) string {
		v, failed := e.evaluate(part[1 : len(part)-1])
		if failed != nil {
			err = failed
		}
		if number, ok := v.(float64); ok {
			return strconv.FormatFloat(number, 'f', -1, 64)
		}
		return fmt.Sprint(v)
	})
	return filled, err
}

// environment returns the names that expressions can use; see Recomputation.
func (e *evaluation) environment(printed func([]float64) any) map[string]any {
	r := e.report
	environment := map[string]any{
		"row": func(at ...any) (any, error) {
			name := e.table
			if len(at) == 2 {
				name = fmt.Sprint(at[0])
			}
			t, ok := r.find(name)
			i, isNumber := at[len(at)-1].(int)
			if !ok || !isNumber || i >= len(t.Rows) {
				return nil, fmt.Errorf("row %v of table %q: expected one that exists", at, name)
			}
			return printed(t.row(i)), nil
		},
		"text": func(name string) (any, error) {
			v := r.Text(name)
			if math.IsNaN(v) {
				return nil, fmt.Errorf("text %q: expected a number of the report's text", name)
			}
			if figures, ok := printed([]float64{v}).([]printedFigure); ok {
				return figures[0], nil
			}
			return v, nil
		},
		"networks":  r.Networks,
		"published": func(design string) (Effects, error) { d, err := r.design(design); return d.Published, err },
		"responses": func(design string, unit any) ([]printedFigure, error) {
			d, err := r.design(design)
			if err != nil {
				return nil, err
			}
			u, err := toFloat(unit)
			var all []printedFigure
			for _, cell := range d.Cells {
				for _, y := range cell.Y {
					all = append(all, printedFigure{y, u})
				}
			}
			return all, err
		},
		"analysis": r.analysis,
		"term": func(a *factorial.Analysis, name string) (factorial.Term, error) {
			t, ok := a.Term(name)
			if !ok {
				return t, fmt.Errorf("no effect %s", name)
			}
			return t, nil
		},
		"mm1": queueing.NewMM1,
		"mmm": queueing.NewMMm,
		"solve": func(n Network) (queueing.Solution, error) {
			return queueing.Network{Stations: n.Stations}.Solve(n.Clients)
		},
		"sqrt": math.Sqrt,
		"unit": func(v, unit any) (printedFigure, error) {
			value, err := toFloat(v)
			u, err2 := toFloat(unit)
			return printedFigure{value, u}, errors.Join(err, err2)
		},
		"place": func(v any, digit int) (float64, error) {
			value, err := toFloat(v)
			return math.Pow(10, math.Floor(math.Log10(math.Abs(value)))-float64(digit-1)), err
		},
		"same": func(figures []printedFigure) []printedFigure {
			values := make([]float64, len(figures))
			for i, f := range figures {
				values[i] = f.Value
			}
			return same(values)
		},
	}
	if t, ok := r.find(e.table); ok {
		rows := make([]string, len(t.Rows))
		for i, row := range t.Rows {
			rows[i] = string(row.Label)
		}
		environment["columns"], environment["rows"] = t.Columns, rows
		environment["column"] = func(j int) any { return printed(t.column(j)) }
		environment["interval"] = func(i, j int) any { return printed(intervalOf(&t.Rows[i].Values[j])) }
	}
	return environment
}

// same returns printed figures that all have the same number of decimals.
func same(values []float64) []printedFigure {
	unit := math.Pow10(-decimals(values...))
	figures := make([]printedFigure, len(values))
	for i, v := range values {
		figures[i] = printedFigure{v, unit}
	}
	return figures
}

// toFloat returns the value of a number or of a printed figure.
func toFloat(v any) (float64, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case int:
		return float64(v), nil
	case printedFigure:
		return v.Value, nil
	}
	return 0, fmt.Errorf("%v is %T: expected a number", v, v)
}

func (r *Report) design(name string) (Design, error) {
	for _, d := range r.Designs {
		if d.Name == name {
			return d, nil
		}
	}
	return Design{}, fmt.Errorf("no design %q", name)
}

// analysis analyses a design with its responses, or with the responses and the confidence in more. Responses are in the order of the cells.
func (r *Report) analysis(name string, more ...any) (*factorial.Analysis, error) {
	key := fmt.Sprint(name, more)
	if a, ok := r.analyses[key]; ok {
		return a, nil
	}
	d, err := r.design(name)
	if err != nil {
		return nil, err
	}
	design, options := factorial.Design{Factors: d.Factors, Cells: d.Cells}, factorial.Options{Model: d.Model}
	if len(more) == 2 {
		y, ok := more[0].([]float64)
		if options.Confidence, err = toFloat(more[1]); err != nil || !ok {
			return nil, fmt.Errorf("analysis: expected a design, responses and a confidence, got %T and %T", more[0], more[1])
		}
		design.Cells = nil
		for _, cell := range d.Cells {
			n := len(cell.Y)
			design.Cells = append(design.Cells, factorial.Cell{Levels: cell.Levels, Y: y[:n:n]})
			y = y[n:]
		}
	}
	a, err := factorial.Analyze(design, options)
	if err == nil {
		r.analyses[key] = a
	}
	return a, err
}
