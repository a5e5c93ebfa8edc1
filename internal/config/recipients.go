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
)

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
		slices.ContainsFunc(c.pools, func(p pool) bool {
			return slices.ContainsFunc(p.config.Follows,
				func(f middleware.FollowOptions) bool { return f.To.Name == name })
		})
}

// addRecipients adds the recipients to o. all has the settings of all pools.
func (c *Config) addRecipients(o *middleware.Options, all map[string]middleware.PoolOptions) {
	o.Shadows, o.Follows = slices.Clone(c.Shadows), nil
	for i := range o.Shadows {
		o.Shadows[i].To = all[o.Shadows[i].To.Name]
	}
	for _, p := range c.pools {
		for _, f := range p.config.Follows {
			f.Of, f.To, f.Memory = p.name, all[f.To.Name], p.config.FollowMemory
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
		for _, f := range p.config.Follows {
			if !slices.Contains(names, f.To.Name) {
				problems = append(problems, p.config.problem(optionFollow, unknown, f.To.Name,
					strings.Join(names, ", ")))
			}
		}
	}
	return problems
}
