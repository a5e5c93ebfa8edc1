package route

import (
	"fmt"
	"slices"

	"mcmw/internal/refusal"
)

// Pool is a named list of servers with the options that place its keys on them.
type Pool struct {
	Name    string
	Servers []Server
	Options Options
}

// path names an option of the pool in errors.
func (p *Pool) path(option string) string {
	if p.Name == "" {
		return option
	}
	return "pools." + p.Name + "." + option
}

// Prefix routes the keys that begin with Prefix to the pool called Pool. If a key begins with several prefixes, the
// longest counts.
type Prefix struct {
	Prefix string `json:"prefix"`
	Pool   string `json:"pool"`
	// Strip: the pool's servers store the keys without Prefix. The pool then has no other route, so that two keys never
	// become one there.
	Strip bool `json:"strip,omitempty"`
	// Reads is the pool that serves commands that read (protocol.Traits.IsRead); "": Pool does.
	Reads string `json:"reads,omitempty"`
	// Accepts is not announced to other middlewares: each follows its own configuration.
	Accepts Accepts `json:"-"`
}

// Routes map keys to pools.
type Routes struct {
	// Prefixes, in any order.
	Prefixes []Prefix `json:"prefixes,omitempty"`
	// Default is the pool of the keys that begin with none of the prefixes.
	Default string `json:"default"`
	// Reads and Accepts are as those of Prefix, for these keys.
	Reads   string  `json:"reads,omitempty"`
	Accepts Accepts `json:"-"`
}

// WrongRoute returns a *refusal.Error about the entry of Prefixes with that index; -1: about Default.
func WrongRoute(index int, why string, args ...any) error {
	return refusal.Of(RoutePath(index), why, args...)
}

// RoutePath returns the path of the prefix with that index; -1: of the default.
func RoutePath(index int) string {
	if index < 0 {
		return "routes[default]"
	}
	return fmt.Sprintf("routes[%d]", index)
}

// NewPools returns the Router of pools. Its servers are the servers of all pools, in the order of the pools. A single
// pool may have no name; it has all keys.
func NewPools(pools []Pool, r Routes) (*Router, error) {
	if len(pools) == 1 && pools[0].Name == "" {
		return New(pools[0].Servers, pools[0].Options)
	}
	names := make([]string, len(pools))
	routers := make([]*Router, len(pools))
	for i, p := range pools {
		names[i] = p.Name
		var err error
		if routers[i], err = New(p.Servers, p.Options); err != nil {
			return nil, fmt.Errorf("pool %q: %w", p.Name, err)
		}
	}
	if err := apart(pools); err != nil {
		return nil, err
	}
	if err := CheckGutters(pools); err != nil {
		return nil, err
	}
	return Compose(names, routers, r)
}

// apart returns an error, a *refusal.Error, if a server is in two pools: each pool would track alone which writes it
// missed and when it must be flushed.
func apart(pools []Pool) error {
	type owner struct{ pool, server string }
	named, at := map[string]owner{}, map[string]owner{}
	for _, p := range pools {
		for _, s := range p.Servers {
			o := owner{p.Name, s.Name}
			if other, twice := named[s.Name]; twice && other.pool != p.Name {
				return refusal.Of(p.path("servers"),
					"server %q is in pool %q and in pool %q; accepted: each server in one pool", s.Name, other.pool,
					p.Name)
			}
			if other, twice := at[s.Addr]; twice && s.Addr != "" && other.pool != p.Name {
				return refusal.Of(p.path("servers"),
					"address %s is used by server %q in pool %q and by server %q in pool %q; accepted: each address "+
						"in one pool",
					s.Addr, other.server, other.pool, s.Name, p.Name)
			}
			named[s.Name], at[s.Addr] = o, o
		}
	}
	return nil
}

// Compose is NewPools for Routers of the pools, which have no server in common.
func Compose(names []string, pools []*Router, routes Routes) (*Router, error) {
	if len(names) == 1 && names[0] == "" {
		return pools[0], nil
	}
	table, err := NewTable(names, routes)
	if err != nil {
		return nil, err
	}
	r := &Router{table: table}
	for number, pool := range pools {
		p := *pool
		p.base, p.number, p.gutter, p.gutters, p.isGutter = len(r.servers), number, nil, nil, false
		for range p.servers {
			r.owners = append(r.owners, uint16(number))
		}
		r.servers = append(r.servers, p.servers...)
		r.n = max(r.n, p.n)
		r.measures = r.measures || p.measures
		r.pools = append(r.pools, &p)
	}
	r.findGutters()
	r.routed = r.pools
	return r, nil
}

