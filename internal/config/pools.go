package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/discover"
	"mcmw/internal/middleware"
	"mcmw/internal/refusal"
	"mcmw/internal/route"
	"mcmw/internal/userinput"
)

const (
	optionPools  = "pools"
	optionRoutes = "routes"
)

// within returns what precedes the options of a pool in messages: "pools.NAME.".
func (c *Config) within() string {
	if c.name == "" {
		return ""
	}
	return optionPools + "." + c.name + "."
}

// named returns the pools that have names: all, or none.
func (c *Config) named() []*Config {
	if len(c.pools) == 1 && c.pools[0].name == "" {
		return nil
	}
	return c.pools
}

// poolsKind is the mapping of pools. It stays unread until the values of all sources are known, because those are the
// pools' defaults: see readPools.
var poolsKind = kind{
	set: func(c *Config, v given) error {
		if v.mapping == nil {
			return errors.New("is not a mapping")
		}
		c.poolMapping = v.mapping
		return nil
	},
	get: func(c *Config) any {
		all := fields{}
		for _, p := range c.named() {
			var own fields
			for _, o := range p.given {
				own = append(own, field{o.Name, o.kind.get(p)})
			}
			all = append(all, field{p.name, own})
		}
		return all
	},
}

// The options of a pool are in the table that has the pools.
func init() {
	k, options := &Find(optionPools).kind, make(map[string]any)
	for _, name := range poolOptions() {
		options[name] = Find(name).Schema()
	}
	k.accepts = "a mapping from the names of pools to mappings with " + strings.Join(poolOptions(), ", ")
	k.schema = map[string]any{
		"type": "object", "propertyNames": map[string]any{"pattern": pattern(labelForm)},
		"additionalProperties": map[string]any{
			"type": "object", "properties": options, "additionalProperties": false,
			"required": []string{optionServers},
		},
	}
}

// poolOptions returns the names of the options that a pool may have.
func poolOptions() []string { return namesOf(func(o *Option) bool { return o.PerPool() }) }

// readPools reads the pools' mappings. The values that c has by now are their defaults. Without pools in it c itself
// has the only pool, which has no name.
func (c *Config) readPools() Problems {
	c.pools = nil
	n := c.poolMapping
	if n == nil || len(n.Content) == 0 {
		if !c.refused[optionPools] {
			c.pools = []*Config{c}
		}
		return nil
	}
	var problems Problems
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], userinput.Resolve(n.Content[i+1])
		origin, p := lineOf(c.File, key), *c
		p.name, p.Specs, p.pools = key.Value, nil, nil
		option, refused := strings.TrimSuffix(p.within(), "."), ""
		switch {
		case !labelPattern.MatchString(p.name):
			option, refused = optionPools, fmt.Sprintf("the name %q; accepted: %s", p.name, labelWords)
		case slices.ContainsFunc(c.pools, func(o *Config) bool { return o.name == p.name }):
			refused = "given twice"
		case value.Kind != yaml.MappingNode:
			refused = "not a mapping; accepted: options of a pool, such as servers"
		}
		if refused != "" {
			problems = append(problems, Problem{origin, option, refused})
			continue
		}
		p.origins, p.refused = maps.Clone(c.origins), maps.Clone(c.refused)
		p.origins[optionServers] = origin // until the mapping says otherwise
		settings, wrong := nodeSettings(value, c.File, p.within(), poolKey)
		for _, s := range settings {
			wrong = append(wrong, s.option.set(&p, s.values, s.origin)...)
		}
		problems = append(problems, wrong...)
		for _, o := range Options {
			if slices.ContainsFunc(settings, func(s setting) bool { return s.option == o }) {
				p.given = append(p.given, o)
			}
		}
		c.pools = append(c.pools, &p)
	}
	if problems != nil {
		c.refused[optionPools] = true
	}
	return problems
}

// poolKey returns the option of a pool that key names, or what is wrong with the key.
func poolKey(key string) (*Option, string) {
	names := poolOptions()
	switch o := Find(key); {
	case o == nil:
		return nil, fmt.Sprintf("unknown key %q%s; accepted: %s", key, userinput.DidYouMean(key, names),
			strings.Join(names, ", "))
	case !o.PerPool():
		return nil, fmt.Sprintf("%q is the same for all pools and not accepted in a pool; accepted: %s", key,
			strings.Join(names, ", "))
	default:
		return o, ""
	}
}

