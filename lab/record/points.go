package record

import (
	"maps"
	"slices"
	"strings"
)

// Varying returns the names of the factors that don't have the same level in all runs, in alphabetical order. A factor
// that only some runs have varies. Factors that depend only on the case are left out, and middlewares if it depends
// only on the system.
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
		return !slices.ContainsFunc(runs,
			func(run Run) bool { level, ok := run.Factors[name]; return !ok || level != all[name] })
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

// Label returns the levels of the named factors as text: "workers=64, connections=96". A factor without a level is left
// out.
func Label(factors map[string]string, names []string) string {
	var parts []string
	for _, name := range names {
		if level, ok := factors[name]; ok {
			parts = append(parts, name+"="+level)
		}
	}
	return strings.Join(parts, ", ")
}
