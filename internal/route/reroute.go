package route

import (
	"fmt"
	"slices"
	"strings"
)

// A change of routes gives keys from one pool to another. It goes through the phases of a change of placement (Phase), for such a key from all servers that
// hold it in its pool before to those in its pool behind the change. Either pool may be in a phase of a change of its own: what a middleware writes or deletes is
// still all that one in a neighbouring phase, of any of these, reads. Values don't come along.

// Moved are keys that a change of routes gives to another pool: those with Prefix, by the routes behind the change, and others; "": those without a prefix.
type Moved struct{ From, To, Prefix string }

// rerouting is what a Router of several pools knows of a change of routes.
type rerouting struct {
	phase         Phase
	before, after *Table
}

// passing is what the Router of keys knows that go to another pool.
type passing struct {
	phase    Phase
	from, to *Router
}

// Reroute returns the Router of r's pools in a phase of the change from other routes to r's.
//
// Gutters of pools that get keys, or have another gutter than before, are closed (Options.Closed) in all phases, and for one more, Settled: then nobody stores there any
// more by the routes before, and what they hold is deleted.
func (r *Router) Reroute(before Routes, phase Phase) (*Router, error) {
	if phase == Settled && !slices.ContainsFunc(r.pools, func(p *Router) bool { return p.closed }) {
		return r, nil
	}
	pools, is := r.table.names, r.table
	was, err := NewTable(pools, before)
	if err != nil {
		return nil, err
	}
	for _, m := range r.moves {
		if m.Phase == MigrationDone {
			was = was.redirect(m.From, m.To)
		}
	}
	n := *r
	n.rerouting = &rerouting{phase, was, is}
	if phase == Settled {
		return &n, nil
	}
	n.routed = slices.Clone(r.routed)
	names, numbers := slices.Clone(pools), map[[2]int]int{}
	side := is
	if phase == DeleteNew {
		side = was
	}
	reads := side.forReads()
	// within returns where keys are, and where they are read, given the numbers of their pools.
	within := func(from, to, own, read int) (pool, readIn string) {
		at := from
		if from != to {
			var known bool
			if at, known = numbers[[2]int{from, to}]; !known {
				at = len(names)
				numbers[[2]int{from, to}] = at
				n.routed = append(n.routed, passes(r.servers, r.pools[from], r.pools[to], phase))
				names = append(names, fmt.Sprintf("%s to %s", pools[from], pools[to]))
			}
		}
		if own == read {
			read = at
		}
		return names[at], names[read]
	}
	var routes Routes
	for _, prefix := range prefixesOf(was, is) {
		key := []byte(prefix)
		p := Prefix{Prefix: prefix, Strip: is.strips != nil && is.Prefix(key) == prefix && is.strips[is.find(key)] > 0}
		p.Pool, p.Reads = within(was.Pool(key), is.Pool(key), side.Pool(key), reads.Pool(key))
		routes.Prefixes = append(routes.Prefixes, p)
	}
	routes.Default, routes.Reads = within(was.otherwise, is.otherwise, side.otherwise, reads.otherwise)
	n.table, err = NewTable(names, routes)
	return &n, err
}

// prefixesOf returns the prefixes of both tables, sorted.
func prefixesOf(a, b *Table) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.prefixes, b.prefixes))))
}

// MovedBetween returns from which pools to which keys go where routes change from a table's to another's, which may have other pools.
func MovedBetween(before, after *Table) (moved []Moved) {
	for _, prefix := range append([]string{""}, prefixesOf(before, after)...) {
		key := []byte(prefix)
		m := Moved{before.names[before.Pool(key)], after.names[after.Pool(key)], after.Prefix(key)}
		if m.From != m.To && !slices.ContainsFunc(moved, func(k Moved) bool { return k.From == m.From && k.To == m.To }) {
			moved = append(moved, m)
		}
	}
	return moved
}