// checkPools returns the problems of pools with the options that refer to them, such as routes.
func (c *Config) checkPools() Problems {
	if c.named() == nil {
		if len(c.Migrations) > 0 {
			return Problems{c.problem(optionMigrations, "given without pools; accepted: together with %s", optionPools)}
		}
		if len(c.Routes.Prefixes) > 0 || c.Routes.Default != "" {
			return Problems{c.problem(optionRoutes, "given without pools; accepted: together with %s, which replace %s",
				optionPools, optionServers)}
		}
		if len(c.Shadows) > 0 {
			return Problems{c.problem(optionShadows, "given without pools; accepted: together with %s, which replace "+
				"%s", optionPools, optionServers)}
		}
		return nil
	}
	var problems Problems
	if len(c.Specs) > 0 {
		problems = append(problems, c.problem(optionServers,
			"given together with pools; accepted: servers in each pool, or no pools"))
	}
	var names []string
	var pools []route.Pool
	var known []route.Server
	complete := true
	for _, p := range c.pools {
		names = append(names, p.name)
		pools = append(pools, p.options(p.Servers).Pool)
		if complete = complete && p.complete; p.complete {
			for _, s := range p.Servers {
				s.Pool = p.name
				known = append(known, s)
			}
		}
	}
	_, err := route.NewTable(names, c.Routes)
	if err != nil {
		return append(problems, c.problems(err)...)
	}
	if unknown := c.checkNames(names); unknown != nil {
		return append(problems, unknown...)
	}
	o := c.With(known)
	problems = append(problems, c.problems(o.CheckPools()...)...)
	problems = append(problems, c.checkGutters()...)
	if !complete {
		return problems
	}
	_, err = route.NewPools(pools, c.Routes)
	return append(problems, c.problems(err)...)
}

// problems returns the problems of those errors that are a *refusal.Error.
func (c *Config) problems(errs ...error) (problems Problems) {
	for _, err := range errs {
		wrong, ok := errors.AsType[*refusal.Error](err)
		if !ok {
			continue
		}
		d, path := c, wrong.Path
		if at := strings.LastIndexByte(path, '.'); at > 0 {
			for _, p := range c.pools {
				if p.within() == path[:at+1] {
					d = p
				}
			}
			path = path[at+1:]
		}
		option, _, _ := strings.Cut(path, "[")
		p := d.problem(option, "%s", wrong.Text)
		p.Origin = cmp.Or(d.origins[path], p.Origin)
		if option == optionRoutes {
			p.Origin = cmp.Or(p.Origin, c.Origin(optionPools))
		}
		problems = append(problems, p)
	}
	return problems
}

// Locate returns err, the reason why c can't replace another configuration while clients are served. If the reason is a
// setting, the error says where that is set.
func (c *Config) Locate(err error) error { return cmp.Or(c.problems(err).asError(), err) }

// Notes say what an operator might not expect of this valid configuration.
func (c *Config) Notes() (notes []string) {
	all := c.Routes.All()
	for i, p := range append(all[1:], all[0]) {
		of := fmt.Sprintf("prefix %q", p.Prefix)
		if i == len(all)-1 {
			of = "default"
		}
		if p.Reads != "" && p.Reads != p.Pool {
			notes = append(notes,
				fmt.Sprintf("routes: %s: reads go to pool %s and see only what is written there, not what is written "+
					"to pool %s", of, p.Reads, p.Pool))
		}
	}
	return notes
}

// AllLookups returns the servers of all pools as written, each with its pool's name. The endpoint that lists a pool's
// servers has TLS if they do.
func (c *Config) AllLookups() discover.Lookups {
	l := c.Lookups
	l.Certificates, l.Specs = c.Security.ServerFiles, nil
	for _, p := range c.pools {
		for _, s := range p.Specs {
			s.Server.Pool, s.TLS = p.name, s.Lookup == discover.Nodes && p.Security.ServerTLS
			l.Specs = append(l.Specs, s)
		}
	}
	return l
}

// With returns the middleware's options with the servers that were found for AllLookups. The version and the log, which
// the command adds, are missing.
func (c *Config) With(servers []route.Server) middleware.Options {
	o := c.Options
	o.Servers, o.Listen, o.Security = nil, c.ListenAddrs(), c.security()
	o.StallAfter = cmp.Or(o.StallAfter, -1) // never
	all := map[string]middleware.PoolOptions{}
	for _, p := range c.pools {
		all[p.name] = p.options(inPool(servers, p.name))
		if !c.isRecipient(p.name) {
			o.Pools = append(o.Pools, all[p.name])
		}
	}
	c.addRecipients(&o, all)
	return o
}

// options returns the middleware's options for the pool with these servers.
func (c *Config) options(servers []route.Server) middleware.PoolOptions {
	o := c.OnlyPool()
	o.Name, o.Servers = c.name, servers
	if o.Options.Gutter != "" {
		o.Options.GutterTTL = int(cmp.Or(c.GutterTTL, defaultGutterTTL) / time.Second)
	}
	return o
}

// Router returns the placement of keys on the servers that were found for AllLookups.
func (c *Config) Router(servers []route.Server) (*route.Router, error) {
	var pools []route.Pool
	for _, p := range c.With(servers).Pools {
		pools = append(pools, p.Pool)
	}
	return route.NewPools(pools, c.Routes)
}

// inPool returns the servers of the pool called name.
func inPool(servers []route.Server, name string) []route.Server {
	var found []route.Server
	for _, s := range servers {
		if s.Pool == name {
			s.Pool = ""
			found = append(found, s)
		}
	}
	return found
}
