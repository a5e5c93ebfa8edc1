package middleware

import (
	"context"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/queue"
	"mcmw/internal/route"
)

// catchUp returns the core to start with: c or, if other middlewares may place keys differently, a core in a phase that
// is compatible with theirs. ctx bounds reaching the servers that c does not have. applying is held.
func (m *Middleware) catchUp(ctx context.Context, c *core) *core {
	joined := m.joinChanges(ctx, c)
	if len(joined) == 0 {
		return c
	}
	o, router, err := m.effective()
	if err != nil {
		m.drop(joined, err)
		return c
	}
	servers, _, _ := m.serversFor(o, c)
	next := m.newCore(o, router, servers)
	each(next.pools, (*pool).requireVersions)
	reach(ctx, slices.DeleteFunc(slices.Clone(servers), func(s *backend.Server) bool {
		return slices.Contains(c.servers, s)
	}))
	m.current.Store(next)
	m.entrance.Exchange(func() *queue.Lanes { return next.lanes })
	m.registry.Change(m.statistics(next))
	for _, p := range next.pools {
		if change := p.change; change != nil {
			m.announce(ctx, p.poolState.change, change.phase) // on the servers that c does not have, too
			p.joinServers(m.mark(p.poolState))
		}
	}
	return next
}

// joinChanges makes the pools of c that have not begun, and the routes if none has, join the changes that other
// middlewares have announced, or that the servers' records show. It returns these changes. applying is held.
func (m *Middleware) joinChanges(ctx context.Context, c *core) (joined []driven) {
	begun := false
	for _, p := range c.pools {
		if p.records == nil || !p.options.inPhases(p.step) {
			continue
		}
		begun = begun || p.begun
		if t := p.poolState; !t.begun && t.change == nil && m.joinPool(ctx, p) {
			joined = append(joined, t.change)
			c.options.Log.Info("the placement of keys is changing, or has changed", "pool", p.name, "phase",
				t.change.phase.String(), "announced", t.change.joined,
				"from", fingerprint(t.change.from.record()), "to", fingerprint(t.change.to.record()))
		}
	}
	if begun || m.routing != nil {
		return joined
	}
	if c.router.Named() {
		announced, _ := m.join(ctx, m.routesBoard(nil))
		m.routing, _ = announced.(*rerouting)
	}
	if m.routing != nil {
		c.options.Log.Info("other mcmw are changing to these routes and gutters", "phase", m.routing.phase.String())
		return append(joined, m.routing)
	}
	for _, p := range c.pools {
		p.absent.Store(c.isAbsent(p))
	}
	if m.routing = c.routesBefore(); m.routing != nil {
		c.options.Log.Info("the servers' records have other routes or gutters, which other mcmw may still use", "phase",
			m.routing.phase.String())
		joined = append(joined, m.routing)
	}
	return joined
}

// drop gives up changes that were joined, because of err. applying is held.
func (m *Middleware) drop(joined []driven, err error) {
	m.options.Log.Error("the servers' records have another placement of keys, which this mcmw can't follow: "+
		"while others still use it, reads may be stale", "error", err)
	for _, d := range joined {
		if c, ok := d.(*change); ok {
			c.of.change = nil
		} else {
			m.routing = nil
		}
	}
}

// joinPool makes the pool join the change that other middlewares have announced on its servers, or that the servers'
// records show although no middleware is there to announce it. It returns false if there is none. applying is held.
func (m *Middleware) joinPool(ctx context.Context, p *pool) bool {
	t, own := p.poolState, p.settled
	joined, known := m.join(ctx, p.board(nil))
	if t.change, _ = joined.(*change); t.change != nil {
		return true
	}
	from, phase, ok := p.before(p.records.Looks().Newest())
	if !known || !ok {
		return false
	}
	// Read by the record as the last middleware did. Then go on to the own list.
	t.change = &change{course: course{phase: phase}, of: t, from: from, to: own}
	m.announce(ctx, t.change, phase)
	return true
}

// join makes a middleware that starts join the change that others have announced on b. The announcements are read again
// after this middleware has made its own: if it joins in a phase before read-new, none of the others has left read-new
// before it has seen that. If the two looks are further apart than lookEvery, announcements may have expired meanwhile,
// and it begins again. joined is nil if nothing is announced, or if known is false: what this middleware can't join.
func (m *Middleware) join(ctx context.Context, b *board) (joined driven, known bool) {
	begun, seen := time.Now(), b.sight(ctx)
	next := func() (route.Announced, route.Phase) {
		return route.Join(names(seen.by[noticeDeleting]), names(seen.by[noticeCopying]), names(seen.by[noticeReading]))
	}
	for {
		a, phase := next()
		if phase == route.Settled {
			return nil, true
		}
		all := seen.all()
		joins := all[slices.Index(names(all), a)]
		if joined = joins.change(); joined == nil {
			return nil, false
		}
		joined.progress().phase, joined.progress().joined = phase, true
		if seen = m.announce(ctx, joined, phase); phase == route.ReadNew {
			return joined, true
		}
		for _, n := range courseRows[phase].announces {
			seen.by[n] = []announced{joins}
		}
		switch _, again := next(); {
		case time.Since(begun) > m.lookEvery():
			b.leave(ctx, phase, route.Settled)
			begun, seen = time.Now(), b.sight(ctx)
		case again == phase:
			return joined, true
		}
	}
}

