package middleware

import (
	"context"
	"slices"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// board returns where changes of p's placement are announced: as a record with the new placement and the previous one.
// own may be nil.
func (p *pool) board(own *change) *board {
	b := &board{
		servers: p.servers, keys: [numNotices]string{marker.DeletingKey, marker.CopyingKey, marker.ReadingKey},
		name: func(value []byte) (name route.Announced, ok bool) {
			_, name, ok = decodeChange(value)
			return name, ok
		},
	}
	if own != nil {
		b.own, b.value = own.name(), own.announcement()
	}
	return b
}

// decodeChange returns the record that announces a change, and the change's name.
func decodeChange(value []byte) (r *marker.Record, name route.Announced, ok bool) {
	r, err := marker.Decode(value)
	if err != nil || len(r.Previous) != 1 {
		return nil, name, false
	}
	r.Placement.Share, r.Previous[0].Share = nil, nil // the set of keys that the pool has changes independently
	return r, route.Announced{From: fingerprint(r.Previous[0]), To: fingerprint(r.Placement)}, true
}

func (c *change) board(m *Middleware) *board {
	if c.of.records == nil {
		return nil
	}
	return m.current.Load().of(c.of).board(c)
}

// announcement returns what is announced of c.
func (c *change) announcement() []byte {
	record := marker.Record{
		Placement: c.to.record(), Previous: []marker.Placement{c.from.record()},
		Addresses: map[string]string{}, Entries: map[string]string{},
	}
	for _, p := range []placement{c.from, c.to} {
		for _, s := range p.router.Servers() {
			record.Addresses[s.Name] = s.Addr
			if s.Entry != "" {
				record.Entries[s.Name] = s.Entry
			}
		}
	}
	value, _ := record.Encode() // it never fails
	return value
}

// conflict returns the list to which others change instead of to c's; nil: they don't. applying is held.
func (m *Middleware) conflict(c *change, seen sightings) *placement {
	return m.current.Load().of(c.of).conflict(c.name(), seen)
}

// conflict returns the placement after a change in seen that begins with the same placement as own, and ends with
// another one; nil: there is none.
func (p *pool) conflict(own route.Announced, seen sightings) *placement {
	for _, a := range seen.all() {
		if a.From != own.From || a.To == own.To {
			continue
		}
		record, _, _ := decodeChange(a.value) // it never fails: a has its name
		if to, ok := p.located(record.Placement, record); ok {
			return &to
		}
	}
	return nil
}

// Elsewhere returns, for each pool of which another middleware is changing from the list of this one to another, that
// list, as announced on the servers. A middleware that can't look up its servers follows others by this: an
// announcement lasts as long as a middleware is in the phase, so a middleware that looks once within each step and
// applies what it finds is at most one phase behind.
func (m *Middleware) Elsewhere(ctx context.Context) (servers []route.Server) {
	m.applying.Lock()
	defer m.applying.Unlock()
	if m.work == nil {
		return nil
	}
	for i, o := range m.options.Pools {
		servers = append(servers, m.elsewhere(ctx, m.current.Load().of(m.poolStates[i]), &o)...)
	}
	return servers
}

// elsewhere is Elsewhere for the pool p, which has the options o. applying is held.
func (m *Middleware) elsewhere(ctx context.Context, p *pool, o *PoolOptions) []route.Server {
	if p == nil || p.records == nil || !p.options.inPhases(p.step) {
		return nil
	}
	wanted := fingerprint(p.wanted().record())
	own := route.Announced{From: wanted, To: wanted}
	if c := p.poolState.change; c != nil && c.readsOld() {
		own.From = fingerprint(c.from.record())
	}
	to := p.conflict(own, p.board(nil).sight(ctx, noticeReading))
	if to == nil {
		return nil
	}
	// Only the servers may differ: options come from the configuration, not from a lookup.
	servers := slices.Clone(to.router.Servers())
	for i := range servers {
		servers[i].Pool = p.name
		if at := slices.IndexFunc(o.Servers, func(s route.Server) bool { return s.Name == servers[i].Name }); at >= 0 {
			servers[i].Zone = o.Servers[at].Zone
		}
	}
	router, err := route.New(servers, o.Options)
	if err != nil || !(placement{router, o.Options}).equal(*to) {
		return nil
	}
	return servers
}

// located returns a placement in record, which was read from a server, with the servers' addresses. ok is false if one
// of these is unknown.
func (p *pool) located(read marker.Placement, record *marker.Record) (found placement, ok bool) {
	o, err := read.Options()
	if err != nil {
		return found, false
	}
	servers := slices.Clone(read.Servers)
	for i := range servers {
		s := &servers[i]
		s.Entry = record.Entries[s.Name]
		if s.Addr = record.Addresses[s.Name]; s.Addr == "" &&
			!slices.ContainsFunc(p.servers, func(b *backend.Server) bool { return b.Name == s.Name }) {
			return found, false
		}
	}
	router, err := route.New(servers, o)
	return placement{router, o}, err == nil
}
