package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/follow"
	"mcmw/internal/middleware"
	"mcmw/internal/refusal"
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

const optionMigrations = "migrations"

// The keys that a migration copies.
const (
	copyAll    = "all"
	copyMissed = "missed"
)

var momentSchema = map[string]any{"type": "string", "format": "date-time"}

// migrationsKind is the list of migrations.
var migrationsKind = list{
	what: "a migration",
	accepts: "entries of the form {from: POOL, to: POOL, start: 2026-12-01T10:00:00Z, end: 2026-12-01T12:00:00Z}; " +
		"a warm-up has copy: missed, within: 0.01, and later end or back; a warm-up of some servers of a pool has " +
		"pool: POOL and cold: [SERVER] or zone: ZONE",
	properties: []property{
		{key: "from", schema: textSchema},
		{key: "to", schema: textSchema},
		{key: "start", schema: momentSchema},
		{key: "end", schema: momentSchema},
		{key: "copy", schema: map[string]any{"type": "string", "enum": []string{copyAll, copyMissed}}},
		{key: "within", schema: map[string]any{"type": []string{"number", "string"}}},
		{key: "back", schema: momentSchema},
		// Instead of from and to: a pool some of whose servers are filled, those in cold or in zone.
		{key: "pool", schema: textSchema},
		{
			key: "cold", isList: true,
			schema: map[string]any{"type": []string{"string", "array"}, "items": textSchema},
		},
		{key: "zone", schema: textSchema},
	},
	more: map[string]any{
		"required": []string{"start"},
		"anyOf": []any{
			map[string]any{"required": []string{"from", "to"}}, map[string]any{"required": []string{"pool"}},
		},
	},
	reset: func(c *Config) { c.Migrations = nil },
	add: func(c *Config, texts map[string]string, origin Origin) error {
		g, err := readMigration(texts)
		if err == nil {
			c.origins[fmt.Sprintf("migrations[%d]", len(c.Migrations))] = origin
			c.Migrations = append(c.Migrations, g)
		}
		return err
	},
	get: func(c *Config) entries {
		shown := entries{}
		for _, g := range c.Migrations {
			shown = append(shown, showMigration(g))
		}
		return shown
	},
}.kind()

// showMigration returns the entry of g.
func showMigration(g middleware.Migration) entry {
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	copied, within := "", ""
	if g.WarmsUp {
		copied, within = copyMissed, strconv.FormatFloat(g.Within, 'f', -1, 64)
	}
	inside := g.Cold != "" || g.Zone != ""
	of := fields{{"from", g.From}, {"to", g.To}}
	if inside {
		of, copied = nil, ""
	}
	of = append(of, field{"start", moment(g.Start)}, field{"end", moment(g.End)}, field{"copy", copied},
		field{"within", within}, field{"back", moment(g.Back)})
	text := fmt.Sprintf("%s to %s", g.From, g.To)
	if inside {
		text = fmt.Sprintf("zone %s of %s", g.Zone, g.From)
		var cold flow
		if g.Cold != "" {
			cold = strings.Split(g.Cold, ",")
			text = fmt.Sprintf("%s of %s", strings.Join(cold, ", "), g.From)
		}
		of = append(of, field{"pool", g.From}, field{"cold", cold}, field{"zone", g.Zone})
	}
	text += " from " + moment(g.Start)
	if !g.End.IsZero() {
		text += " until " + moment(g.End)
	}
	if copied != "" {
		text += " copying the keys that are " + copied
	}
	if within != "" {
		text += ", within " + within
	}
	if !g.Back.IsZero() {
		text += ", back at " + moment(g.Back)
	}
	return entry{of.set(), text}
}

