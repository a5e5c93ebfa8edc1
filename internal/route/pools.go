package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// Prefix routes the keys that begin with Prefix to the pool called Pool. If a key begins with several prefixes, the longest counts.
type Prefix struct {
	Prefix string `json:"prefix"`
	Pool   string `json:"pool"`
	// Strip: the pool's servers store the keys without Prefix. The pool then has no other route, so that two keys never become one there.
	Strip bool `json:"strip,omitempty"`
	// Reads is the pool that serves commands that read (protocol.Traits.IsRead); "": Pool does.
	Reads string `json:"reads,omitempty"`
}

// Routes map keys to pools.
type Routes struct {
	// Prefixes, in any order.
	Prefixes []Prefix `json:"prefixes,omitempty"`
	// Default is the pool of the keys that begin with none of the prefixes.
	Default string `json:"default"`
	// Reads is as Prefix.Reads, for these keys.
	Reads string `json:"reads,omitempty"`
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

// maxPools bounds the number of pools: a request may have to try them one by one.
const maxPools = 1000

// Table finds the pool of a key. It is immutable. See NewTable.
type Table struct {
	prefixes []string // sorted
	pools    []int    // by prefix: the pool's number
	strips   []int    // by prefix: how many bytes to remove from a key; nil: no prefix is stripped
	parents  []int    // by prefix: the longest other prefix that it begins with; -1: none
	// first[c] is the number of prefixes that begin with a byte below c, and common[c] the longest text that all prefixes beginning with c begin with.
	first     [257]int
	common    [256]string
	words     []uint64 // by prefix: the word of the part after common
	otherwise int      // the pool of keys without a prefix
	names     []string
	// reads are the pools that serve reads: by prefix, and last that of keys without a prefix; nil: pools and otherwise do.
	reads []int
}

// NewTable returns the table for pools with these names. Its error is a *refusal.Error about a route, or another error if the names are wrong.
func NewTable(pools []string, r Routes) (*Table, error) {
	numbers := make(map[string]int, len(pools))
	for i, name := range pools {
		if _, twice := numbers[name]; twice || name == "" {
			return nil, fmt.Errorf("route: pool %d is named %q; accepted: a name that is not empty and that no other pool has", i+1, name)
		}
		numbers[name] = i
	}
	if len(pools) == 0 || len(pools) > maxPools {
		return nil, fmt.Errorf("route: %d pools given; accepted: 1 to %d", len(pools), maxPools)
	}
	known := strings.Join(pools, ", ")
	otherwise, ok := numbers[r.Default]
	switch {
	case r.Default == "":
		return nil, WrongRoute(-1, "no default pool, for the keys without a prefix; accepted: one of %s", known)
	case !ok:
		return nil, WrongRoute(-1, "the default pool %q is unknown; accepted: one of %s", r.Default, known)
	}
	splits := false
	readsOf := func(i int, pool, reads string) (number int, err error) {
		if reads == "" {
			reads = pool
		}
		number, ok := numbers[reads]
		if !ok {
			return 0, WrongRoute(i, "the pool %q for reads is unknown; accepted: one of %s", reads, known)
		}
		splits = splits || reads != pool
		return number, nil
	}
	others, err := readsOf(-1, r.Default, r.Reads)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(r.Prefixes))
	for i, p := range r.Prefixes {
		order[i] = i
		switch _, ok := numbers[p.Pool]; {
		case p.Prefix == "":
			return nil, WrongRoute(i, "empty prefix; accepted: at least one byte, or default for all other keys")
		case !ok:
			return nil, WrongRoute(i, "the pool %q of prefix %q is unknown; accepted: one of %s", p.Pool, p.Prefix, known)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(strings.Compare(r.Prefixes[a].Prefix, r.Prefixes[b].Prefix), cmp.Compare(a, b))
	})
	if err := checkStrips(r); err != nil {
		return nil, err
	}
	t := &Table{otherwise: otherwise, names: slices.Clone(pools)}
	var reads []int
	if slices.ContainsFunc(r.Prefixes, func(p Prefix) bool { return p.Strip }) {
		t.strips = make([]int, len(r.Prefixes))
	}
	for k, i := range order {
		p := r.Prefixes[i]
		parent := k - 1
		if k > 0 && t.prefixes[parent] == p.Prefix {
			return nil, WrongRoute(i, "prefix %q is given twice; accepted: each once", p.Prefix)
		}
		for parent >= 0 && !strings.HasPrefix(p.Prefix, t.prefixes[parent]) {
			parent = t.parents[parent]
		}
		if p.Strip {
			t.strips[k] = len(p.Prefix)
		}
		from, err := readsOf(i, p.Pool, p.Reads)
		if err != nil {
			return nil, err
		}
		reads = append(reads, from)
		t.prefixes, t.pools, t.parents = append(t.prefixes, p.Prefix), append(t.pools, numbers[p.Pool]), append(t.parents, parent)
		for c := int(p.Prefix[0]) + 1; c < len(t.first); c++ {
			t.first[c]++
		}
	}
	for c := range t.common {
		if from, to := t.first[c], t.first[c+1]; from < to {
			// The common beginning of sorted texts is that of the first and the last one.
			low, high := t.prefixes[from], t.prefixes[to-1]
			n := 0
			for n < min(len(low), len(high)) && low[n] == high[n] {
				n++
			}
			t.common[c] = low[:n]
			for _, p := range t.prefixes[from:to] {
				t.words = append(t.words, wordOf(p[n:]))
			}
		}
	}
	if splits {
		t.reads = append(reads, others)
	}
	return t, nil
}