// before returns the placement, other than p's, that keys have or had by the newest record, and the phase in which a
// middleware reads by that record. ok is false if there is none, or the address of one of its servers is unknown.
func (p *pool) before(newest *marker.Record) (from placement, phase route.Phase, ok bool) {
	if newest == nil {
		return from, phase, false
	}
	current, all := p.record(), []marker.Placement{newest.Placement}
	if newest.Changing {
		all = append(all, newest.Previous...)
	}
	phase = route.DeleteNew
	for _, old := range all {
		old.Share = current.Share // see routesBefore
		if !old.Equal(&current) {
			from, ok = p.located(old, newest)
			return from, phase, ok
		}
		phase = route.ReadNew
	}
	return from, phase, false
}

// joinServers records that servers which the change adds are to be cleaned, unless mark is on them.
func (p *pool) joinServers(mark backend.Mark) {
	c := p.change
	if c.phase == route.ReadNew && !c.joined || p.options.Rejoin == backend.RejoinTrust {
		return
	}
	from := c.from.record()
	for _, s := range p.servers[:len(c.to.router.Servers())] {
		if !from.Has(s.Name) {
			s.Join(mark)
		}
	}
}

// judge judges the servers that were reached by their records. During a change other middlewares put the records of
// different phases; a middleware that joins the change takes them for one. routed: it joins a change of routes.
func (p *pool) judge(looks marker.Looks, routed bool) {
	changes := p.change != nil && p.change.joined
	routed = routed && p.had != nil
	read, other := p.record(), marker.Placement{} // by which keys are read, and the one that p's change is to or from
	joined := []marker.Placement{read}
	if changes {
		_, to := p.change.ends()
		other = p.of(to, read.Share)
		joined = append(joined, other)
	}
	if routed {
		for _, placed := range joined {
			for _, share := range []*route.Share{p.share, p.had} {
				placed.Share = share
				joined = append(joined, placed)
			}
		}
	}
	for _, s := range p.servers {
		switch _, reached := looks[s.Name]; {
		case !reached || s.Joins():
		case read.Has(s.Name) && (changes || routed):
			s.Judge(looks.During(read, joined))
		case changes:
			s.Judge(looks.During(other, joined))
		default:
			s.Judge(looks)
		}
	}
}

// cleanJoined cleans servers that get keys by a change that is past delete-new already. The others have done it, and
// their marks say so. applying is held.
func (m *Middleware) cleanJoined() {
	for _, d := range m.underWay() {
		if c := d.progress(); c.joined && c.phase != route.DeleteNew {
			<-m.clean(d.gains(m, route.DeleteNew))
		}
	}
}

// joinLate makes the pools of which no server could be reached before join the changes that are under way, now that one
// answers, and replaces the core. applying is held.
func (m *Middleware) joinLate(ctx context.Context) error {
	c := m.current.Load()
	for _, p := range c.pools {
		if !p.begun {
			reach(ctx, p.servers)
		}
	}
	joined := m.joinChanges(ctx, c)
	err := m.replace(ctx, joined...)
	if err != nil && len(joined) > 0 {
		m.drop(joined, err)
		return m.replace(ctx)
	}
	if len(joined) > 0 {
		m.cleanJoined()
	}
	for _, d := range joined {
		m.entered(ctx, d)
	}
	return err
}

// beginChanges is called when the first core serves. It starts to take the changes that were joined through their
// phases. applying is held.
func (m *Middleware) beginChanges() {
	for _, t := range m.poolStates {
		m.watchOthers(t)
	}
	if m.routing != nil {
		m.routing.prepare(m.work, m, m.routing.phase, sightings{})
	}
	for _, d := range m.underWay() {
		m.entered(m.work, d)
	}
}

// watchOthers makes drive look for a while whether others have begun a change of t's placement. applying is held.
func (m *Middleware) watchOthers(t *poolState) {
	if t.look = time.Now().Add(m.lookEvery()); t.records != nil {
		t.watched = time.Now().Add(2 * m.options.ChangeStep)
	}
}

// watch looks from time to time, after the start, whether others have begun a change of t's placement, and returns how
// long drive may wait. applying is held.
func (m *Middleware) watch(ctx context.Context, t *poolState) (wait time.Duration) {
	now := time.Now()
	switch {
	case t.change != nil || !now.Before(t.watched):
		return time.Hour
	case !now.Before(t.look):
		m.followOthers(ctx, t)
		t.look = time.Now().Add(m.lookEvery())
	}
	return time.Until(t.look)
}

// followOthers begins the change of t's placement that others have announced. At the start this middleware may not have
// found it announced yet, and may learn of it later than a middleware that runs. applying is held.
func (m *Middleware) followOthers(ctx context.Context, t *poolState) {
	p := m.current.Load().of(t)
	if p == nil || !p.options.inPhases(p.step) {
		return
	}
	settled := fingerprint(t.settled.record())
	to := p.conflict(route.Announced{From: settled, To: settled},
		p.board(nil).sight(ctx))
	if to == nil {
		return
	}
	m.options.Log.Info("another mcmw has begun to change the placement of keys; this one, which has just started, " +
		"follows it")
	t.change = &change{of: t, from: t.settled, to: *to}
	m.enterOrLog(ctx, route.DeleteNew, t.change)
}
