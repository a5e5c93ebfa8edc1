package route

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"mcmw/internal/refusal"
)

// Group says which servers hold the keys of a pool, or keys that move from one pool to another. It expects keys as the
// servers store them, and answers with indexes of the Router's servers. It is immutable.
type Group struct {
	servers []Server
	n       int // replicas, resolved
	read    ReadPolicy
	zone    string // the zone that reads prefer; "": none
	hash    HashKind
	tag     [2]byte // zeros: whole keys are hashed
	ring    ring
	// rendezvous places the keys; nil: the ring does.
	rendezvous *rendezvous
	// move says where keys are that move, or of which some servers are filled; nil: they don't, and rendezvous or ring
	// places them. phase is that of a change.
	move  *move
	phase Phase
	// gutter is the pool that serves a key while all its servers are down; nil: none, or it is closed.
	gutter *Group
	// gutters are the pools that may hold keys of this one: its gutter, and while that is closed the previous one as
	// well.
	gutters []*Group
	// isGutter: this pool is the gutter of another pool.
	isGutter bool
	// wanted is the configured gutter, previousGutter the one before a change. closed: neither is used.
	wanted, previousGutter Standin
	closed                 bool
	// measures: the choice of a server for a read depends on the servers' load.
	measures bool
	// number is the pool's number, and base the index of its first server among the servers of all pools.
	number, base int
}

// newGroup returns the Group of a pool that has these servers.
func newGroup(servers []Server, o Options) (*Group, error) {
	if len(servers) == 0 {
		return nil, refusal.Of("servers", "none given; accepted: at least one")
	}
	if refused := o.Check(servers); refused != nil {
		return nil, refused[0]
	}
	g := &Group{servers: slices.Clone(servers), n: o.Replicas, read: o.Read, hash: o.Hash}
	if g.n == 0 {
		g.n = len(servers)
	}
	if g.read == ReadDefault {
		g.read = ReadPrimary
		if g.n == len(servers) {
			g.read = ReadRoundRobin
		}
	}
	if g.read == ReadNearest {
		g.zone = o.Zone
	}
	g.wanted, g.previousGutter, g.closed = o.Standin(), o.PreviousGutter, o.Closed
	g.measures = g.read == ReadLeastBusy
	if o.HashTag != "" {
		g.tag = [2]byte{o.HashTag[0], o.HashTag[1]}
	}
	if o.Ring == RingRendezvous {
		g.rendezvous = newRendezvous(servers)
	} else {
		g.ring = newRing(o.Ring.points(servers, o.Hash), len(servers), g.n)
	}
	return g, nil
}

// Primary returns the index of a key's first server, which decides commands that depend on the item. It allocates
// nothing.
func (g *Group) Primary(key []byte) int {
	switch {
	case len(g.servers) == 1:
		return g.base
	case g.move != nil:
		var room [16]int
		return g.With(Decide, 0, key, room[:0])[0]
	case g.rendezvous != nil:
		return g.base + g.rendezvous.first(g.hashed(key))
	}
	return g.base + int(g.ring.holders(g.hash.sum(g.Hashed(key)))[0])
}

// covers reports whether every key has a holder for which ok returns true.
func (g *Group) covers(ok func(server int) bool) bool {
	own := func(server int) bool { return ok(g.base + server) }
	switch {
	case g.move != nil:
		read := &g.move.sides[0]
		return read.in.covers(func(server int) bool {
			if read.index != nil {
				server = read.index[server]
			}
			return own(server)
		})
	case g.rendezvous != nil:
		return g.rendezvous.covers(own, g.n)
	}
	for holders := range slices.Chunk(g.ring.table, g.n) {
		if !slices.ContainsFunc(holders, func(s uint16) bool { return own(int(s)) }) {
			return false
		}
	}
	return true
}

// gains is Router.Gains for two placements of one pool that both have the server.
func (g *Group) gains(name string, from *Group) bool {
	switch {
	case from.n == len(from.servers):
		return false // it held every key
	case g.tag != from.tag, (g.rendezvous == nil) != (from.rendezvous == nil):
		return true
	case g.rendezvous != nil:
		// With rendezvous hashing a key moves to a server of lower rank only when one of higher rank was removed.
		return g.n > from.n || slices.ContainsFunc(from.servers, func(old Server) bool {
			return !slices.ContainsFunc(g.servers,
				func(now Server) bool { return now.Name == old.Name && max(now.Weight, 1) == max(old.Weight, 1) })
		})
	case g.hash != from.hash:
		return true
	}
	// Between two neighbouring points of both rings the holders are the same.
	holds := func(in *Group, point uint32) bool {
		return slices.ContainsFunc(in.ring.holders(point), func(s uint16) bool { return in.servers[s].Name == name })
	}
	for _, points := range [][]uint32{g.ring.values, from.ring.values} {
		for _, point := range points {
			if holds(g, point) && !holds(from, point) {
				return true
			}
		}
	}
	return false
}

// N returns the number of servers that hold a key; while keys move, the larger number of the two sides.
func (g *Group) N() int { return g.n }

// Servers returns the pool's servers in the order they were given. The caller must not change them.
func (g *Group) Servers() []Server { return g.servers }

// Read returns the read policy, resolved: never ReadDefault.
func (g *Group) Read() ReadPolicy { return g.read }

// Nearest returns the servers that reads prefer among servers, which are of one pool: with ReadNearest those in the
// Group's zone, or all if there are none; with another policy all. It may reorder servers.
func (g *Group) Nearest(servers []int) []int {
	if g.zone == "" {
		return servers
	}
	near := 0
	for i, s := range servers {
		if g.servers[s-g.base].Zone == g.zone {
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
func (g *Group) hashed(key []byte) uint64 { return xxhash.Sum64(g.Hashed(key)) }

// Hashed returns the part of key that is hashed.
func (g *Group) Hashed(key []byte) []byte {
	if g.tag == ([2]byte{}) {
		return key
	}
	open := slices.Index(key, g.tag[0])
	if open < 0 {
		return key
	}
	inner := key[open+1:]
	if end := slices.Index(inner, g.tag[1]); end > 0 {
		return inner[:end]
	}
	return key
}
