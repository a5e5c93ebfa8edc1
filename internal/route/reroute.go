package route

import (
	"cmp"
	"fmt"
	"slices"
)

// A change of routes gives keys of one pool to another pool, without their values, in the phases of changeRows. Either
// pool may be in a phase of a change of its own.

// Moved says that a change of routes gives keys of pool From to pool To. Prefix is the first prefix of such keys by the
// routes after the change; "": keys without a prefix.
type Moved struct{ From, To, Prefix string }

// rerouting is a change of routes, as the Router knows it.
type rerouting struct {
	phase         Phase
	before, after *Table
}

// Reroute returns the Router of r's pools in a phase of the change from the routes before to r's routes.
//
// The gutters of pools that get keys, or get another gutter, are closed (Options.Closed) in all phases, and in one more
// at the end, Settled: in that phase nobody stores in them by the previous routes any more, and what they hold is
// deleted.
func (r *Router) Reroute(before Routes, phase Phase) (*Router, error) {
	if phase == Settled && !slices.ContainsFunc(r.pools, func(p *Group) bool { return p.closed }) {
		return r, nil
	}
	pools, current := r.table.names, r.table
	old, err := NewTable(pools, before)
	if err != nil {
		return nil, err
	}
	for _, m := range r.moves {
		if m.Phase == MigrationDone {
			old = old.redirect(m.From, m.To)
		}
	}
	n := *r
	n.rerouting = &rerouting{phase, old, current}
	if phase == Settled {
		return &n, nil
	}
	n.routed = slices.Clone(r.routed)
	side := current // the table that counts in this phase
	if phase == DeleteNew {
		side = old
	}
	reads := side.forReads()
	names, pairs := slices.Clone(pools), map[[2]int]string{}
	// name returns the name of the Group, in n.routed, of the keys that the change gives from one pool to another, or
	// that stay.
	name := func(from, to int) string {
		pair := [2]int{from, to}
		if from == to || pairs[pair] != "" {
			return cmp.Or(pairs[pair], pools[from])
		}
		g := between(r.servers, r.pools[from], r.pools[to], changeRows[phase])
		if g.phase = phase; phase == ReadNew {
			g.number = to
		}
		pairs[pair] = fmt.Sprintf("%s to %s", pools[from], pools[to])
		n.routed, names = append(n.routed, g), append(names, pairs[pair])
		return pairs[pair]
	}
	var routes Routes
	for _, prefix := range prefixesOf(old, current) {
		key := []byte(prefix)
		p := Prefix{Prefix: prefix, Pool: name(old.Pool(key), current.Pool(key))}
		if read := reads.Pool(key); read != side.Pool(key) {
			p.Reads = pools[read]
		}
		k := current.find(key)
		p.Strip = current.prefixes[k] == prefix && current.strips[k] > 0
		routes.add(p)
	}
	n.table, err = NewTable(names, routes)
	return &n, err
}

// prefixesOf returns the prefixes of both tables, each once, sorted.
func prefixesOf(a, b *Table) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.prefixes, b.prefixes))))
}

// MovedBetween returns, once for each pair of pools, which keys move when the routes change from one table to another.
// The tables may have different pools.
func MovedBetween(before, after *Table) (moved []Moved) {
	for _, prefix := range prefixesOf(before, after) {
		key := []byte(prefix)
		m := Moved{before.names[before.Pool(key)], after.names[after.Pool(key)], after.Prefix(key)}
		if m.From != m.To && !slices.ContainsFunc(moved,
			func(k Moved) bool { return k.From == m.From && k.To == m.To }) {
			moved = append(moved, m)
		}
	}
	return moved
}

// Routes returns the routes that the table was made from.
func (t *Table) Routes() (routes Routes) {
	for k, prefix := range t.prefixes {
		routes.add(Prefix{
			Prefix: prefix, Pool: t.names[t.pools[k]], Strip: t.strips[k] > 0, Reads: t.names[t.reads[k]],
		})
	}
	return routes
}

// RoutesBefore returns routes by which the pools had shares; shares are by pool number, nil if unknown. For keys that
// no pool had, and for prefixes that are stripped, it uses the table's own routes: all middlewares strip the same
// prefixes.
func (t *Table) RoutesBefore(shares []*Share) (routes Routes) {
	all := slices.Clone(t.prefixes)
	for _, s := range shares {
		if s != nil && s.Stripped == "" {
			all = append(all, s.Prefixes...)
		}
	}
	// had returns the name of the pool that had the keys whose longest prefix is prefix; now is the number of the pool
	// that has them by the table.
	had := func(prefix string, now int) string {
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
			owner = now
		}
		return t.names[owner]
	}
	for _, prefix := range slices.Compact(slices.Sorted(slices.Values(all))) {
		k := t.find([]byte(prefix))
		p := Prefix{Prefix: prefix}
		if t.strips[k] > 0 {
			p.Pool, p.Strip = t.names[t.pools[k]], t.prefixes[k] == prefix
		} else {
			p.Pool = had(prefix, t.Pool([]byte(prefix)))
		}
		routes.add(p)
	}
	return routes
}

// between returns the Group of keys that go from one pool to another; servers are the servers of all pools.
func between(servers []Server, from, to *Group, row Row) *Group {
	m := newMove(row, from, to)
	reads := m.sides[0].in
	return &Group{
		servers: servers, n: max(from.n, to.n), read: reads.read, zone: reads.zone, measures: reads.measures,
		number: from.number, move: m,
	}
}

// Rerouting returns the phase of the change of routes that the Router was made for; Settled: there is
// none.
func (r *Router) Rerouting() Phase {
	if r.rerouting == nil {
		return Settled
	}
	return r.rerouting.phase
}

// Gives reports whether the change of routes gives key to the pool with that number.
func (r *Router) Gives(pool int, key []byte) bool {
	c := r.rerouting
	return c != nil && c.after.Pool(key) == pool && c.before.Pool(key) != pool
}

// Before returns the share of the pool with that number by the routes before the change of routes, with its previous
// gutter; nil: it does not change.
func (r *Router) Before(number int) *Share {
	c, p := r.rerouting, r.pools[number]
	if c == nil || c.phase == Settled && !p.closed {
		return nil
	}
	gutter := p.wanted
	if p.closed {
		gutter = p.previousGutter
	}
	before := p.share(c.before.Share(number), gutter)
	if before.Equal(p.share(c.after.Share(number), p.wanted)) {
		return nil
	}
	return before
}