// forReads returns the table that finds the pools for reads.
func (t *Table) forReads() *Table {
	if t.reads == nil {
		return t
	}
	u := *t
	u.pools, u.otherwise, u.reads = t.reads[:len(t.pools)], t.reads[len(t.pools)], nil
	return &u
}

// checkStrips returns an error if a pool has a route that strips its prefix, and another route.
func checkStrips(r Routes) error {
	for i, p := range r.Prefixes {
		refuse := func(other string) error {
			return WrongRoute(i, "prefix %q is stripped, but pool %q also has %s: two keys could become one there; give the prefix a pool of its own, or don't strip it",
				p.Prefix, p.Pool, other)
		}
		switch other := slices.IndexFunc(r.Prefixes, func(o Prefix) bool { return (o.Pool == p.Pool || o.Reads == p.Pool) && o.Prefix != p.Prefix }); {
		case !p.Strip:
		case r.Default == p.Pool || r.Reads == p.Pool:
			return refuse("the keys without a prefix")
		case other >= 0:
			return refuse(fmt.Sprintf("prefix %q", r.Prefixes[other].Prefix))
		}
	}
	return nil
}

// find returns the index of the longest prefix that key begins with; -1: none.
func (t *Table) find(key []byte) int {
	if len(key) == 0 {
		return -1
	}
	from, to := t.first[key[0]], t.first[int(key[0])+1]
	common := t.common[key[0]]
	if from == to || len(key) < len(common) || string(key[:len(common)]) != common {
		return -1
	}
	// Find the last prefix that does not sort after key. If key does not begin with it, the only candidates are the shorter prefixes that this
	// prefix begins with, its parents.
	word := wordOf(key[len(common):])
	for from < to {
		mid := int(uint(from+to) / 2)
		if at := t.words[mid]; at < word || at == word && t.prefixes[mid] <= string(key) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	k := from - 1
	for k >= 0 && !(len(key) >= len(t.prefixes[k]) && string(key[:len(t.prefixes[k])]) == t.prefixes[k]) {
		k = t.parents[k]
	}
	return k
}

// wordOf returns the first eight bytes of text as a number: if two texts differ in these bytes, their numbers compare as the texts do.
func wordOf[T string | []byte](text T) (word uint64) {
	if len(text) >= 8 {
		return uint64(text[7]) | uint64(text[6])<<8 | uint64(text[5])<<16 | uint64(text[4])<<24 |
			uint64(text[3])<<32 | uint64(text[2])<<40 | uint64(text[1])<<48 | uint64(text[0])<<56
	}
	for i := range len(text) {
		word |= uint64(text[i]) << (56 - 8*i)
	}
	return word
}

// Pool returns the number of key's pool. It allocates nothing.
func (t *Table) Pool(key []byte) int {
	if k := t.find(key); k >= 0 {
		return t.pools[k]
	}
	return t.otherwise
}

// Prefix returns the longest prefix that key begins with; "": none, the key is in the default pool.
func (t *Table) Prefix(key []byte) string {
	if k := t.find(key); k >= 0 {
		return t.prefixes[k]
	}
	return ""
}

// NewPools returns the Router of pools. Its servers are the servers of all pools, in the order of the pools. A single pool may have no name; it has all keys.
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

// apart returns an error, a *refusal.Error, if a server is in two pools: each pool would track alone which writes it missed and when it must be flushed.
func apart(pools []Pool) error {
	type owner struct{ pool, server string }
	named, at := map[string]owner{}, map[string]owner{}
	for _, p := range pools {
		for _, s := range p.Servers {
			o := owner{p.Name, s.Name}
			if other, twice := named[s.Name]; twice && other.pool != p.Name {
				return refusal.Of(p.path("servers"), "server %q is in pool %q and in pool %q; accepted: each server in one pool", s.Name, other.pool, p.Name)
			}
			if other, twice := at[s.Addr]; twice && s.Addr != "" && other.pool != p.Name {
				return refusal.Of(p.path("servers"), "address %s is used by server %q in pool %q and by server %q in pool %q; accepted: each address in one pool",
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

// ForReads returns the Router that finds the servers for reads; r itself if reads use the same pools as all other commands.
func (r *Router) ForReads() *Router {
	if r.table == nil || r.table.reads == nil {
		return r
	}
	n := *r
	n.table = r.table.forReads()
	return &n
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

// Table returns the table that finds a key's pool, after the change of routes if there is one; nil if there is one pool.
func (r *Router) Table() *Table {
	if r.rerouting != nil {
		return r.rerouting.after
	}
	return r.table
}

// sameRoutes reports whether r and s give every key a pool with the same name. The pools for reads don't count: they don't change what a pool holds.
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
	return a.names[a.otherwise] == b.names[b.otherwise] && slices.Equal(a.prefixes, b.prefixes) && slices.Equal(a.strips, b.strips) && slices.Equal(name(a, a.pools), name(b, b.pools))
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

// Share says which keys are in a pool, in the form in which its servers store them. A key that begins with an even number of the Prefixes is in the pool
// if Default is true; one that begins with an odd number of them is in the pool if Default is false.
type Share struct {
	Default  bool     `json:"default"`
	Prefixes []string `json:"prefixes,omitempty"`
	// Stripped is the prefix of clients' keys that the servers' keys lack.
	Stripped string `json:"stripped,omitempty"`
	// Gutter is the gutter of the pool.
	Gutter Standin `json:"gutter,omitzero"`
	// Routed is set for a pool that is a gutter, and therefore may hold all keys: the keys that are routed to it. Otherwise nil.
	Routed *Share `json:"routed,omitempty"`
}

// Share returns which keys are in the pool with that number. Equal sets of keys give equal shares.
func (t *Table) Share(pool int) *Share {
	if t.strips != nil {
		for k, n := range t.strips {
			if n > 0 && t.pools[k] == pool {
				return t.shareBelow(k)
			}
		}
	}
	s := &Share{Default: t.otherwise == pool}
	for k, prefix := range t.prefixes {
		within := t.otherwise
		if parent := t.parents[k]; parent >= 0 {
			within = t.pools[parent]
		}
		if (t.pools[k] == pool) != (within == pool) {
			s.Prefixes = append(s.Prefixes, prefix)
		}
	}
	return s
}

// shareBelow is Share for the pool whose only prefix, the one with that index, is stripped: all keys except those with a longer prefix.
func (t *Table) shareBelow(number int) *Share {
	s := &Share{Default: true, Stripped: t.prefixes[number]}
	for k, parent := range t.parents {
		if parent == number {
			s.Prefixes = append(s.Prefixes, strings.TrimPrefix(t.prefixes[k], s.Stripped))
		}
	}
	return s
}

// SameNames reports whether servers that hold s and servers that hold o store each key under the same name.
func (s *Share) SameNames(o *Share) bool { return s.stripped() == o.stripped() }

func (s *Share) stripped() string {
	if s == nil {
		return ""
	}
	return s.Stripped
}

// Equal reports whether s and o have the same keys and gutters; nil has all keys.
func (s *Share) Equal(o *Share) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Default == o.Default && s.Stripped == o.Stripped && s.Gutter == o.Gutter && slices.Equal(s.Prefixes, o.Prefixes) && s.Routed.Equal(o.Routed)
}

// Own returns the keys that are routed to the pool, without those that it may hold as a gutter.
func (s *Share) Own() *Share {
	if s != nil && s.Routed != nil {
		return s.Routed
	}
	return s
}

// Of returns a Router that places the share's keys as r does, and gives other keys no server.
func (s *Share) Of(r *Router) (*Router, error) {
	const in, out = "in", "out"
	name := map[bool]string{true: in, false: out}
	routes := Routes{Default: name[s.Default]}
	if s.Stripped != "" {
		name = map[bool]string{true: "in without " + s.Stripped, false: out}
		routes.Default = name[s.Default]
	}
	prefixes := slices.Sorted(slices.Values(s.Prefixes))
	for i, prefix := range prefixes {
		inside := s.Default
		for _, shorter := range prefixes[:i+1] {
			if strings.HasPrefix(prefix, shorter) {
				inside = !inside
			}
		}
		routes.Prefixes = append(routes.Prefixes, Prefix{Prefix: prefix, Pool: name[inside]})
	}
	return Compose([]string{name[true], out}, []*Router{r, {}}, routes)
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
