package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mcmw/internal/discover"
	"mcmw/internal/large"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// checks are the rules that involve several options. A rule runs only if none of its options was refused on its own.
// With pools, a rule about servers runs for each pool.
var checks = []struct {
	options []string
	check   func(c *Config) Problems
}{
	{[]string{"listen", "listen-port"}, (*Config).checkListen},
	{[]string{optionServers}, (*Config).checkServers},
	{[]string{optionServers, "listen", "listen-port"}, (*Config).checkLoop},
	{[]string{optionServers, "replicas", "ack"}, (*Config).checkAck},
	{[]string{optionServers, "replicas", "ring", "hash", "hash-tag"}, (*Config).checkPlacement},
	{[]string{"admin", "listen", "listen-port"}, (*Config).checkAdmin},
	{securityOptions, (*Config).checkSecurity},
	{[]string{optionServers, optionLarge, optionItemSize, "max-value"}, (*Config).checkLarge},
	{[]string{"max-key", "max-line", "max-multiget-line"}, (*Config).checkLimits},
}

// check returns the problems of combinations of options that can be found before names are looked up.
func (c *Config) check() Problems {
	for _, p := range c.pools {
		p.Servers, p.complete = nil, !p.Lookups.Any()
		for _, s := range p.Specs {
			if s.Lookup == discover.Static {
				p.Servers = append(p.Servers, s.Server)
			}
		}
	}
	return c.run(func([]string) bool { return true })
}

// CheckServers checks the options together with the servers that were found. The error is Problems.
func (c *Config) CheckServers(servers []route.Server) error {
	d := *c
	d.pools = slices.Clone(c.pools)
	for i, p := range d.pools {
		found := *p
		found.Servers, found.complete = inPool(servers, p.name), true
		d.pools[i] = &found
	}
	return d.run(func(options []string) bool { return slices.Contains(options, optionServers) }).asError()
}

// run returns the problems that the checks find whose options are chosen.
func (c *Config) run(chosen func(options []string) bool) Problems {
	var problems Problems
	for _, rule := range checks {
		if !chosen(rule.options) {
			continue
		}
		configs := []*Config{c}
		if slices.Contains(rule.options, optionServers) {
			configs = c.pools
		}
		for _, d := range configs {
			if !slices.ContainsFunc(rule.options, func(name string) bool { return d.refused[name] }) {
				problems = append(problems, rule.check(d)...)
			}
		}
	}
	if len(problems) > 0 || c.refused[optionPools] || c.refused[optionRoutes] || c.refused[optionMigrations] {
		return problems
	}
	return c.checkPools()
}

// hasFreePort reports whether the system chooses the port of addr. Such addresses never collide.
func hasFreePort(addr string) bool {
	return !strings.HasPrefix(addr, unixPrefix) && strings.HasSuffix(addr, ":0")
}

func (c *Config) checkListen() Problems {
	addrs := c.listenAddrs()
	if len(addrs) == 0 {
		return Problems{c.problem("listen", "an empty list; accepted: at least one of %s",
			Find("listen").kind.accepts)}
	}
	var problems Problems
	for i, a := range addrs {
		if slices.Contains(addrs[:i], a) && !hasFreePort(a) {
			problems = append(problems, c.problem("listen", "%q is given twice", a))
		}
	}
	return problems
}

func (c *Config) checkServers() Problems {
	if len(c.Specs) == 0 {
		return Problems{c.problem(optionServers,
			"none given; accepted: at least one of %s, by -m, --servers, %s or the file",
			serverForms, Find(optionServers).Env())}
	}
	var problems Problems
	for i, s := range c.Specs {
		if s.Lookup != discover.Static && slices.ContainsFunc(c.Specs[:i], func(o discover.Spec) bool {
			return o.Lookup == s.Lookup && o.Server.Addr == s.Server.Addr
		}) {
			problems = append(problems, c.problem(optionServers, "%q is given twice", s.Lookup.String()+s.Server.Addr))
		}
	}
	first := make(map[string]string) // address -> the name of its server
	for _, s := range c.Servers {
		if name, ok := first[s.Addr]; ok {
			problems = append(problems, c.problem(optionServers,
				"%q and %q both have the address %s; accepted: distinct addresses",
				name, s.Name, s.Addr))
			continue
		}
		first[s.Addr] = s.Name
	}
	return problems
}

