package record

import (
	"maps"
	"slices"
	"strings"
)

// Point is one combination of factor levels with its runs, in the order of their repetitions.
type Point struct {
	Factors map[string]string
	Runs    []Run // including failed ones
}

// Points groups runs by the levels of all factors, in the order of the runs.
func Points(runs []Run) []Point {
	var points []Point
	places := map[string]int{}
	for _, run := range runs {
		key := Label(run.Factors, slices.Sorted(maps.Keys(run.Factors)))
		i, ok := places[key]
		if !ok {
			i = len(points)
			places[key] = i
			points = append(points, Point{Factors: run.Factors})
		}
		points[i].Runs = append(points[i].Runs, run)
	}
	return points
}

// Complete returns the point's complete runs.
func (p Point) Complete() []Run {
	return slices.DeleteFunc(slices.Clone(p.Runs), func(run Run) bool { return run.State != Complete })
}

// Values returns the values of a metric at a source in the complete runs that have it.
func (p Point) Values(source, metric string) []float64 {
	var values []float64
	for _, run := range p.Complete() {
		if v, ok := run.Value(source, metric); ok {
			values = append(values, v)
		}
	}
	return values
}

// Varying returns the names of the factors that don't have the same level in all runs, in alphabetical order. A factor that only some runs
// have varies. Factors that depend only on the case are left out, and middlewares if it depends only on the system.
func Varying(runs []Run) []string {
	all := varying(runs)
	follows := func(name, from string) bool { return slices.Contains(all, from) && Follows(runs, name, from) }
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return name != "case" && follows(name, "case") || name == "middlewares" && follows(name, "system")
	})
}

// HasLevels reports whether the wanted levels are among all.
func HasLevels(all, wanted map[string]string) bool {
	for factor, level := range wanted {
		if all[factor] != level {
			return false
		}
	}
	return true
}

// Follows reports whether the level of a factor depends only on the level of another one.
func Follows(runs []Run, factor, from string) bool {
	levels := map[string]string{}
	for _, run := range runs {
		level, ok := levels[run.Factors[from]]
		if ok && level != run.Factors[factor] {
			return false
		}
		levels[run.Factors[from]] = run.Factors[factor]
	}
	return true
}

// varying returns the factors that don't have the same level in all runs.
func varying(runs []Run) []string {
	all := map[string]string{}
	for _, run := range runs {
		maps.Copy(all, run.Factors)
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return !slices.ContainsFunc(runs, func(run Run) bool { level, ok := run.Factors[name]; return !ok || level != all[name] })
	})
}

// Constant returns the factors that have the same level in all runs.
func Constant(runs []Run) map[string]string {
	constant := map[string]string{}
	if len(runs) == 0 {
		return constant
	}
	maps.Copy(constant, runs[0].Factors)
	for _, name := range varying(runs) {
		delete(constant, name)
	}
	return constant
}

// Label returns the levels of the named factors as text: "workers=64, connections=96". A factor without a level is left out.
func Label(factors map[string]string, names []string) string {
	var parts []string
	for _, name := range names {
		if level, ok := factors[name]; ok {
			parts = append(parts, name+"="+level)
		}
	}
	return strings.Join(parts, ", ")
}
