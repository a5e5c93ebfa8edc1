package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/middleware"
	"mcmw/internal/userinput"
)

const optionMigrations = "migrations"

// migrationValue is an entry of the option migrations as the file has it.
type migrationValue struct {
	From  string `yaml:"from,omitempty"`
	To    string `yaml:"to,omitempty"`
	Start string `yaml:"start"`
	End   string `yaml:"end,omitempty"`
	// Copy is copyAll or copyMissed; Within and Back belong to copyMissed.
	Copy   string `yaml:"copy,omitempty"`
	Within string `yaml:"within,omitempty"`
	Back   string `yaml:"back,omitempty"`
	// Pool, instead of From and To, is a pool some of whose servers are filled: Cold, or those in Zone.
	Pool string   `yaml:"pool,omitempty"`
	Cold []string `yaml:"cold,omitempty,flow"`
	Zone string   `yaml:"zone,omitempty"`
}

// The keys that a migration copies.
const (
	copyAll    = "all"
	copyMissed = "missed"
)

// migrationValues is the value of the option migrations.
type migrationValues []migrationValue

// String returns the value as messages about a change show it.
func (v migrationValues) String() string {
	var texts []string
	for _, g := range v {
		text := fmt.Sprintf("%s to %s from %s", g.From, g.To, g.Start)
		switch {
		case g.Zone != "":
			text = fmt.Sprintf("zone %s of %s from %s", g.Zone, g.Pool, g.Start)
		case g.Pool != "":
			text = fmt.Sprintf("%s of %s from %s", strings.Join(g.Cold, ", "), g.Pool, g.Start)
		}
		if g.End != "" {
			text += " until " + g.End
		}
		switch {
		case g.Pool != "":
			text += ", within " + g.Within
		case g.Copy != "":
			text += fmt.Sprintf(" copying the keys that are %s, within %s", g.Copy, g.Within)
		}
		if g.Back != "" {
			text += ", back at " + g.Back
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// migrationsKind is the list of migrations.
var migrationsKind = kind{
	accepts: "entries of the form {from: POOL, to: POOL, start: 2026-12-01T10:00:00Z, end: 2026-12-01T12:00:00Z}; " +
		"a warm-up has copy: missed, within: 0.01, and later end or back; a warm-up of some servers of a pool has " +
		"pool: POOL and cold: [SERVER] or zone: ZONE",
	reset: func(c *Config) { c.Migrations = nil },
	set:   setMigration,
	get:   getMigrations,
	schema: entriesSchema(map[string]any{
		"from": textSchema, "to": textSchema, "start": momentSchema, "end": momentSchema, "back": momentSchema,
		"copy":   map[string]any{"type": "string", "enum": []string{copyAll, copyMissed}},
		"within": map[string]any{"type": []string{"number", "string"}},
		"pool":   textSchema, "zone": textSchema,
		"cold": map[string]any{"type": []string{"string", "array"}, "items": textSchema},
	}, map[string]any{
		"required": []string{"start"},
		"anyOf": []any{
			map[string]any{"required": []string{"from", "to"}}, map[string]any{"required": []string{"pool"}},
		},
	}),
}

var (
	textSchema   = map[string]any{"type": "string", "minLength": 1}
	momentSchema = map[string]any{"type": "string", "format": "date-time"}
)

// getMigrations returns the entries of migrations.
func getMigrations(c *Config) any {
	values := migrationValues{}
	for _, g := range c.Migrations {
		v := migrationValue{From: g.From, To: g.To, Start: g.Start.Format(time.RFC3339)}
		if !g.End.IsZero() {
			v.End = g.End.Format(time.RFC3339)
		}
		if g.WarmsUp {
			v.Copy, v.Within = copyMissed, strconv.FormatFloat(g.Within, 'f', -1, 64)
		}
		if g.Cold != "" || g.Zone != "" {
			v.Pool, v.Zone, v.From, v.To, v.Copy = g.From, g.Zone, "", "", ""
			if g.Cold != "" {
				v.Cold = strings.Split(g.Cold, ",")
			}
		}
		if !g.Back.IsZero() {
			v.Back = g.Back.Format(time.RFC3339)
		}
		values = append(values, v)
	}
	return values
}

// setMigration reads an entry of migrations.
func setMigration(c *Config, v given) error {
	if v.mapping == nil {
		return errors.New("is not a migration")
	}
	mapping, cold, err := coldServers(v.mapping)
	if err != nil {
		return err
	}
	keys := []string{"from", "to", "start", "end"}
	fields, err := textFields(mapping, append(keys, "copy", "within", "back", "pool", "zone"))
	if err != nil {
		return err
	}
	g := middleware.Migration{From: fields["from"], To: fields["to"], Cold: cold, Zone: fields["zone"]}
	what := fields["copy"]
	switch inside := cold != "" || g.Zone != ""; {
	case fields["pool"] != "" || inside:
		for _, key := range []string{"from", "to", "copy", "back"} {
			if fields[key] != "" {
				return fmt.Errorf("has %q together with pool, cold or zone, which fill servers of one pool", key)
			}
		}
		if !inside || cold != "" && g.Zone != "" {
			return errors.New("has a pool, and not exactly one of cold, the servers to fill, and zone, the zone to " +
				"fill")
		}
		what, g.From, g.To = copyMissed, fields["pool"], fields["pool"]
		keys = []string{"pool", "start"}
	case what == copyMissed:
		keys = keys[:3] // a warm-up may get its end later
	}
	switch what {
	case "", copyAll:
		for _, key := range []string{"within", "back"} {
			if fields[key] != "" {
				return fmt.Errorf("has %s, which belongs to copy: %s", key, copyMissed)
			}
		}
	case copyMissed:
		g.WarmsUp, g.Within = true, middleware.DefaultWithin
		if text := fields["within"]; text != "" {
			if g.Within, err = strconv.ParseFloat(text, 64); err != nil {
				return fmt.Errorf("has the within %q, which is not a number", text)
			}
		}
	default:
		return fmt.Errorf("has the copy %q; accepted: %s, %s", what, copyAll, copyMissed)
	}
	for _, key := range keys {
		if fields[key] == "" {
			return fmt.Errorf("has no key %q", key)
		}
	}
	for key, at := range map[string]*time.Time{"start": &g.Start, "end": &g.End, "back": &g.Back} {
		if fields[key] == "" {
			continue
		}
		moment, err := time.Parse(time.RFC3339, fields[key])
		if err != nil {
			return fmt.Errorf("has the %s %q, which is not a time with date and zone, such as 2026-12-01T10:00:00Z",
				key, fields[key])
		}
		*at = moment.UTC()
	}
	c.origins[fmt.Sprintf("migrations[%d]", len(c.Migrations))] = v.origin
	c.Migrations = append(slices.Clip(c.Migrations), g)
	return nil
}

// coldServers returns the names under the key cold of n, separated by commas, and n without that key.
func coldServers(n *yaml.Node) (rest *yaml.Node, names string, err error) {
	without := *n
	without.Content = nil
	for i := 0; i < len(n.Content); i += 2 {
		value := userinput.Resolve(n.Content[i+1])
		if n.Content[i].Value != "cold" {
			without.Content = append(without.Content, n.Content[i], n.Content[i+1])
			continue
		}
		all := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			all = value.Content
		}
		for _, name := range all {
			name = userinput.Resolve(name)
			if name.Kind != yaml.ScalarNode || userinput.IsNull(name) || name.Value == "" ||
				strings.Contains(name.Value, ",") {
				return nil, "", errors.New("has a cold that is not a list of names of servers")
			}
			if names != "" {
				names += ","
			}
			names += name.Value
		}
		if names == "" {
			return nil, "", errors.New("has a cold without a server")
		}
	}
	return &without, names, nil
}
