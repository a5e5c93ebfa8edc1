package middleware

import (
	"context"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// placementsSeen are changes of a pool's placement that middlewares have announced: as a record with the new placement
// and the previous one.
type placementsSeen = sightings[*marker.Record]

// board returns where changes of p's placement are announced.
func (p *pool) board() *board[*marker.Record] {
	return &board[*marker.Record]{
		p.servers,
		[numNotices]string{marker.DeletingKey, marker.CopyingKey, marker.ReadingKey},
		func(value []byte) (a announced[*marker.Record], ok bool) {
			r, err := marker.Decode(value)
			if err != nil || len(r.Previous) != 1 {
				return a, false
			}
			r.Placement.Share, r.Previous[0].Share = nil, nil // the set of keys that the pool has changes independently
			name := route.Announced{From: fingerprint(r.Previous[0]), To: fingerprint(r.Placement)}
			return announced[*marker.Record]{name, r}, true
		},
	}
}

// announcement returns what is announced of c.
func (c *change) announcement() []byte {
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
	value, _ := record.Encode() // it never fails
	return value
}

// announce announces that t's change enters phase, or is in it; see board. applying is held.
func (m *Middleware) announce(ctx context.Context, t *poolState, phase route.Phase) (seen placementsSeen) {
	if t.records == nil {
		return seen
	}
	return m.current.Load().of(t).board().announce(ctx, phase, t.change.announcement(), m.announcementLasts())
}

// announcementLasts is how long an announcement lasts: until the look after the next one, even if a phase is entered
// meanwhile, which waits for requests and connections.
func (m *Middleware) announcementLasts() time.Duration {
	return m.options.ChangeStep/2 + m.options.longestTimeout() + 2*m.options.ConnectTimeout + time.Second
}

// otherChange announces on the servers that t's change enters phase, and returns the placement to which other
// middlewares are changing from the same placement, nil if there is no other, and what others have announced. If two
// middlewares see each other, the one that is about to read by its list gives way. applying is held.
func (m *Middleware) otherChange(ctx context.Context, t *poolState, phase route.Phase) (other *placed,
	seen placementsSeen,
) {
	if phase == route.Settled {
		return nil, seen
	}
	p, own := m.current.Load().of(t), t.change.announced()
	seen = m.announce(ctx, t, phase)
	other = p.conflict(own, seen)
	switch {
	case other == nil:
		return nil, seen
	case phase != route.DeleteNew:
		p.board().leave(ctx, phase, route.Settled)
		return other, seen
	}
	pause(ctx, giveWay)
	seen = m.announce(ctx, t, phase)
	return p.conflict(own, seen), seen
}

// giveWay bounds the time in which a middleware that gives way withdraws its announcement.
const giveWay = 500 * time.Millisecond

// conflict returns the placement after a change in seen that begins with the same placement as own, and ends with
// another one; nil: there is none.
func (p *pool) conflict(own route.Announced, seen placementsSeen) *placed {
	for _, a := range seen.all() {
		if a.From != own.From || a.To == own.To {
			continue
		}
		if to, ok := p.located(a.change.Placement, a.change); ok {
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
	deletes, copies, reads := others.of(noticeDeleting, own), others.of(noticeCopying, own),
		others.of(noticeReading, own)
	if mark := m.mark(t); c.phase != route.Settled {
		m.current.Load().of(t).each(func(s *backend.Server) { _ = s.Talk(ctx, mark.Keep) })
	}
	switch {
	case c.phase == route.DeleteNew && (copies || reads):
		c.due = time.Now()
		return
	case c.phase == route.DeleteNew:
		if m.current.Load().of(t).conflict(own, others) != nil {
			m.enterOrLog(ctx, t, route.DeleteNew)
		}
		return
	case c.phase == route.Copy && reads:
		c.due = time.Now()
		c.stopCopying()
		return
	case c.phase == route.Copy:
		if c.copying == nil && !deletes && !time.Now().Before(c.due) {
			m.beginCopying(t)
		}
		return
	case c.phase == route.HandOver:
		return
	case c.phase == route.ReadNew && (deletes || copies):
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
	to := p.conflict(own, p.board().sight(ctx, noticeReading))
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
