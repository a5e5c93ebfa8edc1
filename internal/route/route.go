// Package route decides which servers hold a key. It is pure: no sockets, no clocks, no metrics.
//
// By default keys are placed by rendezvous hashing of the servers' names and the key's XXH64: each server holds an
// equal share, or one in proportion to its weight, and few keys move when servers are added or removed.
//
// A move from another proxy or client keeps the cache warm only if every key stays where it is. Therefore the rings of
// other programs (ketama) are supported, too: a key hashes to a position on the ring; the server of the next point is
// its primary, and the following distinct servers hold its other replicas. The points and the hash are options:
//
//	program that placed the keys so far                                 ring                   hash
//	twemproxy, distribution ketama (its default)                        twemproxy              as its "hash" (default fnv1a_64)
//	libmemcached, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, or any weight > 1 libmemcached-weighted  md5
//	libmemcached, MEMCACHED_BEHAVIOR_KETAMA or DISTRIBUTION_CONSISTENT  libmemcached           as its "hash" (default one_at_a_time)
//
// libmemcached sets no hash with KETAMA alone: MEMCACHED_BEHAVIOR_HASH decides, and hashes the points of its unweighted
// ring as well as the keys. Where a weight > 1 turned its ring into the weighted one without KETAMA_WEIGHTED, the keys
// keep the hash of MEMCACHED_BEHAVIOR_HASH, too.
package route

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"mcmw/internal/refusal"
)

// Server is one memcached server as the operator names it.
type Server struct {
	// Name is hashed to place keys, and identifies the server in metrics, logs and errors. It stays when the address
	// changes.
	Name string
	// Addr is the address to dial: "host:port" or "unix:/path".
	Addr string
	// Weight is the server's share of the ring relative to the others; 0 means 1.
	Weight int
	// Zone is where the server is, for ReadNearest; "": unknown.
	Zone string `json:"Zone,omitempty"`
	// Entry is the name that is looked up to find the server, in the form that a list of servers has it; "": the list
	// names the server itself. A Router ignores it.
	Entry string `json:"-"`
	// Pool is the name of the pool in whose list the server is, until the servers are divided by pools. A Router
	// ignores it.
	Pool string `json:"-"`
}

// Options say how keys are placed and read. The zero value means replicas all, rendezvous hashing, and ReadDefault.
type Options struct {
	// Replicas is the number of servers that hold a key; 0 means all.
	Replicas int
	// Ring selects how a key is mapped to servers: by rendezvous hashing, or on the ring of another program.
	Ring RingKind
	// Hash is the hash of the key on a ring (and, with RingLibmemcached, of the servers' points).
	Hash HashKind
	// HashTag is two characters, like twemproxy's hash_tag: if a key has text between the first occurrence of the first
	// character and the next occurrence of the second, only that text is hashed. "" hashes whole keys.
	HashTag string
	// Read selects the replica that serves a read.
	Read ReadPolicy
	// Zone is the zone that ReadNearest prefers; "": none.
	Zone string
	// Gutter is the name of the pool that serves a key while all its servers in this pool are down; "": none. An item
	// stored there lives for at most GutterTTL seconds.
	Gutter    string
	GutterTTL int
	// Closed: neither the gutter nor the previous one is used now. Each write deletes its key in both.
	Closed         bool
	PreviousGutter Standin
}

// Router says which servers hold a key. It is immutable and safe for concurrent use.
type Router struct {
	servers []Server
	n       int // replicas, resolved
	read    ReadPolicy
	zone    string // the zone that reads prefer; "": none
	hash    HashKind
	tagged  bool
	tag     [2]byte
	ring    ring
	// rendezvous places the keys; nil: the ring does.
	rendezvous *rendezvous
	// move says where keys are that move, or of which some servers are filled; nil: they don't, and rendezvous or ring
	// places them. phase is that of a change.
	move  *move
	phase Phase
	// gutter is the pool that serves a key while all its servers are down; nil: none, or it is closed.
	gutter *Router
	// gutters are the pools that may hold keys of this one: its gutter, and while that is closed the previous one as
	// well.
	gutters []*Router
	// isGutter: this pool is the gutter of another pool.
	isGutter bool
	// wanted is the configured gutter, previousGutter the one before a change. closed: neither is used.
	wanted, previousGutter Standin
	closed                 bool
	// measures: the choice of a server for a read depends on the servers' load.
	measures bool
	// number is the pool's number, and base the index of its first server among the servers of all pools.
	number, base int

	// A Router of several pools uses servers, n and measures from above, and these fields; see In. In a Router of one
	// pool they are nil.
	pools  []*Router
	table  *Table
	owners []uint16 // by server: its pool
	// routed has the Router for the keys of each pool: the one in pools, or one of two pools while the keys go to
	// another pool. moves are the migrations.
	routed []*Router
	moves  []Move

	// rerouting is set in the Router of several pools whose routes change; otherwise nil.
	rerouting *rerouting
}

