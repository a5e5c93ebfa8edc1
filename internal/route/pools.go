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

// All returns the prefixes, after an empty one for the default pool.
func (r *Routes) All() []Prefix {
	return append([]Prefix{{Pool: r.Default, Reads: r.Reads, Accepts: r.Accepts}}, r.Prefixes...)
}

// add adds a route; that with an empty prefix is the default.
func (r *Routes) add(p Prefix) {
	if p.Prefix == "" {
		r.Default, r.Reads = p.Pool, p.Reads
	} else {
		r.Prefixes = append(r.Prefixes, p)
	}
}

// Names returns the names of the pools that have routes, each once.
func (r *Routes) Names() (names []string) {
	for _, p := range r.All() {
		for _, name := range []string{p.Pool, p.Reads} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
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

// Router says which servers hold a key, as clients have it. Its servers are those of its pools, in the order of the
// pools. It is immutable and safe for concurrent use.
type Router struct {
	servers  []Server
	n        int
	measures bool
	table    *Table
	pools    []*Group
	owners   []uint16 // by server: its pool
	// routed has the Group for the keys of each pool: the one in pools, or one of two pools while the keys go to
	// another pool. moves are the migrations.
	routed []*Group
	moves  []Move
	// rerouting is set while the routes change; otherwise nil.
	rerouting *rerouting
}

// everyKey returns the table of a pool without a name, which has all keys.
func everyKey() *Table {
	t, _ := NewTable([]string{""}, Routes{}) // never fails
	return t
}

// New returns the Router of one pool, which has no name, and all keys.
func New(servers []Server, o Options) (*Router, error) {
	g, err := newGroup(servers, o)
	if err != nil {
		return nil, err
	}
	return routerOf(everyKey(), g), nil
}

// Nowhere returns a Router by which no server holds a key.
func Nowhere() *Router { return routerOf(everyKey(), new(Group)) }

// NewPools returns the Router of pools. A single pool may have no name; it has all keys.
func NewPools(pools []Pool, r Routes) (*Router, error) {
	names := make([]string, len(pools))
	routers := make([]*Router, len(pools))
	for i, p := range pools {
		names[i] = p.Name
		var err error
		if routers[i], err = New(p.Servers, p.Options); err != nil {
			if p.Name != "" {
				err = fmt.Errorf("pool %q: %w", p.Name, err)
			}
			return nil, err
		}
	}
	if err := apart(pools); err != nil {
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

// Compose is NewPools for Routers of one pool each, which have no server in common.
func Compose(names []string, pools []*Router, routes Routes) (*Router, error) {
	table, err := NewTable(names, routes)
	if err != nil {
		return nil, err
	}
	groups := make([]*Group, len(pools))
	for i, r := range pools {
		groups[i] = r.pools[0]
	}
	r := routerOf(table, groups...)
	r.findGutters()
	return r, nil
}

// routerOf returns the Router of pools by table, with copies of the Groups.
func routerOf(table *Table, pools ...*Group) *Router {
	r := &Router{table: table}
	for number, pool := range pools {
		g := *pool
		g.base, g.number = len(r.servers), number
		r.owners = append(r.owners, slices.Repeat([]uint16{uint16(number)}, len(g.servers))...)
		r.servers = append(r.servers, g.servers...)
		r.n, r.measures = max(r.n, g.n), r.measures || g.measures
		r.pools = append(r.pools, &g)
	}
	r.routed = r.pools
	return r
}

// In returns the Group that has key.
func (r *Router) In(key []byte) *Group {
	in, _ := r.At(key)
	return in
}

// At is In, and also returns key as the servers store it, which is the form that the Group expects.
func (r *Router) At(key []byte) (in *Group, stored []byte) {
	if len(r.routed) == 1 {
		return r.routed[0], key
	}
	return r.find(key) // a function of its own, so that the compiler can inline this one
}

func (r *Router) find(key []byte) (in *Group, stored []byte) {
	t := r.table
	k := t.find(key)
	return r.routed[t.pools[k]], key[t.strips[k]:]
}

// Common returns the Group of requests that have no key, or several: the only pool or, if there are several, a Group
// without servers.
func (r *Router) Common() *Group {
	if len(r.routed) == 1 {
		return r.routed[0]
	}
	return &Group{n: r.n}
}

// Primary returns the index of a key's first server, which decides commands that depend on the item. It allocates
// nothing.
func (r *Router) Primary(key []byte) int {
	in, stored := r.At(key)
	return in.Primary(stored)
}

// Replicas appends to dst the servers that a key is written to, all distinct, those that are read first. It allocates
// nothing if dst has room.
func (r *Router) Replicas(key []byte, dst []int) []int {
	in, stored := r.At(key)
	return in.Replicas(stored, dst)
}

// Covers reports whether every key has a holder for which ok returns true.
func (r *Router) Covers(ok func(server int) bool) bool {
	return !slices.ContainsFunc(r.pools, func(g *Group) bool { return !g.covers(ok) })
}

// Holds reports whether the server called name holds key.
func (r *Router) Holds(name string, key []byte) bool {
	return slices.ContainsFunc(r.Replicas(key, nil), func(s int) bool { return r.servers[s].Name == name })
}

// Gains reports whether there may be a key that the server called name holds by r, but not by from.
func (r *Router) Gains(name string, from *Router) bool {
	named := func(s Server) bool { return s.Name == name }
	now, before := slices.IndexFunc(r.servers, named), slices.IndexFunc(from.servers, named)
	switch {
	case now < 0:
		return false
	case before < 0 || !r.sameRoutes(from):
		return true
	}
	a, b := r.Of(now), from.Of(before)
	return r.table.names[a.number] != from.table.names[b.number] || a.gains(name, b)
}

// N returns the number of servers that hold a key: the largest of the pools'. A key that a gutter may serve counts as
// held by at least two.
func (r *Router) N() int { return r.n }

// Servers returns the servers in the order they were given. The caller must not change them.
func (r *Router) Servers() []Server { return r.servers }

// Measures reports whether the choice of a server for a read depends on the servers' load.
func (r *Router) Measures() bool { return r.measures }

// Stripped returns the shares of the pools whose servers store keys without a prefix, by the pools' names.
func (r *Router) Stripped() map[string]*Share {
	pools, t := make(map[string]*Share), r.Table()
	for k, n := range t.strips {
		if n > 0 {
			pools[t.names[t.pools[k]]] = t.shareBelow(k)
		}
	}
	return pools
}

// Strips reports whether the servers of some pool store keys without a prefix.
func (r *Router) Strips() bool {
	return slices.ContainsFunc(r.table.strips, func(n int) bool { return n > 0 })
}

// ForReads returns the Router that finds the servers for reads; r itself if reads use the same pools as all other
// commands.
func (r *Router) ForReads() *Router {
	n := *r
	if n.table = r.table.forReads(); n.table == r.table {
		return r
	}
	return &n
}

// Refuses reports whether some routes don't accept all requests.
func (r *Router) Refuses() bool {
	return slices.ContainsFunc(r.Table().accepts, func(a Accepts) bool { return a != AcceptsAll })
}

// Accepts returns which requests for key, as clients have it, are served.
func (r *Router) Accepts(key []byte) Accepts {
	t := r.Table()
	return t.accepts[t.find(key)]
}

// Of returns the Group of the pool that has server.
func (r *Router) Of(server int) *Group { return r.pools[r.owners[server]] }

// Pools returns the Groups of the pools, by number.
func (r *Router) Pools() []*Group { return r.pools }

// Default returns the Group of the pool of keys without a prefix.
func (r *Router) Default() *Group { return r.pools[r.Table().pools[0]] }

// Number returns the pool's number among the pools of the Router that it came from.
func (g *Group) Number() int { return g.number }

// Base returns the index of the pool's first server.
func (g *Group) Base() int { return g.base }

// Named reports whether the pools have names; if not, there is one pool, without one.
func (r *Router) Named() bool { return r.table.names[0] != "" }

// Table returns the table that finds a key's pool, after the change of routes if there is one.
func (r *Router) Table() *Table {
	if r.rerouting != nil {
		return r.rerouting.after
	}
	return r.table
}

// sameRoutes reports whether r and s give every key a pool with the same name. The pools for reads don't count: they
// don't change what a pool holds.
func (r *Router) sameRoutes(s *Router) bool {
	a, b := r.table.Routes(), s.table.Routes()
	return slices.EqualFunc(a.All(), b.All(),
		func(a, b Prefix) bool { return a.Prefix == b.Prefix && a.Pool == b.Pool && a.Strip == b.Strip })
}

// Alone returns the Router of the pool alone: it answers with indexes of the pool's own servers.
func (g *Group) Alone() *Router { return routerOf(everyKey(), g) }
