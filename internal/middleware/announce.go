package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
		read: p.announced,
	}
	if own != nil {
		b.own, b.value = own.name(), own.announcement()
	}
	return b
}

// announced returns the change that value, a record, announces.
func (p *pool) announced(value []byte) (a announced, ok bool) {
	record, err := marker.Decode(value)
	if err != nil || len(record.Previous) != 1 {
		return a, false
	}
	from, to := record.Previous[0], record.Placement
	from.Share, to.Share = nil, nil // the set of keys that the pool has changes independently
	a.Announced = route.Announced{From: fingerprint(from), To: fingerprint(to)}
	a.change = func() driven {
		from, knownFrom := p.located(from, record)
		to, knownTo := p.located(to, record)
		if !knownFrom || !knownTo {
			return nil
		}
		return &change{of: p.poolState, from: from, to: to}
	}
	return a, true
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
		if c, ok := a.change().(*change); ok {
			return &c.to
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

// routesChange is what is announced of a change of routes or gutters.
type routesChange struct {
	From    route.Routes             `json:"from"`
	Gutters map[string]route.Standin `json:"gutters,omitempty"` // as in rerouting
	To      string                   `json:"to"`                // names the routes and gutters after it
}

// named returns a short text that is equal for what is equal in JSON.
func named(v any) string {
	text, _ := json.Marshal(v) // it never fails for what is announced
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// routesName names o's routes and gutters.
func (o *Options) routesName() string {
	a := routesChange{Gutters: map[string]route.Standin{}}
	if table, err := route.NewTable(o.names(), o.Routes); err == nil { // it never fails: o has been validated
		a.From = table.Routes()
	}
	for _, p := range o.Pools {
		if gutter := p.Options.Standin(); gutter.Pool != "" {
			a.Gutters[p.Name] = gutter
		}
	}
	return named(a)
}

// routesBoard returns where changes to this middleware's routes and gutters are announced. A middleware that has
// started knows the routes before the change only from records, so the change is known by what it leads to. r may be
// nil.
func (m *Middleware) routesBoard(r *rerouting) *board {
	own := route.Announced{To: m.options.routesName()}
	b := &board{
		own:  own,
		keys: [numNotices]string{noticeDeleting: marker.RoutesDeletingKey, noticeReading: marker.RoutesReadingKey},
		read: func(value []byte) (a announced, ok bool) {
			var c routesChange
			ok = json.Unmarshal(value, &c) == nil && c.To == own.To
			c.To = ""
			a.Announced = route.Announced{From: named(c), To: own.To}
			a.change = func() driven { return m.current.Load().joining(c) }
			return a, ok
		},
	}
	for _, p := range m.current.Load().pools {
		if p.records != nil && p.options.inPhases(p.step) {
			b.servers = append(b.servers, p.servers...)
		}
	}
	if r != nil {
		b.value, _ = json.Marshal(routesChange{r.from, r.gutters, own.To}) // it never fails
	}
	return b
}

// board returns nil in the last phase: nobody has to know of that.
func (r *rerouting) board(m *Middleware) *board {
	if r.alone || r.phase == route.Settled {
		return nil
	}
	return m.routesBoard(r)
}

// joining returns the change a to c's routes; nil: c lacks a pool that it needs.
func (c *core) joining(a routesChange) driven {
	before, err := route.NewTable(c.options.names(), a.From)
	if err != nil {
		return nil
	}
	r := &rerouting{from: a.From, gutters: map[string]route.Standin{}}
	for pool, gutter := range a.Gutters {
		if c.options.number(pool) < 0 || gutter.Pool != "" && c.options.number(gutter.Pool) < 0 {
			return nil
		}
		r.gutters[pool] = gutter
	}
	r.moved = route.MovedBetween(before, c.router.Table())
	return r
}
