package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/middleware"
)

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
