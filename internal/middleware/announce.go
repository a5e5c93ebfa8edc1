package middleware

import (
	"context"
	"errors"
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

// announcedIn are the keys under which a middleware in a phase announces it.
var announcedIn = [route.NumPhases][]string{
	route.DeleteNew: {marker.DeletingKey}, route.Copy: {marker.CopyingKey},
	route.HandOver: {marker.CopyingKey, marker.ReadingKey}, route.ReadNew: {marker.ReadingKey},
}

// sightings are what middlewares have announced, by key.
type sightings map[string][]announcement

// of reports whether somebody has announced change under key.
func (s sightings) of(key string, change route.Announced) bool {
	return slices.Contains(names(s[key]), change)
}

// all returns all of s.
func (s sightings) all() []announcement {
	return slices.Concat(s[marker.DeletingKey], s[marker.CopyingKey], s[marker.ReadingKey])
}

// sightAll returns what middlewares have announced on p's servers, except under the keys in without.
func (p *pool) sightAll(ctx context.Context, without ...string) sightings {
	all := sightings{}
	for _, key := range []string{marker.DeletingKey, marker.CopyingKey, marker.ReadingKey} {
		if !slices.Contains(without, key) {
			all[key] = p.sightings(ctx, key)
		}
	}
	return all
}

// announce writes on the servers that t's change enters phase, or is in it, and returns what middlewares in other
// phases have announced. In the last phase nothing is written. applying is held.
func (m *Middleware) announce(ctx context.Context, t *poolState, phase route.Phase) sightings {
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
	p, lasts := m.current.Load().of(t), m.announcementLasts()
	p.each(func(s *backend.Server) {
		_ = s.Talk(ctx, func(l *link.Link) (err error) {
			for _, key := range announcedIn[phase] {
				err = errors.Join(err, l.Set(key, value, lasts))
			}
			return err
		})
	})
	return p.sightAll(ctx, announcedIn[phase]...)
}

// leave withdraws what announce has written for phase, except what it writes for phase next. A middleware that stays in
// the phase announces it again.
func (m *Middleware) leave(ctx context.Context, t *poolState, phase, next route.Phase) {
	for _, key := range announcedIn[phase] {
		if !slices.Contains(announcedIn[next], key) {
			m.current.Load().of(t).withdraw(ctx, key)
		}
	}
}

// announcementLasts is how long an announcement lasts: until the look after the next one, even if a phase is entered
// meanwhile, which waits for requests and connections.
func (m *Middleware) announcementLasts() time.Duration {
	return m.options.ChangeStep/2 + m.options.longestTimeout() + 2*m.options.ConnectTimeout + time.Second
}

// otherChange announces on the servers that t's change enters phase, and returns the placement to which other
// middlewares are changing from the same placement, nil if there is no other, and what others have announced. If two
// middlewares enter a phase at the same time, at least one sees the other, because each first writes its announcement
// and then reads the other's. If both see each other, the one that is about to read by its list gives way. applying is
// held.
func (m *Middleware) otherChange(ctx context.Context, t *poolState, phase route.Phase) (other *placed, seen sightings) {
	if phase == route.Settled {
		return nil, nil
	}
	p, own := m.current.Load().of(t), t.change.announced()
	seen = m.announce(ctx, t, phase)
	other = p.conflict(own, seen.all())
	switch {
	case other == nil:
		return nil, seen
	case phase != route.DeleteNew:
		m.leave(ctx, t, phase, route.Settled)
		return other, seen
	}
	pause(ctx, giveWay)
	seen = m.announce(ctx, t, phase)
	return p.conflict(own, seen.all()), seen
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
//   - Phase delete-new ends at once if others are in a later phase, because they dwell there for their own step.
//   - Phase copy ends at once if others hand over or read by the new placement. Until then copying begins when it is
//     due and nobody is in delete-new.
//   - Phase read-new does not end as long as others are in an earlier phase, in which the previous placement is read.
//   - Until then the marks of servers that were cleaned are kept.
//   - In later phases, a next change that another middleware has begun, and that this one wants, begins here, too.
//
// applying is held.
func (m *Middleware) look(ctx context.Context, t *poolState) {
	c := t.change
	own, others := c.announced(), m.announce(ctx, t, c.phase)
	deleting, copying, reading := others.of(marker.DeletingKey, own), others.of(marker.CopyingKey, own),
		others.of(marker.ReadingKey, own)
	if mark := m.mark(t); c.phase != route.Settled {
		m.current.Load().of(t).each(func(s *backend.Server) { _ = s.Talk(ctx, mark.Keep) })
	}
	switch {
	case c.phase == route.DeleteNew && (copying || reading):
		c.due = time.Now()
		return
	case c.phase == route.DeleteNew:
		if m.current.Load().of(t).conflict(own, others.all()) != nil {
			m.enterOrLog(ctx, t, route.DeleteNew)
		}
		return
	case c.phase == route.Copy && reading:
		c.due = time.Now()
		c.stopCopying()
		return
	case c.phase == route.Copy:
		if c.copying == nil && !deleting && !time.Now().Before(c.due) {
			m.beginCopying(t)
		}
		return
	case c.phase == route.HandOver:
		return
	case c.phase == route.ReadNew && (deleting || copying):
		if soon := time.Now().Add(m.lookEvery()); c.due.Before(soon) {
			c.due = soon
		}
		return
	}
	o := &m.options.Pools[slices.Index(m.poolStates, t)]
	router, _ := route.New(o.Servers, o.Options) // it never fails: o has been validated
	if !slices.Contains(names(others.all()),
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
	if c := p.poolState.change; c != nil && c.readsOld() {
		own.From = fingerprint(c.from.record())
	}
	to := p.conflict(own, p.sightAll(ctx, marker.ReadingKey).all())
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
