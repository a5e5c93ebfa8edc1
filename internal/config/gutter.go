package config

import (
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

const (
	optionGutter    = "gutter"
	optionGutterTTL = "gutter-ttl"

	// defaultGutterTTL is the expiry in the examples of mcrouter's failover with an expiry.
	defaultGutterTTL = time.Minute
)

// checkGutters returns the problems of the pools' gutters.
func (c *Config) checkGutters(pools []route.Pool) Problems {
	if problems := c.problems(route.CheckGutters(pools)); problems != nil {
		return problems
	}
	var problems Problems
	for _, p := range c.pools {
		d := p.config
		refuse := func(option, text string, args ...any) {
			problems = append(problems, d.problem(option, text, args...))
		}
		needed := middleware.LeastForGutter(d.Writers)
		switch {
		case d.Placement.Gutter == "" && slices.Contains(p.given, Find(optionGutterTTL)):
			refuse(optionGutterTTL, "given without a gutter; accepted: together with %s", optionGutter)
		case d.GutterTTL%time.Second != 0:
			refuse(optionGutterTTL, "%q is not in whole seconds; accepted: a time such as 60s", d.GutterTTL)
		case d.Placement.Gutter == "":
		case c.Rejoin == backend.RejoinTrust:
			refuse(optionGutter, "not possible with rejoin trust; accepted: rejoin invalidate or flush")
		case !d.Lookups.Any() && len(d.Specs) < needed:
			refuse(optionGutter, "the pool has too few servers, %d, for writers %s; accepted: %d servers or more%s",
				len(d.Specs), d.Writers, needed,
				map[bool]string{true: ", or writers one"}[len(d.Specs) >=
					middleware.LeastForGutter(middleware.WritersOne)])
		}
	}
	return problems
}
