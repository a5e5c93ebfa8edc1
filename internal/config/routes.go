package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcmw/internal/route"
)

// routeValue is an entry of the option routes as the file has it: a prefix and its pool, or the default pool.
type routeValue struct {
	Prefix  string `yaml:"prefix,omitempty"`
	Pool    string `yaml:"pool,omitempty"`
	Strip   bool   `yaml:"strip,omitempty"`
	Default string `yaml:"default,omitempty"`
	Reads   string `yaml:"reads,omitempty"`
	Accepts string `yaml:"accepts,omitempty"`
}

// routeValues is the value of the option routes.
type routeValues []routeValue

// String returns the value as messages about a change show it.
func (v routeValues) String() string {
	var texts []string
	for _, r := range v {
		text := "default " + r.Default
		if r.Default == "" {
			text = fmt.Sprintf("%q %s%s", r.Prefix, r.Pool, map[bool]string{true: " stripped"}[r.Strip])
		}
		if r.Reads != "" {
			text += ", reads " + r.Reads
		}
		if r.Accepts != "" {
			text += ", accepts " + r.Accepts
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// routesKind is the list of routes.
var routesKind = kind{
	accepts: "entries of the form {prefix: \"user:\", pool: NAME, reads: NAME, strip: true, accepts: reads}, and one " +
		"{default: NAME, reads: NAME, accepts: reads}; reads, strip and accepts are optional",
	reset: func(c *Config) { c.Routes = route.Routes{} },
	set:   setRoute,
	get: func(c *Config) any {
		values := routeValues{}
		accepts := func(a route.Accepts) string {
			if a == route.AcceptsAll {
				return ""
			}
			return route.AcceptsNames.Of(a)
		}
		for _, p := range c.Routes.Prefixes {
			values = append(values, routeValue{
				Prefix: p.Prefix, Pool: p.Pool, Strip: p.Strip, Reads: p.Reads, Accepts: accepts(p.Accepts),
			})
		}
		if c.Routes.Default != "" {
			values = append(values, routeValue{
				Default: c.Routes.Default, Reads: c.Routes.Reads, Accepts: accepts(c.Routes.Accepts),
			})
		}
		return values
	},
	schema: entriesSchema(map[string]any{
		"prefix": prefixSchema, "pool": prefixSchema, "strip": map[string]any{"type": "boolean"},
		"default": prefixSchema, "reads": prefixSchema,
		"accepts": map[string]any{"enum": route.AcceptsNames.All()},
	}, nil),
}

// maxPrefix is the length of the longest prefix, bytes: that of memcached's keys.
const maxPrefix = 250

var prefixSchema = map[string]any{"type": "string", "minLength": 1, "maxLength": maxPrefix}

// entriesSchema is the schema of a list of mappings with these properties.
func entriesSchema(properties, more map[string]any) map[string]any {
	items := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	maps.Copy(items, more)
	return map[string]any{"type": "array", "items": items}
}

// setRoute reads an entry of routes.
func setRoute(c *Config, v given) error {
	if v.mapping == nil {
		return errors.New("is not a route")
	}
	fields, err := textFields(v.mapping, []string{"prefix", "pool", "strip", "default", "reads", "accepts"})
	prefix, pool, strip, byDefault, reads := fields["prefix"], fields["pool"], fields["strip"], fields["default"],
		fields["reads"]
	accepts, wrong := route.AcceptsNames.Parse(cmp.Or(fields["accepts"], route.AcceptsNames.Of(route.AcceptsAll)))
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return fmt.Errorf("accepts %q", fields["accepts"])
	case byDefault != "" && (prefix != "" || pool != "" || strip != ""):
		return errors.New("has a default and a key other than reads and accepts")
	case byDefault != "" && c.Routes.Default != "":
		return fmt.Errorf("has a second default pool, %q", byDefault)
	case byDefault != "":
		c.Routes.Default, c.Routes.Reads, c.Routes.Accepts = byDefault, reads, accepts
		c.origins["routes[default]"] = v.origin
		return nil
	case len(prefix) > maxPrefix:
		return fmt.Errorf("has a prefix of %d bytes; a key has at most %d", len(prefix), maxPrefix)
	case prefix == "":
		return errors.New("has no key \"prefix\"")
	case pool == "":
		return errors.New("has no key \"pool\"")
	case strip != "" && strip != "true" && strip != "false":
		return fmt.Errorf("has the strip %q", strip)
	}
	c.origins[fmt.Sprintf("routes[%d]", len(c.Routes.Prefixes))] = v.origin
	c.Routes.Prefixes = append(slices.Clip(c.Routes.Prefixes),
		route.Prefix{Prefix: prefix, Pool: pool, Strip: strip == "true", Reads: reads, Accepts: accepts})
	return nil
}