// New returns the Router for servers. The Router answers with indexes into servers.
func New(servers []Server, o Options) (*Router, error) {
	if len(servers) == 0 {
		return nil, refusal.Of("servers", "none given; accepted: at least one")
	}
	if refused := o.Check(servers); refused != nil {
		return nil, refused[0]
	}
	r := &Router{servers: slices.Clone(servers), n: o.Replicas, read: o.Read, hash: o.Hash}
	if r.n == 0 {
		r.n = len(servers)
	}
	if r.read == ReadDefault {
		r.read = ReadPrimary
		if r.n == len(servers) {
			r.read = ReadRoundRobin
		}
	}
	if r.read == ReadNearest {
		r.zone = o.Zone
	}
	r.wanted, r.previousGutter, r.closed = o.Standin(), o.PreviousGutter, o.Closed
	r.measures = r.read == ReadLeastBusy
	if o.HashTag != "" {
		r.tagged, r.tag = true, [2]byte{o.HashTag[0], o.HashTag[1]}
	}
	switch {
	case o.Ring == RingRendezvous:
		r.rendezvous = newRendezvous(servers)
	case len(servers) > 1:
		r.ring = newRing(o.Ring.points(servers, o.Hash), len(servers), r.n)
	}
	return r, nil
}

// Check returns what is wrong with o, or with these servers: *refusal.Errors. Without servers it checks o alone.
func (o Options) Check(servers []Server) (refused []error) {
	refuse := func(option, text string, args ...any) { refused = append(refused, refusal.Of(option, text, args...)) }
	if len(servers) > maxServers {
		refuse("servers", "%d given; accepted: 1 to %d", len(servers), maxServers)
	}
	if err := cmp.Or(RingNames.Check(o.Ring), HashNames.Check(o.Hash), ReadPolicyNames.Check(o.Read)); err != nil {
		return append(refused, err)
	}
	if o.Ring == RingRendezvous && o.Hash != HashDefault {
		refuse("hash", "%q needs a ketama ring, and ring is %q; accepted: default, or one of the rings %s", o.Hash,
			o.Ring, strings.Join(RingNames.All()[1:], ", "))
	}
	if o.HashTag != "" && len(o.HashTag) != 2 {
		refuse("hash-tag", "%q has %d bytes; accepted: two, as in {}, or none", o.HashTag, len(o.HashTag))
	}
	if n := len(servers); n > 0 && (o.Replicas < 0 || o.Replicas > n) {
		refuse("replicas", "\"%d\" is more than there are servers (%d); accepted: all, or 1 to %d", o.Replicas, n, n)
	}
	names := make(map[string]int, len(servers)) // hashed name -> index
	for i, s := range servers {
		id := o.Ring.identity(s.Name)
		j, known := names[id]
		names[id] = i
		switch {
		case s.Name == "":
			refuse("servers", "server %d (address %q) has an empty name; accepted: a name that no other server has",
				i+1, s.Addr)
		case s.Weight < 0 || s.Weight > maxWeight:
			refuse("servers", "server %q has weight %d; accepted: 1 to %d, or 0 for 1", s.Name, s.Weight, maxWeight)
		case s.Weight > 1 && o.Ring == RingLibmemcached:
			refuse("servers", "server %q has weight %d, but ring %s has no weights; accepted: weight 1, or ring %s",
				s.Name, s.Weight, RingLibmemcached, RingLibmemcachedWeighted)
		case !known:
			continue
		case servers[j].Name == s.Name:
			refuse("servers", "servers %d and %d are both named %q; accepted: distinct names", j+1, i+1, s.Name)
		default:
			refuse("servers",
				"servers %q and %q have the same position on the ring (%q is hashed for both); accepted: distinct "+
					"names", servers[j].Name, s.Name, id)
		}
		return refused
	}
	return refused
}

// Primary returns the index of a key's first server, which decides commands that depend on the item. It allocates
// nothing.
func (r *Router) Primary(key []byte) int {
	r, key = r.At(key)
	switch {
	case len(r.servers) == 1:
		return r.base
	case r.move != nil:
		var room [16]int
		return r.With(Decide, 0, key, room[:0])[0]
	case r.rendezvous != nil:
		return r.base + r.rendezvous.first(r.hashed(key))
	}
	return r.base + int(r.ring.holders(r.hash.sum(r.Hashed(key)))[0])
}

