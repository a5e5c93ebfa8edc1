package route

import (
	"fmt"
	"slices"
)

// A change of routes gives keys from one pool to another. It goes through the phases of a change of placement (Phase), for such a key from all servers that
// hold it in its pool before to those in its pool behind the change. Both pools may be in a phase of a change of their own: what a middleware writes or deletes is
// still all that one in a neighbouring phase, of either, reads. Values don't come along.

// Moved are keys that a change of routes gives to another pool. From and To are the pools' numbers.
type Moved struct{ From, To int }

// rerouting is what a Router of several pools knows of a change of routes.
type rerouting struct {
	phase         Phase
	before, after *Table
	moved         []Moved
}

// passing is what the Router of keys knows that go to another pool.
type passing struct {
	phase    Phase
	from, to *Router
}

// Reroute returns the Router of r's pools, which Compose made with the routes after, in a phase of the change from other routes to these.
func (r *Router) Reroute(before, after Routes, phase Phase) (*Router, error) {
	if phase == Settled {
		return r, nil
	}
	pools := r.table.names
	was, err := NewTable(pools, before)
	if err != nil {
		return nil, err
	}
	n, is := *r, r.table
	n.routed, n.rerouting = slices.Clone(r.routed), &rerouting{phase: phase, before: was, after: is}
	names := slices.Clone(pools)
	side, reads := is, is.forReads()
	if phase == DeleteNew {
		side, reads = was, was.forReads()
	}
	// within returns where keys are, and where they are read, by the numbers of their pools in the tables' order.
	within := func(from, to, own, read int) (pool, readIn string) {
		at := from
		if m := (Moved{from, to}); from != to {
			k := slices.Index(n.rerouting.moved, m)
			if k < 0 {
				k = len(n.rerouting.moved)
				n.rerouting.moved = append(n.rerouting.moved, m)
				n.routed = append(n.routed, passes(r.servers, r.pools[from], r.pools[to], phase))
				names = append(names, fmt.Sprintf("%d to %d", from, to))
			}
			at = len(pools) + k
		}
		if own == read {
			read = at
		}
		return names[at], names[read]
	}
	prefixes := slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.prefixes, is.prefixes))))
	var routes Routes
	for _, prefix := range prefixes {
		key := []byte(prefix)
		p := Prefix{Prefix: prefix, Strip: is.strips != nil && is.Prefix(key) == prefix && is.strips[is.find(key)] > 0}
		p.Pool, p.Reads = within(was.Pool(key), is.Pool(key), side.Pool(key), reads.Pool(key))
		routes.Prefixes = append(routes.Prefixes, p)
	}
	routes.Default, routes.Reads = within(was.otherwise, is.otherwise, side.otherwise, reads.otherwise)
	n.table, err = NewTable(names, routes)
	return &n, err
}

// passes returns the Router of keys that go from one pool to another; servers are those of all pools.
func passes(servers []Server, from, to *Router, phase Phase) *Router {
	p := &passing{phase, from, to}
	writes, reads := p.writers(), p.readers()
	return &Router{servers: servers, n: max(from.n, to.n), read: reads.read, zone: reads.zone, measures: reads.measures, number: writes.number, passing: p}
}

// Passes reports whether the keys of the Router, that of a key, go to another pool because routes change.
func (r *Router) Passes() bool { return r.passing != nil }

// Moved returns which keys a change of routes gives to other pools, if the Router is of one.
func (r *Router) Moved() []Moved {
	if r.rerouting == nil {
		return nil
	}
	return r.rerouting.moved
}

// Gives reports whether the change of routes gives key to the pool of that number.
func (r *Router) Gives(pool int, key []byte) bool {
	c := r.rerouting
	return c != nil && c.after.Pool(key) == pool && c.before.Pool(key) != pool
}

// Before returns which keys the pool of that number has by the routes before the change of routes; nil as with Share, or because there is no change.
func (r *Router) Before(number int) *Share {
	if r.rerouting == nil || r.pools[number].isGutter {
		return nil
	}
	return r.rerouting.before.Share(number)
}

// writers returns the pool whose servers are written.
func (p *passing) writers() *Router {
	if p.phase == ReadNew {
		return p.to
	}
	return p.from
}

// readers returns the pool whose servers are read.
func (p *passing) readers() *Router {
	if p.phase == DeleteNew {
		return p.from
	}
	return p.to
}

// moves is Moves.
func (p *passing) moves(key []byte) bool { return p.phase == Late || p.readers().Moves(key) }

// appendEmptied is Emptied: all servers of either pool that are not written.
func (p *passing) appendEmptied(key []byte, dst []int) []int {
	dst = p.to.Emptied(key, p.from.Emptied(key, dst))
	if p.phase == ReadNew {
		return p.from.Replicas(key, dst)
	}
	return p.to.Replicas(key, dst)
}
