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
	"strings"

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