// readMigration returns the migration of an entry.
func readMigration(texts map[string]string) (g middleware.Migration, err error) {
	g = middleware.Migration{From: texts["from"], To: texts["to"], Cold: texts["cold"], Zone: texts["zone"]}
	keys, what := []string{"from", "to", "start", "end"}, texts["copy"]
	switch inside := g.Cold != "" || g.Zone != ""; {
	case texts["pool"] != "" || inside:
		for _, key := range []string{"from", "to", "copy", "back"} {
			if texts[key] != "" {
				return g, fmt.Errorf("has %q together with pool, cold or zone, which fill servers of one pool", key)
			}
		}
		if !inside || g.Cold != "" && g.Zone != "" {
			return g, errors.New("has a pool, and not exactly one of cold, the servers to fill, and zone, the zone " +
				"to fill")
		}
		what, g.From, g.To = copyMissed, texts["pool"], texts["pool"]
		keys = []string{"pool", "start"}
	case what == copyMissed:
		keys = keys[:3] // a warm-up may get its end later
	}
	switch what {
	case "", copyAll:
		for _, key := range []string{"within", "back"} {
			if texts[key] != "" {
				return g, fmt.Errorf("has %s, which belongs to copy: %s", key, copyMissed)
			}
		}
	case copyMissed:
		g.WarmsUp, g.Within = true, middleware.DefaultWithin
		if text := texts["within"]; text != "" {
			if g.Within, err = strconv.ParseFloat(text, 64); err != nil {
				return g, fmt.Errorf("has the within %q, which is not a number", text)
			}
		}
	default:
		return g, fmt.Errorf("has the copy %q; accepted: %s, %s", what, copyAll, copyMissed)
	}
	for _, key := range keys {
		if texts[key] == "" {
			return g, fmt.Errorf("has no key %q", key)
		}
	}
	for i, key := range []string{"start", "end", "back"} {
		if texts[key] == "" {
			continue
		}
		moment, err := time.Parse(time.RFC3339, texts[key])
		if err != nil {
			return g, fmt.Errorf("has the %s %q, which is not a time with date and zone, such as %s", key, texts[key],
				"2026-12-01T10:00:00Z")
		}
		*[]*time.Time{&g.Start, &g.End, &g.Back}[i] = moment.UTC()
	}
	return g, nil
}

const (
	optionShadows = "shadows"
	optionFollow  = "follow"
)

// The requests that are copied to a shadow.
const (
	shadowReads = "reads"
	shadowAll   = "all"
)