// checkLoop refuses a server that is the middleware itself.
func (c *Config) checkLoop() Problems {
	var problems Problems
	addrs := c.listenAddrs()
	for _, s := range c.Servers {
		if slices.Contains(addrs, s.Addr) {
			problems = append(problems, c.problem(optionServers, "%q is an address mcmw itself listens on", s.Addr))
		}
	}
	return problems
}

// checkAck refuses ack quorum if a key has one replica.
func (c *Config) checkAck() Problems {
	if !c.complete && c.Placement.Replicas != 1 {
		return nil
	}
	return c.problems(middleware.CheckAck(c.Ack, cmp.Or(c.Placement.Replicas, len(c.Servers))))
}

// checkPlacement checks how keys are placed on the servers. As long as some servers are to be looked up, there may be
// more.
func (c *Config) checkPlacement() Problems {
	placement := c.Placement
	if !c.complete {
		placement.Replicas = 0
	}
	return c.problems(placement.Check(c.Servers)...)
}

func (c *Config) checkAdmin() Problems {
	if slices.Contains(c.listenAddrs(), c.Admin) && !hasFreePort(c.Admin) {
		return Problems{c.problem("admin", "%q is already an address for clients; accepted: another address, or off",
			c.Admin)}
	}
	return nil
}

func (c *Config) checkLimits() Problems {
	if l := c.Limits; l.MaxMultiGetLine < l.MaxLine {
		return Problems{c.problem("max-multiget-line", "\"%s\" is too small; accepted: at least max-line, %s",
			formatSize(l.MaxMultiGetLine), formatSize(l.MaxLine))}
	}
	return nil
}

const (
	optionGutter    = "gutter"
	optionGutterTTL = "gutter-ttl"

	// defaultGutterTTL is the expiry in the examples of mcrouter's failover with an expiry.
	defaultGutterTTL = time.Minute
)

// checkGutters returns the problems of the pools' gutters.
func (c *Config) checkGutters() (problems Problems) {
	for _, d := range c.pools {
		refuse := func(option, text string, args ...any) {
			problems = append(problems, d.problem(option, text, args...))
		}
		needed := middleware.LeastForGutter(d.Writers)
		switch {
		case d.Placement.Gutter == "" && slices.Contains(d.given, Find(optionGutterTTL)):
			refuse(optionGutterTTL, "given without a gutter; accepted: together with %s", optionGutter)
		case d.GutterTTL%time.Second != 0:
			refuse(optionGutterTTL, "%q is not in whole seconds; accepted: a time such as 60s", d.GutterTTL)
		case d.Placement.Gutter == "":
		case !d.Lookups.Any() && len(d.Specs) < needed:
			refuse(optionGutter, "the pool has too few servers, %d, for writers %s; accepted: %d servers or more%s",
				len(d.Specs), d.Writers, needed,
				map[bool]string{true: ", or writers one"}[len(d.Specs) >=
					middleware.LeastForGutter(middleware.WritersOne)])
		}
	}
	return problems
}

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

// checkLargeChange refuses a change that starts or ends storing values in chunks in one step: while it is applied, some
// requests are still served without knowledge of chunks.
func (c *Config) checkLargeChange(old *Config) (problems Problems) {
	for _, p := range c.pools {
		at := slices.IndexFunc(old.pools, func(o *Config) bool { return o.name == p.name })
		if at < 0 {
			continue
		}
		now, before := p.Large, old.pools[at].Large
		stores := now.Limit > now.Plain() || before.Limit > before.Plain()
		if stores && (now.Limit == 0) != (before.Limit == 0) {
			problems = append(problems, p.problem(optionLarge,
				"%q cannot replace %q while mcmw runs; accepted: %s first, with which mcmw reads values in chunks but "+
					"stores none",
				formatSize(now.Limit), formatSize(before.Limit), formatSize(largestStep)))
		}
	}
	return problems
}

// largestStep is the limit of the step between: below any item-size, so that no value is stored in chunks.
const largestStep = 8 << 10
