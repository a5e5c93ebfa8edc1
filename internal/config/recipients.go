package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/follow"
	"mcmw/internal/middleware"
	"mcmw/internal/refusal"
	"mcmw/internal/shadow"
)

const (
	optionShadows = "shadows"
	optionFollow  = "follow"
)

// recipients are the settings of pools that get what other pools did, later.
type recipients struct {
	shadows []shadowValue
	// In a pool's Config: the pools that follow it, and the memory for each server of these.
	follows      []followValue
	FollowMemory int
}

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

// isRecipient reports whether the pool called name is a shadow, or follows another one.
func (c *Config) isRecipient(name string) bool {
	return slices.ContainsFunc(c.shadows, func(s shadowValue) bool { return s.To == name }) ||
		slices.ContainsFunc(c.pools, func(p pool) bool {
			return slices.ContainsFunc(p.config.follows, func(f followValue) bool { return f.Pool == name })
		})
}

// addRecipients adds the recipients to o. all has the settings of all pools.
func (c *Config) addRecipients(o *middleware.Options, all map[string]middleware.PoolOptions) {
	for _, s := range c.shadows {
		o.Shadows = append(o.Shadows, middleware.ShadowOptions{Of: s.Of, To: all[s.To], Options: s.options()})
	}
	for _, p := range c.pools {
		for _, f := range p.config.follows {
			o.Follows = append(o.Follows, middleware.FollowOptions{
				Of: p.name, To: all[f.Pool], Options: follow.Options{
					What: f.What, Flush: f.Doubt == doubtFlush, Memory: p.config.FollowMemory, Hold: f.hold,
				},
			})
		}
	}
}

// checkNames returns the problems of names of pools in shadows and follow that are not among names.
func (c *Config) checkNames(names []string) (problems Problems) {
	for i, s := range c.shadows {
		for _, name := range []string{s.Of, s.To} {
			if !slices.Contains(names, name) {
				problems = append(problems, c.problems(refusal.Of(fmt.Sprintf("%s[%d]", optionShadows, i),
					"the pool %q is unknown; accepted: one of %s", name, strings.Join(names, ", ")))...)
			}
		}
	}
	for _, p := range c.pools {
		for _, f := range p.config.follows {
			if !slices.Contains(names, f.Pool) {
				problems = append(problems, p.config.problem(optionFollow,
					"the pool %q is unknown; accepted: one of %s", f.Pool, strings.Join(names, ", ")))
			}
		}
	}
	return problems
}