// In returns the Router for key's pool, which answers with indexes of r's servers; r itself if there is one pool.
func (r *Router) In(key []byte) *Router {
	if r.pools == nil {
		return r
	}
	return r.poolOf(key) // a function of its own, so that the compiler can inline this one
}

func (r *Router) poolOf(key []byte) *Router { return r.routed[r.table.Pool(key)] }

// At is In, and also returns key as the pool's servers store it, which is the form that the Router of a pool expects.
func (r *Router) At(key []byte) (in *Router, stored []byte) {
	if r.pools == nil {
		return r, key
	}
	return r.among(key) // as in In
}

func (r *Router) among(key []byte) (in *Router, stored []byte) {
	t := r.table
	k := t.find(key)
	if k < 0 {
		return r.routed[t.otherwise], key
	}
	if t.strips != nil {
		key = key[t.strips[k]:]
	}
	return r.routed[t.pools[k]], key
}

// Stripped returns the shares of the pools whose servers store keys without a prefix, by the pools' names.
func (r *Router) Stripped() map[string]*Share {
	pools := make(map[string]*Share)
	if r.Strips() {
		t := r.Table()
		for k, n := range t.strips {
			if n > 0 {
				pools[t.names[t.pools[k]]] = t.shareBelow(k)
			}
		}
	}
	return pools
}

// Strips reports whether the servers of some pool store keys without a prefix.
func (r *Router) Strips() bool { return r.table != nil && r.table.strips != nil }

// ForReads returns the Router that finds the servers for reads; r itself if reads use the same pools as all other
// commands.
func (r *Router) ForReads() *Router {
	if r.table == nil || r.table.reads == nil {
		return r
	}
	n := *r
	n.table = r.table.forReads()
	return &n
}

// Refuses reports whether some routes don't accept all requests.
func (r *Router) Refuses() bool { return r.table != nil && r.Table().accepts != nil }

// Accepts returns which requests for key, as clients have it, are served. It needs Refuses.
func (r *Router) Accepts(key []byte) Accepts {
	t := r.Table()
	if k := t.find(key); k >= 0 {
		return t.accepts[k]
	}
	return t.accepts[len(t.prefixes)]
}

// Of returns the Router of the pool that has server.
func (r *Router) Of(server int) *Router {
	if r.pools == nil {
		return r
	}
	return r.pools[r.owners[server]]
}

// Pools returns the Routers of the pools, by number.
func (r *Router) Pools() []*Router {
	if r.pools == nil {
		return []*Router{r}
	}
	return r.pools
}

// Default returns the Router of the pool of keys without a prefix.
func (r *Router) Default() *Router {
	if r.pools == nil {
		return r
	}
	return r.pools[r.Table().otherwise]
}

// Number returns the pool's number among the pools of the Router that it came from.
func (r *Router) Number() int { return r.number }

// Base returns the index of the pool's first server.
func (r *Router) Base() int { return r.base }

// Table returns the table that finds a key's pool, after the change of routes if there is one; nil if there is one
// pool.
func (r *Router) Table() *Table {
	if r.rerouting != nil {
		return r.rerouting.after
	}
	return r.table
}

// sameRoutes reports whether r and s give every key a pool with the same name. The pools for reads don't count: they
// don't change what a pool holds.
func (r *Router) sameRoutes(s *Router) bool {
	if r.table == nil || s.table == nil {
		return r.table == s.table
	}
	name := func(t *Table, pools []int) []string {
		names := make([]string, len(pools))
		for i, p := range pools {
			names[i] = t.names[p]
		}
		return names
	}
	a, b := r.table, s.table
	return a.names[a.otherwise] == b.names[b.otherwise] && slices.Equal(a.prefixes, b.prefixes) &&
		slices.Equal(a.strips, b.strips) && slices.Equal(name(a, a.pools), name(b, b.pools))
}

// gainsOfPools is Gains where one of the two has several pools.
func (r *Router) gainsOfPools(named func(Server) bool, name string, from *Router) bool {
	now, before := slices.IndexFunc(r.servers, named), slices.IndexFunc(from.servers, named)
	switch {
	case now < 0:
		return false
	case before < 0 || !r.sameRoutes(from):
		return true
	}
	a, b := r.Of(now), from.Of(before)
	return r.table.names[a.number] != from.table.names[b.number] || a.Gains(name, b)
}

// Alone returns the Router of the pool with base 0: it answers with indexes of the pool's own servers.
func (r *Router) Alone() *Router {
	if r.base == 0 && r.number == 0 {
		return r
	}
	alone := *r
	alone.base, alone.number = 0, 0
	return &alone
}
