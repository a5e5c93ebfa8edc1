package config

import (
	"cmp"
	"errors"
	"fmt"

	"mcmw/internal/route"
)

// maxPrefix is the length of the longest prefix, bytes: that of memcached's keys.
const maxPrefix = 250

var prefixSchema = map[string]any{"type": "string", "minLength": 1, "maxLength": maxPrefix}

// routesKind is the list of routes: prefixes with their pools, and the default pool.
var routesKind = list{
	what: "a route",
	accepts: "entries of the form {prefix: \"user:\", pool: NAME, reads: NAME, strip: true, accepts: reads}, and one " +
		"{default: NAME, reads: NAME, accepts: reads}; reads, strip and accepts are optional",
	properties: []property{
		{key: "prefix", schema: prefixSchema},
		{key: "pool", schema: prefixSchema},
		{key: "strip", schema: map[string]any{"type": "boolean"}},
		{key: "default", schema: prefixSchema},
		{key: "reads", schema: prefixSchema},
		{key: "accepts", schema: words(route.AcceptsNames.All()...)},
	},
	reset: func(c *Config) { c.Routes = route.Routes{} },
	add:   addRoute,
	get: func(c *Config) entries {
		shown := entries{}
		for _, p := range c.Routes.Prefixes {
			shown = append(shown, showRoute(p))
		}
		if c.Routes.Default != "" {
			shown = append(shown, showRoute(c.Routes.All()[0]))
		}
		return shown
	},
}.kind()

// showRoute returns the entry of p; without a prefix, p is the default.
func showRoute(p route.Prefix) entry {
	accepts := ""
	if p.Accepts != route.AcceptsAll {
		accepts = route.AcceptsNames.Of(p.Accepts)
	}
	of := fields{{"prefix", p.Prefix}, {"pool", p.Pool}, {"strip", p.Strip}}
	text := fmt.Sprintf("%q %s", p.Prefix, p.Pool)
	if p.Prefix == "" {
		of, text = fields{{"default", p.Pool}}, "default "+p.Pool
	}
	if p.Strip {
		text += " stripped"
	}
	if p.Reads != "" {
		text += ", reads " + p.Reads
	}
	if accepts != "" {
		text += ", accepts " + accepts
	}
	return entry{append(of, field{"reads", p.Reads}, field{"accepts", accepts}).set(), text}
}

// addRoute adds an entry of routes.
func addRoute(c *Config, texts map[string]string, origin Origin) error {
	p := route.Prefix{
		Prefix: texts["prefix"], Pool: texts["pool"], Strip: texts["strip"] == "true", Reads: texts["reads"],
	}
	var wrong error
	p.Accepts, wrong = route.AcceptsNames.Parse(cmp.Or(texts["accepts"], route.AcceptsNames.Of(route.AcceptsAll)))
	byDefault, strip := texts["default"], texts["strip"]
	switch {
	case wrong != nil:
		return fmt.Errorf("accepts %q", texts["accepts"])
	case byDefault != "" && (p.Prefix != "" || p.Pool != "" || strip != ""):
		return errors.New("has a default and a key other than reads and accepts")
	case byDefault != "" && c.Routes.Default != "":
		return fmt.Errorf("has a second default pool, %q", byDefault)
	case byDefault != "":
		c.Routes.Default, c.Routes.Reads, c.Routes.Accepts = byDefault, p.Reads, p.Accepts
		c.origins[route.RoutePath(-1)] = origin
		return nil
	case len(p.Prefix) > maxPrefix:
		return fmt.Errorf("has a prefix of %d bytes; a key has at most %d", len(p.Prefix), maxPrefix)
	case p.Prefix == "":
		return errors.New("has no key \"prefix\"")
	case p.Pool == "":
		return errors.New("has no key \"pool\"")
	case strip != "" && strip != "true" && strip != "false":
		return fmt.Errorf("has the strip %q", strip)
	}
	c.origins[route.RoutePath(len(c.Routes.Prefixes))] = origin
	c.Routes.Prefixes = append(c.Routes.Prefixes, p)
	return nil
}
