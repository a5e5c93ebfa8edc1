package config

import (
	"regexp"
	"strings"
)

// Schema returns a JSON schema of the option's values in a YAML file, for files that contain them, such as a chart's
// values. A value that it accepts may still be refused: a schema does not compare values with units.
func (o *Option) Schema() map[string]any { return o.kind.schema() }

// Range returns the minimum and maximum of a size, in bytes, or of a time, in nanoseconds, which a schema can't
// compare; ok is false for other options.
func (o *Option) Range() (least, most int64, ok bool) {
	switch k := o.kind.(type) {
	case size:
		return int64(k.min), int64(k.max), true
	case duration:
		return int64(k.min), int64(k.max), true
	}
	return 0, 0, false
}

// pattern returns a regular expression that matches texts that match one of the alternatives as a whole.
func pattern(alternatives ...string) string { return "^(" + strings.Join(alternatives, "|") + ")$" }

func (k count) schema() map[string]any {
	s := map[string]any{"type": "integer", "minimum": k.min, "maximum": k.max}
	if k.word != "" {
		s["type"], s["pattern"] = []string{"integer", "string"}, pattern(k.word)
	}
	return s
}

func (k size) schema() map[string]any {
	return map[string]any{
		"type": []string{"integer", "string"}, "minimum": k.min, "maximum": k.max, "pattern": pattern("[0-9]+[kmgKMG]"),
	}
}

func (k duration) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": pattern(`([0-9]+(\.[0-9]+)?(us|ms|s|m|h))+`)}
}

func (k toggle) schema() map[string]any {
	values := []any{true, false}
	for _, word := range toggleWords[:6] {
		values = append(values, word)
	}
	return map[string]any{"enum": values}
}

func (k choice) schema() map[string]any {
	return map[string]any{"type": "string", "enum": k.words}
}

func (k fraction) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": pattern("1/[1-9][0-9]*", regexp.QuoteMeta(fractionOff))}
}

func (k text) schema() map[string]any {
	s := map[string]any{"type": "string"}
	if k.form != "" {
		s["pattern"] = pattern(k.form, k.off, "")
	}
	return s
}

func (addresses) schema() map[string]any { return listSchema() }
func (servers) schema() map[string]any   { return listSchema() }

func listSchema() map[string]any {
	return map[string]any{
		"type":  []string{"array", "string"},
		"items": map[string]any{"type": []string{"string", "object"}},
	}
}