// Covers reports whether every key has a holder for which ok returns true.
func (r *Router) Covers(ok func(server int) bool) bool {
	if r.pools != nil {
		return !slices.ContainsFunc(r.pools, func(p *Router) bool { return !p.Covers(ok) })
	}
	if base := r.base; base > 0 {
		all := ok
		ok = func(server int) bool { return all(base + server) }
	}
	if len(r.servers) == 1 {
		return ok(0)
	}
	if r.move != nil {
		read := &r.move.sides[0]
		if read.index != nil {
			all := ok
			ok = func(server int) bool { return all(read.index[server]) }
		}
		return read.in.Covers(ok)
	}
	if r.rendezvous != nil {
		return r.rendezvous.covers(ok, r.n)
	}
	for holders := range slices.Chunk(r.ring.table, r.n) {
		if !slices.ContainsFunc(holders, func(s uint16) bool { return ok(int(s)) }) {
			return false
		}
	}
	return true
}

// Holds reports whether the server called name holds key.
func (r *Router) Holds(name string, key []byte) bool {
	var room [16]int
	r, key = r.At(key)
	return slices.ContainsFunc(r.Replicas(key, room[:0]), func(s int) bool { return r.servers[s-r.base].Name == name })
}

// Gains reports whether there may be a key that the server called name holds by r, but not by from.
func (r *Router) Gains(name string, from *Router) bool {
	named := func(s Server) bool { return s.Name == name }
	if r.pools != nil || from.pools != nil {
		return r.gainsOfPools(named, name, from)
	}
	switch {
	case !slices.ContainsFunc(r.servers, named):
		return false
	case !slices.ContainsFunc(from.servers, named):
		return true
	case from.n == len(from.servers):
		return false // it held every key
	case r.tagged != from.tagged, r.tag != from.tag, (r.rendezvous == nil) != (from.rendezvous == nil),
		len(r.servers) == 1:
		return true
	case r.rendezvous != nil:
		// With rendezvous hashing a key moves to a server of lower rank only when one of higher rank was removed.
		return r.n > from.n || slices.ContainsFunc(from.servers, func(old Server) bool {
			return !slices.ContainsFunc(r.servers,
				func(now Server) bool { return now.Name == old.Name && max(now.Weight, 1) == max(old.Weight, 1) })
		})
	case r.hash != from.hash:
		return true
	}
	// Between two neighbouring points of both rings the holders are the same.
	holds := func(r *Router, point uint32) bool {
		return slices.ContainsFunc(r.ring.holders(point), func(s uint16) bool { return r.servers[s].Name == name })
	}
	for _, points := range [][]uint32{r.ring.values, from.ring.values} {
		for _, point := range points {
			if holds(r, point) && !holds(from, point) {
				return true
			}
		}
	}
	return false
}

// N returns the number of servers that hold a key; during a change of placement, and with several pools, the largest
// number. A key that a gutter may serve counts as held by at least two.
func (r *Router) N() int { return r.n }

// Servers returns the servers in the order they were given. The caller must not change them.
func (r *Router) Servers() []Server { return r.servers }

// Read returns the read policy of a pool, resolved: never ReadDefault.
func (r *Router) Read() ReadPolicy { return r.read }

// Measures reports whether the choice of a server for a read depends on the servers' load.
func (r *Router) Measures() bool { return r.measures }

// Nearest returns the servers that reads prefer among servers, which are of one pool: with ReadNearest those in the
// Router's zone, or all if there are none; with another policy all. It may reorder servers.
func (r *Router) Nearest(servers []int) []int {
	if r.zone == "" {
		return servers
	}
	near := 0
	for i, s := range servers {
		if r.servers[s-r.base].Zone == r.zone {
			servers[near], servers[i] = s, servers[near]
			near++
		}
	}
	if near > 0 {
		return servers[:near]
	}
	return servers
}

// hashed returns the hash of key with which rendezvous hashing places it.
func (r *Router) hashed(key []byte) uint64 { return xxhash.Sum64(r.Hashed(key)) }

// Hashed returns the part of key that is hashed.
func (r *Router) Hashed(key []byte) []byte {
	if !r.tagged {
		return key
	}
	open := slices.Index(key, r.tag[0])
	if open < 0 {
		return key
	}
	inner := key[open+1:]
	if end := slices.Index(inner, r.tag[1]); end > 0 {
		return inner[:end]
	}
	return key
}
