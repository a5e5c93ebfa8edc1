package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcmw/internal/follow"
)

const optionFollow = "follow"

// followValue is an entry of the option follow as the file has it.
type followValue struct {
	Pool  string `yaml:"pool"`
	What  string `yaml:"what"`
	Doubt string `yaml:"doubt"`
	Hold  string `yaml:"hold,omitempty"`

	hold time.Duration
}

// What is done about servers in doubt.
const (
	doubtReport = "report"
	doubtFlush  = "flush"
)

// followWords are what may be delivered.
var followWords = []string{follow.Deletes, follow.Purges, follow.All}

// followValues is the value of the option follow.
type followValues []followValue

// String returns the value as messages about a change show it.
func (v followValues) String() string {
	var texts []string
	for _, f := range v {
		text := fmt.Sprintf("%s (what %s, doubt %s)", f.Pool, f.What, f.Doubt)
		if f.Hold != "" {
			text = strings.TrimSuffix(text, ")") + ", hold " + f.Hold + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// followKind is the list of the pools that follow a pool.
var followKind = kind{
	accepts: "entries of the form {pool: POOL, what: deletes, purges or all}, optionally with doubt: report or " +
		"flush, or hold: 1s to 1h",
	reset: func(c *Config) { c.follows = nil },
	set:   setFollow,
	get:   func(c *Config) any { return append(followValues{}, c.follows...) },
	schema: entriesSchema(map[string]any{
		"pool": labelSchema, "what": map[string]any{"enum": followWords},
		"doubt": map[string]any{"enum": []string{doubtReport, doubtFlush}},
		"hold":  durationSchema,
	}, map[string]any{"required": []string{"pool", "what"}}),
}

// setFollow reads an entry of follow.
func setFollow(c *Config, v given) error {
	if v.mapping == nil {
		return errors.New("is not a mapping")
	}
	fields, err := textFields(v.mapping, []string{"pool", "what", "doubt", "hold"})
	if err != nil {
		return err
	}
	f := followValue{Pool: fields["pool"], What: fields["what"], Doubt: doubtReport}
	if doubt, ok := fields["doubt"]; ok {
		f.Doubt = doubt
	}
	if hold, ok := fields["hold"]; ok {
		if f.hold, err = time.ParseDuration(hold); err != nil || f.hold < time.Second || f.hold > maxTime {
			return fmt.Errorf("has the key \"hold\" with %q", hold)
		}
		f.Hold = formatDuration(f.hold)
	}
	switch {
	case f.Pool == "":
		return errors.New("has no key \"pool\"")
	case !slices.Contains(followWords, f.What):
		return fmt.Errorf("has the key \"what\" with %q", f.What)
	case slices.ContainsFunc(c.follows, func(g followValue) bool { return g.Pool == f.Pool }):
		return fmt.Errorf("has the pool %q twice", f.Pool)
	case f.hold > 0 && f.What == follow.All:
		return errors.New("has the key \"hold\", and all is copied")
	case f.Doubt != doubtReport && f.Doubt != doubtFlush:
		return fmt.Errorf("has the key \"doubt\" with %q", f.Doubt)
	}
	c.follows = append(slices.Clip(c.follows), f)
	return nil
}

// isFollower reports whether the pool called name follows another one.
func (c *Config) isFollower(name string) bool {
	return slices.ContainsFunc(c.pools, func(p pool) bool {
		return slices.ContainsFunc(p.config.follows, func(f followValue) bool { return f.Pool == name })
	})
}
