package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcmw/internal/shadow"
)

// shadowValue is an entry of the option shadows as the file has it.
type shadowValue struct {
	Of      string  `yaml:"of"`
	To      string  `yaml:"to"`
	Share   float64 `yaml:"share"`
	What    string  `yaml:"what"`
	Compare bool    `yaml:"compare"`
}

// The requests that are copied to a shadow.
const (
	shadowReads = "reads"
	shadowAll   = "all"
)

func (v *shadowValue) options() shadow.Options {
	return shadow.Options{Share: v.Share, All: v.What == shadowAll, Compare: v.Compare}
}

// shadowValues is the value of the option shadows.
type shadowValues []shadowValue

// String returns the value as messages about a change show it.
func (v shadowValues) String() string {
	var texts []string
	for _, s := range v {
		text := fmt.Sprintf("%s to %s (share %v, what %s", s.Of, s.To, s.Share, s.What)
		if !s.Compare {
			text += ", not compared"
		}
		texts = append(texts, text+")")
	}
	return strings.Join(texts, ", ")
}

// shadowsKind is the list of shadows.
var shadowsKind = kind{
	accepts: "entries of the form {of: POOL, to: POOL, share: 0.1}, optionally with what: reads or all, and compare: " +
		"true or false",
	reset: func(c *Config) { c.shadows = nil },
	set:   setShadow,
	get:   func(c *Config) any { return append(shadowValues{}, c.shadows...) },
	schema: entriesSchema(map[string]any{
		"of": labelSchema, "to": labelSchema,
		"share":   map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": 1},
		"what":    map[string]any{"enum": []string{shadowReads, shadowAll}},
		"compare": map[string]any{"type": "boolean"},
	}, map[string]any{"required": []string{"of", "to", "share"}}),
}

var labelSchema = map[string]any{"type": "string", "pattern": pattern(labelForm)}

// setShadow reads an entry of shadows.
func setShadow(c *Config, v given) error {
	if v.mapping == nil {
		return errors.New("is not a shadow")
	}
	fields, err := textFields(v.mapping, []string{"of", "to", "share", "what", "compare"})
	if err != nil {
		return err
	}
	for _, key := range []string{"of", "to", "share"} {
		if fields[key] == "" {
			return fmt.Errorf("has no key %q", key)
		}
	}
	s := shadowValue{Of: fields["of"], To: fields["to"], What: shadowReads, Compare: true}
	if s.Share, err = strconv.ParseFloat(fields["share"], 64); err != nil {
		return fmt.Errorf("has the share %q, which is not a number", fields["share"])
	}
	if what, ok := fields["what"]; ok {
		s.What = what
	}
	compare, ok := fields["compare"]
	switch {
	case s.What != shadowReads && s.What != shadowAll:
		return fmt.Errorf("has the key \"what\" with %q", s.What)
	case ok && !slices.Contains(toggleWords, compare):
		return fmt.Errorf("has the key \"compare\" with %q", compare)
	case ok:
		s.Compare = slices.Index(toggleWords, compare)%2 == 0
	}
	c.origins[fmt.Sprintf("shadows[%d]", len(c.shadows))] = v.origin
	c.shadows = append(slices.Clip(c.shadows), s)
	return nil
}

// isShadow reports whether the pool called name is a shadow.
func (c *Config) isShadow(name string) bool {
	return slices.ContainsFunc(c.shadows, func(s shadowValue) bool { return s.To == name })
}