// shadowsKind is the list of shadows. Until With, their pools have nothing but names.
var shadowsKind = list{
	what: "a shadow",
	accepts: "entries of the form {of: POOL, to: POOL, share: 0.1}, optionally with what: reads or all, and compare: " +
		"true or false",
	properties: []property{
		{key: "of", schema: labelSchema},
		{key: "to", schema: labelSchema},
		{key: "share", schema: map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": 1}},
		{key: "what", schema: words(shadowReads, shadowAll)},
		{key: "compare", schema: map[string]any{"type": "boolean"}},
	},
	required: []string{"of", "to", "share"},
	reset:    func(c *Config) { c.Shadows = nil },
	add:      addShadow,
	get: func(c *Config) entries {
		shown := entries{}
		for _, s := range c.Shadows {
			what := map[bool]string{false: shadowReads, true: shadowAll}[s.All]
			text := fmt.Sprintf("%s to %s (share %v, what %s", s.Of, s.To.Name, s.Share, what)
			if !s.Compare {
				text += ", not compared"
			}
			shown = append(shown, entry{fields{
				{"of", s.Of}, {"to", s.To.Name}, {"share", s.Share}, {"what", what}, {"compare", s.Compare},
			}, text + ")"})
		}
		return shown
	},
}.kind()

// addShadow adds an entry of shadows.
func addShadow(c *Config, texts map[string]string, origin Origin) (err error) {
	s := middleware.ShadowOptions{Of: texts["of"]}
	s.To.Name = texts["to"]
	what, compare := cmp.Or(texts["what"], shadowReads), slices.Index(toggleWords, cmp.Or(texts["compare"], "true"))
	s.All, s.Compare = what == shadowAll, compare%2 == 0
	if s.Share, err = strconv.ParseFloat(texts["share"], 64); err != nil {
		return fmt.Errorf("has the share %q, which is not a number", texts["share"])
	}
	if what != shadowReads && what != shadowAll {
		return fmt.Errorf("has the key \"what\" with %q", what)
	}
	if compare < 0 {
		return fmt.Errorf("has the key \"compare\" with %q", texts["compare"])
	}
	c.origins[fmt.Sprintf("%s[%d]", optionShadows, len(c.Shadows))] = origin
	c.Shadows = append(c.Shadows, s)
	return nil
}

// What is done about servers in doubt.
const (
	doubtReport = "report"
	doubtFlush  = "flush"
)

// followWords are what may be delivered.
var followWords = []string{follow.Deletes, follow.Purges, follow.All}

// followKind is the list of the pools that follow a pool. Until With, the pools have nothing but names.
var followKind = list{
	what: "a mapping",
	accepts: "entries of the form {pool: POOL, what: deletes, purges or all}, optionally with doubt: report or " +
		"flush, or hold: 1s to 1h",
	properties: []property{
		{key: "pool", schema: labelSchema},
		{key: "what", schema: words(followWords...)},
		{key: "doubt", schema: words(doubtReport, doubtFlush)},
		{key: "hold", schema: durationSchema},
	},
	required: []string{"pool", "what"},
	reset:    func(c *Config) { c.Follows = nil },
	add:      addFollow,
	get: func(c *Config) entries {
		shown := entries{}
		for _, f := range c.Follows {
			doubt, hold := map[bool]string{false: doubtReport, true: doubtFlush}[f.Flush], ""
			text := fmt.Sprintf("%s (what %s, doubt %s", f.To.Name, f.What, doubt)
			if f.Hold > 0 {
				hold = formatDuration(f.Hold)
				text += ", hold " + hold
			}
			shown = append(shown, entry{
				fields{{"pool", f.To.Name}, {"what", f.What}, {"doubt", doubt}, {"hold", hold}}.set(), text + ")",
			})
		}
		return shown
	},
}.kind()

// addFollow adds an entry of follow.
func addFollow(c *Config, texts map[string]string, _ Origin) (err error) {
	doubt := cmp.Or(texts["doubt"], doubtReport)
	f := middleware.FollowOptions{Options: follow.Options{What: texts["what"], Flush: doubt == doubtFlush}}
	f.To.Name = texts["pool"]
	if hold, ok := texts["hold"]; ok {
		if f.Hold, err = time.ParseDuration(hold); err != nil || f.Hold < time.Second || f.Hold > maxTime {
			return fmt.Errorf("has the key \"hold\" with %q", hold)
		}
	}
	switch {
	case !slices.Contains(followWords, f.What):
		return fmt.Errorf("has the key \"what\" with %q", f.What)
	case slices.ContainsFunc(c.Follows, func(g middleware.FollowOptions) bool { return g.To.Name == f.To.Name }):
		return fmt.Errorf("has the pool %q twice", f.To.Name)
	case f.Hold > 0 && f.What == follow.All:
		return errors.New("has the key \"hold\", and all is copied")
	case doubt != doubtReport && doubt != doubtFlush:
		return fmt.Errorf("has the key \"doubt\" with %q", doubt)
	}
	c.Follows = append(c.Follows, f)
	return nil
}

// isRecipient reports whether the pool called name is a shadow, or follows another one.
func (c *Config) isRecipient(name string) bool {
	return slices.ContainsFunc(c.Shadows, func(s middleware.ShadowOptions) bool { return s.To.Name == name }) ||
		slices.ContainsFunc(c.pools, func(p *Config) bool {
			return slices.ContainsFunc(p.Follows, func(f middleware.FollowOptions) bool { return f.To.Name == name })
		})
}

// addRecipients adds the recipients to o. all has the settings of all pools.
func (c *Config) addRecipients(o *middleware.Options, all map[string]middleware.PoolOptions) {
	o.Shadows, o.Follows = slices.Clone(c.Shadows), nil
	for i := range o.Shadows {
		o.Shadows[i].To = all[o.Shadows[i].To.Name]
	}
	for _, p := range c.pools {
		for _, f := range p.Follows {
			f.Of, f.To, f.Memory = p.name, all[f.To.Name], p.FollowMemory
			o.Follows = append(o.Follows, f)
		}
	}
}

// checkNames returns the problems of names of pools in shadows and follow that are not among names.
func (c *Config) checkNames(names []string) (problems Problems) {
	const unknown = "the pool %q is unknown; accepted: one of %s"
	for i, s := range c.Shadows {
		for _, name := range []string{s.Of, s.To.Name} {
			if !slices.Contains(names, name) {
				problems = append(problems, c.problems(refusal.Of(fmt.Sprintf("%s[%d]", optionShadows, i), unknown,
					name, strings.Join(names, ", ")))...)
			}
		}
	}
	for _, p := range c.pools {
		for _, f := range p.Follows {
			if !slices.Contains(names, f.To.Name) {
				problems = append(problems, p.problem(optionFollow, unknown, f.To.Name, strings.Join(names, ", ")))
			}
		}
	}
	return problems
}