// Routes returns the routes by which the table finds pools.
func (t *Table) Routes() (routes Routes) {
	reads := t.forReads()
	for k, prefix := range t.prefixes {
		p := Prefix{Prefix: prefix, Pool: t.names[t.pools[k]], Strip: t.strips != nil && t.strips[k] > 0, Reads: t.names[reads.pools[k]]}
		routes.Prefixes = append(routes.Prefixes, p)
	}
	routes.Default, routes.Reads = t.names[t.otherwise], t.names[reads.otherwise]
	return routes
}

// RoutesBefore returns the routes by which pools had shares, by their numbers; of a pool of which that is not known it is nil. The table's routes count for keys
// that no pool had, and for where a prefix is stripped, which no two middlewares do differently.
func (t *Table) RoutesBefore(shares []*Share) (routes Routes) {
	all := slices.Clone(t.prefixes)
	for _, s := range shares {
		if s != nil && s.Stripped == "" {
			all = append(all, s.Prefixes...)
		}
	}
	// had returns the pool that had the keys that begin with prefix, and with no longer one; is is the one that has them.
	had := func(prefix string, is int) string {
		owner := -1
		for i, s := range shares {
			switch {
			case s == nil && owner < 0:
				owner = i
			case s != nil && s.Stripped == "" && s.has(prefix):
				return t.names[i]
			}
		}
		if owner < 0 {
			owner = is
		}
		return t.names[owner]
	}
	for _, prefix := range slices.Compact(slices.Sorted(slices.Values(all))) {
		k := t.find([]byte(prefix))
		p := Prefix{Prefix: prefix}
		if t.strips != nil && k >= 0 && t.strips[k] > 0 {
			p.Pool, p.Strip = t.names[t.pools[k]], t.prefixes[k] == prefix
		} else {
			p.Pool = had(prefix, t.Pool([]byte(prefix)))
		}
		routes.Prefixes = append(routes.Prefixes, p)
	}
	routes.Default = had("", t.otherwise)
	return routes
}

// has reports whether the keys that begin with prefix, and with no longer one of the share's, are in the pool.
func (s *Share) has(prefix string) bool {
	has := s.Default
	for _, p := range s.Prefixes {
		if strings.HasPrefix(prefix, p) {
			has = !has
		}
	}
	return has
}

// passes returns the Router of keys that go from one pool to another; servers are those of all pools.
func passes(servers []Server, from, to *Router, phase Phase) *Router {
	p := &passing{phase, from, to}
	writes, reads := p.writers(), p.readers()
	return &Router{
		servers: servers, n: max(from.n, to.n), read: reads.read, zone: reads.zone, measures: reads.measures, number: writes.number,
		passing: p, gutters: slices.Concat(from.gutters, to.gutters),
	}
}

// Passes reports whether the keys of the Router, that of a key, go to another pool because routes change.
func (r *Router) Passes() bool { return r.passing != nil }

// Rerouting returns the phase of the change of routes that the Router, of several pools, is of; Settled: there is none.
func (r *Router) Rerouting() Phase {
	if r.rerouting == nil {
		return Settled
	}
	return r.rerouting.phase
}

// Gives reports whether the change of routes gives key to the pool of that number.
func (r *Router) Gives(pool int, key []byte) bool {
	c := r.rerouting
	return c != nil && c.after.Pool(key) == pool && c.before.Pool(key) != pool
}

// Before returns which keys the pool of that number has by the routes before the change of routes, and its gutter; nil: the same as behind it, or there is none.
func (r *Router) Before(number int) *Share {
	c, p := r.rerouting, r.Pools()[number]
	if c == nil || c.phase == Settled && !p.closed {
		return nil
	}
	gutter := p.wanted
	if p.closed {
		gutter = p.former
	}
	before := p.share(c.before.Share(number), gutter)
	if before.Equal(p.share(c.after.Share(number), p.wanted)) {
		return nil
	}
	return before
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
