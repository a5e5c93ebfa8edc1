package middleware

import (
	"context"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// announcement is a change of placement that a middleware has announced on the servers. An announcement is put again as
// long as the middleware is in the phase, and then expires.
type announcement struct {
	route.Announced
	record *marker.Record // Placement: to; Previous[0]: from; without shares
}

// announcedOn returns what is announced under key on s, after first has been done there. ok is false if that is
// nothing, or failed.
func announcedOn(ctx context.Context, s *backend.Server, key string, first func(l *link.Link) error) (a announcement,
	ok bool,
) {
	err := s.Talk(ctx, func(l *link.Link) error {
		if err := first(l); err != nil {
			return err
		}
		value, _, err := l.Get(key)
		if err != nil {
			return err
		}
		a.record, err = marker.Decode(value)
		return err
	})
	if err != nil || len(a.record.Previous) != 1 {
		return a, false
	}
	r := a.record
	r.Placement.Share, r.Previous[0].Share = nil, nil // the set of keys that the pool has changes independently
	a.Announced = route.Announced{From: fingerprint(r.Previous[0]), To: fingerprint(r.Placement)}
	return a, true
}

// withdraw deletes what is announced under key on p's servers.
func (p *pool) withdraw(ctx context.Context, key string) {
	p.each(func(s *backend.Server) { _ = s.Talk(ctx, func(l *link.Link) error { return l.Delete(key) }) })
}

// names returns the announced changes.
func names(all []announcement) (names []route.Announced) {
	for _, a := range all {
		names = append(names, a.Announced)
	}
	return names
}

// announce writes on the servers that t's change enters phase, or is in it, and returns what middlewares in the
// neighbouring phase have announced. In the last phase nothing is written, and the announcements for phase delete-new
// are returned. applying is held.
func (m *Middleware) announce(ctx context.Context, t *poolState, phase route.Phase) []announcement {
	c := t.change
	if t.records == nil {
		return nil
	}
	record := marker.Record{
		Placement: c.to.record(), Previous: []marker.Placement{c.from.record()},
		Addresses: map[string]string{}, Entries: map[string]string{},
	}
	for _, p := range []placed{c.from, c.to} {
		for _, s := range p.router.Servers() {
			record.Addresses[s.Name] = s.Addr
			if s.Entry != "" {
				record.Entries[s.Name] = s.Entry
			}
		}
	}
	value, err := record.Encode()
	if err != nil {
		return nil
	}
	key, theirs := marker.DeletingKey, marker.ReadingKey
	if phase != route.DeleteNew {
		key, theirs = theirs, key
	}
	lasts := m.announcementLasts()
	return findOn(m.current.Load().of(t).servers, func(s *backend.Server) (a announcement, ok bool) {
		return announcedOn(ctx, s, theirs, func(l *link.Link) error {
			if phase == route.Settled {
				return nil
			}
			return l.Set(key, value, lasts)
		})
	})
}

// announcementLasts is how long an announcement lasts: until the look after the next one, even if a phase is entered
// meanwhile, which waits for requests and connections.
func (m *Middleware) announcementLasts() time.Duration {
	return m.options.ChangeStep/2 + m.options.longestTimeout() + 2*m.options.ConnectTimeout + time.Second
}

// otherChange announces on the servers that t's change enters phase, and returns the placement to which other
// middlewares are changing from the same placement; nil: there is no other. If two middlewares enter a phase at the
// same time, at least one sees the other, because each first writes its announcement and then reads the other's. If
// both see each other, the one that is about to read by its list gives way. applying is held.
func (m *Middleware) otherChange(ctx context.Context, t *poolState, phase route.Phase) *placed {
	if phase == route.Settled {
		return nil
	}
	p, own := m.current.Load().of(t), t.change.announced()
	other := p.conflict(own, m.announce(ctx, t, phase))
	switch {
	case other == nil:
		return nil
	case phase == route.ReadNew:
		p.withdraw(ctx, marker.ReadingKey)
		return other
	}
	pause(ctx, giveWay)
	return p.conflict(own, m.announce(ctx, t, phase))
}

// giveWay bounds the time in which a middleware that gives way withdraws its announcement.
const giveWay = 500 * time.Millisecond

// conflict returns the placement after a change in all that begins with the same placement as own, and ends with
// another one; nil: there is none.
func (p *pool) conflict(own route.Announced, all []announcement) *placed {
	for _, a := range all {
		if a.From != own.From || a.To == own.To {
			continue
		}
		if to, ok := p.located(a.record.Placement, a.record); ok {
			return &to
		}
	}
	return nil
}

// look announces again on the servers in which phase t's change is, and acts on what others have announced:
//   - Phase delete-new ends at once if others are in read-new, because they dwell there for their own step.
//   - Phase read-new does not end as long as others are in delete-new, in which the previous placement is read.
//   - Until then the marks of servers that were cleaned are kept.
//   - In later phases, a next change that another middleware has begun, and that this one wants, begins here, too.
//
// applying is held.
func (m *Middleware) look(ctx context.Context, t *poolState) {
	c := t.change
	own, others := c.announced(), m.announce(ctx, t, c.phase)
	if mark := m.mark(t); c.phase != route.Settled {
		m.current.Load().of(t).each(func(s *backend.Server) { _ = s.Talk(ctx, mark.Keep) })
	}
	same := slices.Contains(names(others), own)
	switch {
	case c.phase == route.DeleteNew && same:
		c.due = time.Now()
		return
	case c.phase == route.DeleteNew:
		if m.current.Load().of(t).conflict(own, others) != nil {
			m.enterOrLog(ctx, t, route.DeleteNew)
		}
		return
	case c.phase == route.ReadNew && same:
		if soon := time.Now().Add(m.lookEvery()); c.due.Before(soon) {
			c.due = soon
		}
		return
	}
	o := &m.options.Pools[slices.Index(m.poolStates, t)]
	router, _ := route.New(o.Servers, o.Options) // it never fails: o has been validated
	if !slices.Contains(names(others),
		route.Announced{From: own.To, To: fingerprint(placed{router, o.Options}.record())}) {
		return
	}
	t.settled, t.change = c.to, nil
	if m.wants(t, o) {
		m.enterOrLog(ctx, t, route.DeleteNew)
	}
}

// enterOrLog is enter. applying is held.
func (m *Middleware) enterOrLog(ctx context.Context, t *poolState, phase route.Phase) {
	if err := m.enter(ctx, t, phase); err != nil {
		m.options.Log.Error("the placement of keys cannot enter its next phase", "error", err)
	}
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
	if c := p.poolState.change; c != nil && c.phase == route.DeleteNew {
		own.From = fingerprint(c.from.record())
	}
	to := p.conflict(own, p.sightings(ctx, marker.DeletingKey))
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
	if err != nil || !(placed{router, o.Options}).equal(*to) {
		return nil
	}
	return servers
}

// sightings returns what middlewares have announced under key on p's servers.
func (p *pool) sightings(ctx context.Context, key string) []announcement {
	return findOn(p.servers, func(s *backend.Server) (a announcement, ok bool) {
		return announcedOn(ctx, s, key, func(*link.Link) error { return nil })
	})
}

// findOn calls find for each of the servers that is not down, all at the same time, and returns the results that were
// ok.
func findOn[T any](servers []*backend.Server, find func(s *backend.Server) (T, bool)) (found []T) {
	var mu sync.Mutex // guards found
	each(servers, func(s *backend.Server) {
		if result, ok := find(s); ok {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, result)
		}
	})
	return found
}

func (p *pool) each(do func(s *backend.Server)) { each(p.servers, do) }

// each calls do for each of the servers that is not down, all at the same time, and waits for them.
func each(servers []*backend.Server, do func(s *backend.Server)) {
	var doing sync.WaitGroup
	for _, s := range servers {
		if !s.Down() {
			doing.Go(func() { do(s) })
		}
	}
	doing.Wait()
}

// located returns a placement in record, which was read from a server, with the servers' addresses. ok is false if one
// of these is unknown.
func (p *pool) located(read marker.Placement, record *marker.Record) (found placed, ok bool) {
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
	return placed{router, o}, err == nil
}
