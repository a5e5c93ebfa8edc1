package config

import (
	"mcmw/internal/large"
	"mcmw/internal/plan"
)

const (
	optionLarge    = "large-values"
	optionItemSize = "item-size"
)

// checkLarge returns the problems of large-values with the limits.
func (c *Config) checkLarge() Problems {
	switch l := c.Large; {
	case l.Limit == 0:
	case l.Limit > c.Limits.MaxValue:
		return Problems{c.problem(optionLarge,
			"%q is more than max-value, %s, so clients can't send such values; accepted: at most max-value, or a "+
				"larger max-value",
			formatSize(l.Limit), formatSize(c.Limits.MaxValue))}
	case l.Limit > l.Plain()*large.MaxChunks:
		return Problems{c.problem(optionLarge,
			"%q needs more than %d chunks of item-size %s; accepted: less, or a larger item-size",
			formatSize(l.Limit), large.MaxChunks, formatSize(l.Item))}
	}
	return nil
}

// largeOf returns the settings for large values by pool. Without pools, the only key is "".
func (c *Config) largeOf() map[string]plan.Large {
	all := map[string]plan.Large{}
	for _, p := range c.pools {
		all[p.name] = p.config.Large
	}
	return all
}

// checkLargeChange refuses a change that starts or ends storing values in chunks in one step: while it is applied, some
// requests are still served without knowledge of chunks.
func (c *Config) checkLargeChange(old *Config) Problems {
	var problems Problems
	before := old.largeOf()
	for name, l := range c.largeOf() {
		old, ok := before[name]
		if !ok || (old.Limit == 0) == (l.Limit == 0) || old.Limit <= old.Plain() && l.Limit <= l.Plain() {
			continue
		}
		d := c
		for _, p := range c.pools {
			if p.name == name {
				d = p.config
			}
		}
		problems = append(problems, d.problem(optionLarge,
			"%q cannot replace %q while mcmw runs; accepted: %s first, with which mcmw reads values in chunks but "+
				"stores none",
			formatSize(l.Limit), formatSize(old.Limit), formatSize(largestStep)))
	}
	return problems
}

// largestStep is the limit of the step between: below any item-size, so that no value is stored in chunks.
const largestStep = 8 << 10
