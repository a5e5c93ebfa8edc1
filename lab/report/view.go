package report

import (
	"fmt"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/record"
)

// View assigns factors to the parts of a figure.
type View struct {
	X       string   // along the x axis
	Series  string   // one line for each level; "": one line
	Panels  []string // one panel for each combination of levels
	Command string   // counts only requests of this command: get, set or multiget; "": all
}

// Panel is a panel of a figure.
type Panel struct {
	Name  string // its levels; "" if there is one panel
	Lines []Line
}

// Line is a line of a panel. Its points have ascending x.
type Line struct {
	Name   string // such as "64 workers"; "" if there is one line
	Level  string // of the factor View.Series
	Number int    // of the level, the same in every panel
	Points []frame.Point
	Saturation
}

// axisOrder lists the preferred factors of the x axis, best first. All other factors come after them.
var axisOrder = []string{
	"case", "clients", "rate", "keys_per_get", "value_size", "servers", "workers",
	"server_threads", "group_size", "server_persistence", "depth", "pipeline", "key_pattern", "ratio",
}

// seriesOrder lists the preferred factors of the lines.
var seriesOrder = []string{
	"system", "server", "workers", "depth", "middlewares", "servers", "replicas", "sharded",
	"pool", "server_pinning", "server_memory",
}

// labels are the names of factors in figures and tables, where they differ from those in records.
var labels = map[string]string{
	"keys_per_get": "keys per GET", "value_size": "value size (B)",
	"think_time": "think time (s)", "rate": "rate (ops/s)", "ratio": "SET:GET ratio", "key_pattern": "key pattern",
}

// label returns the name of a factor in figures and tables.
func label(factor string) string {
	if l, ok := labels[factor]; ok {
		return l
	}
	return strings.ReplaceAll(factor, "_", " ")
}

// levelName returns "64 workers", "ratio 1:9", "sharded".
func levelName(factor, level string) string {
	switch {
	case level == "":
		return "no " + label(factor)
	case factor == "server" || factor == "system" || factor == "case":
		return level
	case level == "true":
		return label(factor)
	case level == "false":
		return "not " + label(factor)
	case factor == "workers" || factor == "servers" || factor == "middlewares" || factor == "replicas" ||
		factor == "clients":
		if level == "1" {
			return level + " " + strings.TrimSuffix(factor, "s")
		}
		return level + " " + factor
	default:
		return strings.TrimSuffix(strings.TrimSuffix(label(factor), " ratio"), " (B)") + " " + level
	}
}

// levelNames returns the names of the levels of some factors.
func levelNames(factors []string, levels map[string]string) string {
	var names []string
	for _, f := range factors {
		names = append(names, levelName(f, levels[f]))
	}
	return strings.Join(names, ", ")
}

// Varied returns the factors with more than one level. Of factors that always change together, such as workers and
// depth, it returns only the preferred one.
func (d *Data) Varied() []string {
	var varied []string
	for _, f := range byPreference(d.Factors(), axisOrder) {
		if len(d.Levels(f)) > 1 && !slices.ContainsFunc(varied, func(other string) bool {
			return record.Same(d.Runs(), f, other)
		}) {
			varied = append(varied, f)
		}
	}
	return varied
}

// byPreference returns names in this order, followed by the other names.
func byPreference(names, order []string) []string {
	first := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !slices.Contains(names, name) })
	rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(order, name) })
	return append(first, rest...)
}

// Choose completes a view from the factors of the record. It returns an error for a factor that does not exist.
func (d *Data) Choose(v View) (View, error) {
	all := d.Factors()
	for _, f := range append([]string{v.X, v.Series}, v.Panels...) {
		if f != "" && !slices.Contains(all, f) {
			return v, fmt.Errorf("there is no factor %q: expected one of %s", f, strings.Join(all, ", "))
		}
	}
	rest := slices.DeleteFunc(d.Varied(), func(f string) bool {
		return slices.ContainsFunc(append([]string{v.X, v.Series}, v.Panels...),
			func(used string) bool { return used != "" && record.Same(d.Runs(), f, used) })
	})
	take := func(order []string) string {
		ordered := byPreference(rest, order)
		if len(ordered) == 0 {
			return ""
		}
		rest = slices.DeleteFunc(rest, func(f string) bool { return f == ordered[0] })
		return ordered[0]
	}
	if v.X == "" && d.Quality != nil {
		// The x axis is the load that the quality of service limits.
		if at := slices.IndexFunc(rest, func(f string) bool { return record.Same(d.Runs(), f, d.Quality.Over) }); at >=
			0 {
			v.X = rest[at]
			rest = slices.Delete(rest, at, at+1)
		}
	}
	if v.X == "" {
		v.X = take(axisOrder)
	}
	if v.X == "" && len(all) > 0 {
		v.X = byPreference(all, axisOrder)[0]
	}
	if v.Series == "" {
		v.Series = take(seriesOrder)
	}
	v.Panels = slices.Clone(v.Panels)
	for _, f := range rest {
		if !record.Follows(d.Runs(), f, append([]string{v.X, v.Series}, v.Panels...)...) {
			v.Panels = append(v.Panels, f)
		}
	}
	return v, nil
}

// Panels arranges the points as panels and lines, and finds the saturation of each line.
func (d *Data) Panels(v View) []Panel {
	var panels []Panel
	series := d.Levels(v.Series)
	for _, l := range d.Lines(v.X, append(slices.Clone(v.Panels), v.Series)) {
		name := levelNames(v.Panels, l.Levels)
		if n := len(panels); n == 0 || panels[n-1].Name != name {
			panels = append(panels, Panel{Name: name})
		}
		line := Line{Points: l.Points, Level: l.Levels[v.Series]}
		if line.Number = slices.Index(series, line.Level); v.Series != "" && len(series) > 1 {
			line.Name = levelName(v.Series, line.Level)
		}
		lines := &panels[len(panels)-1].Lines
		*lines = append(*lines, line)
	}
	for _, panel := range panels {
		for i := range panel.Lines {
			l := &panel.Lines[i]
			if l.Saturation = saturate(l.Points, v); l.Highest >= 0 {
				l.Bottleneck = d.Limit(l.Points[l.Highest])
			}
		}
	}
	return panels
}

// numeric reports whether all levels of the x axis are numbers.
func (d *Data) numeric(v View) bool {
	return !slices.ContainsFunc(d.Levels(v.X), func(l string) bool { _, ok := record.Level(l).Number(); return !ok })
}

// place returns the position of a point on the x axis: the number of its level, or else the level's index.
func (d *Data) place(v View, p frame.Point) float64 {
	if n, ok := p.Number(v.X); ok && d.numeric(v) {
		return n
	}
	return float64(slices.Index(d.Levels(v.X), p.Levels[v.X]))
}
