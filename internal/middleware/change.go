package middleware

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/queue"
	"mcmw/internal/route"
)

// placed is a list of servers, and how keys are placed on them.
type placed struct {
	router  *route.Router
	options route.Options
}

// record returns p in the form that is put on the servers.
func (p placed) record() marker.Placement { return marker.Of(p.router, p.options) }

// equal reports whether p and q give every key the same servers.
func (p placed) equal(q placed) bool {
	a, b := p.record(), q.record()
	return a.Equal(&b)
}

// at returns p with the addresses and zones that its servers have in o, and the way of reading that o asks for.
func (p placed) at(o *PoolOptions) (placed, error) {
	servers := slices.Clone(p.router.Servers())
	for i := range servers {
		at := slices.IndexFunc(o.Servers, func(s route.Server) bool { return s.Name == servers[i].Name })
		if at >= 0 {
			servers[i].Addr, servers[i].Zone = o.Servers[at].Addr, o.Servers[at].Zone
		}
	}
	p.options.Read, p.options.Zone = o.Options.Read, o.Options.Zone
	p.options.Gutter, p.options.GutterTTL, p.options.Closed, p.options.Former = o.Options.Gutter, o.Options.GutterTTL, o.Options.Closed, o.Options.Former
	var err error
	p.router, err = route.New(servers, p.options)
	return p, err
}

// change is a change of placement, where other middlewares may learn of it earlier or later; see route.Phase. Each phase lasts for
// Options.ChangeStep:
//
//	settled --> delete-new --> read-new --> settled, no change may begin --> settled
//	               ^   '-- another list is wanted: from its beginning
//	               '----------------------------------------- wanted meanwhile --'
//	start --> late --> settled, no change may begin --> ..
//
// A middleware starts late if the servers' records say that keys are, or were, placed otherwise.
type change struct {
	course
	from, to placed
}

// course is how far something is that goes through phases.
type course struct {
	phase    route.Phase     // Settled: it is over, and the next one must not begin yet
	due      time.Time       // when the phase may end
	cleaning *sync.WaitGroup // the new holders that are being cleaned
}

// lateSteps is how many steps late lasts: behind them no other middleware reads by the placement before.
const lateSteps = 2

// inPhases reports whether another placement is put in force in phases.
func (o *PoolOptions) inPhases(step time.Duration) bool { return step > 0 && o.Writers != WritersOne }

// copy returns a copy, which does not follow the change; nil of nil.
func (c *change) copy() *change {
	if c == nil {
		return nil
	}
	d := *c
	return &d
}

// ends returns the placement by which keys are read, and the other one.
func (c *change) ends() (read, other placed) {
	if c.phase == route.DeleteNew {
		return c.from, c.to
	}
	return c.to, c.from
}

// wanted returns the placement that is in force with p, or will be.
func (p *pool) wanted() placed {
	if p.change == nil {
		return placed{p.router, p.options.Options}
	}
	return p.change.to
}

// wantedRecord returns wanted in the form that is put on the servers.
func (p *pool) wantedRecord() marker.Placement { return p.of(p.wanted(), p.share) }

// changing reports whether p is one of a change of placement, or of which keys it has.
func (p *pool) changing() bool { return p.router.Phase() != route.Settled || p.had != nil }

// fingerprint returns a short text that is equal for equal placements.
func fingerprint(placements ...marker.Placement) string {
	h := sha256.New()
	for _, p := range placements {
		fmt.Fprintf(h, "{Servers:%+v Replicas:%d Ring:%s Hash:%s HashTag:%s}", p.Servers, p.Replicas, p.Ring, p.Hash, p.HashTag)
		for s := p.Share; s != nil; s = s.Routed {
			fmt.Fprintf(h, "{Default:%t Prefixes:%s Stripped:%s Gutter:%+v}", s.Default, s.Prefixes, s.Stripped, s.Gutter)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// effective returns m.options with the servers and the placements of now, and the router for them; applying is held.
func (m *Middleware) effective() (Options, *route.Router, error) {
	pools := slices.Clone(m.options.pools())
	routers := make([]*route.Router, len(pools))
	for i, t := range m.tiers {
		m.routing.close(&pools[i])
		in, err := t.effective(&pools[i])
		if err != nil {
			return m.options, nil, err
		}
		routers[i] = in.router
		pools[i].Servers, pools[i].Options = in.router.Servers(), in.options
	}
	o := m.options.with(pools)
	router, err := o.compose(routers)
	if err != nil {
		return o, nil, err
	}
	router = m.migrated(&o, router)
	if m.routing != nil {
		router, err = router.Reroute(m.routing.from, m.routing.phase)
	}
	return o, router, err
}

// effective returns how t's pool, with the options o, is placed now.
func (t *tier) effective(o *PoolOptions) (now placed, err error) {
	if t.change == nil {
		return t.settled.at(o)
	}
	from, err := t.change.from.at(o)
	if err != nil {
		return now, err
	}
	to, err := t.change.to.at(o)
	if err != nil {
		return now, err
	}
	t.change.from, t.change.to = from, to
	return placed{route.Change(from.router, to.router, t.change.phase), to.options}, nil
}

// wants reports whether o, the options of t's pool, ask for another placement than what is in force, or under way, and whether the change to it may
// begin. If so it is the one under way. applying is held.
func (m *Middleware) wants(t *tier, o *PoolOptions) (changed bool) {
	router, _ := route.New(o.Servers, o.Options) // it was one before
	wanted := placed{router, o.Options}
	switch {
	case !o.inPhases(m.options.ChangeStep) || m.work == nil || !t.begun:
		t.settled, t.change = wanted, nil
		return false
	case t.change == nil && !t.settled.equal(wanted):
		t.change = &change{from: t.settled, to: wanted}
		m.background.Go(func() { m.goThrough(m.work, t) })
		return true
	case t.change == nil || t.change.phase != route.DeleteNew || t.change.to.equal(wanted):
		return false // it begins when the change under way is over
	}
	t.change.to = wanted
	return true
}

// enter makes phase the one of the change from now on; applying is held.
func (m *Middleware) enter(ctx context.Context, t *tier, phase route.Phase) error {
	c, step := t.change, m.options.ChangeStep
	if other := m.otherChange(ctx, t, phase); other != nil {
		m.options.Log.Warn("another middleware changes to another list of servers; this one follows, and its own list has to wait")
		if phase == route.DeleteNew {
			step = 0 // the other one is a phase ahead, and will not wait
		}
		phase, c.to = route.DeleteNew, *other
		m.announce(ctx, t, phase)
	}
	c.phase, c.cleaning = phase, new(sync.WaitGroup)
	m.options.Log.Info("the placement of keys changes", "pool", t.name, "phase", phase.String(), "from", fingerprint(c.from.record()), "to", fingerprint(c.to.record()))
	err := m.replace(ctx, t)
	if phase == route.DeleteNew {
		m.cleanNew(t, c)
	}
	c.due = time.Now().Add(step)
	select {
	case t.rescheduled <- struct{}{}:
	default:
	}
	return err
}

// otherChange says on the servers that the change under way enters phase, and returns where others are changing to from the same placement; nil: nowhere
// else. One of two middlewares that enter at the same time sees the other: each writes what it does, and reads what the other does then. If
// both see each other, the one that is about to read by its list gives way. applying is held.
func (m *Middleware) otherChange(ctx context.Context, t *tier, phase route.Phase) *placed {
	if t.records == nil || phase == route.Settled {
		return nil
	}
	other := m.announce(ctx, t, phase)
	switch {
	case other == nil:
		return nil
	case phase == route.ReadNew:
		m.current.Load().of(t).each(func(s *backend.Server) { _ = s.Withdraw(ctx, marker.ReadingKey) })
		return other
	}
	select {
	case <-ctx.Done():
	case <-time.After(giveWay):
	}
	return m.announce(ctx, t, phase)
}

// giveWay is how long a middleware takes at most to withdraw what it has announced, and not done.
const giveWay = 500 * time.Millisecond

// announce says on the servers that the change under way enters phase, and returns where one in the neighbouring phase is changing to from the same
// placement; nil: nowhere else.
func (m *Middleware) announce(ctx context.Context, t *tier, phase route.Phase) *placed {
	c, pool := t.change, m.current.Load().of(t)
	own, from := c.to.record(), c.from.record() // which keys the pool has changes apart from this
	record := marker.Record{Placement: own, Previous: []marker.Placement{from}, Addresses: map[string]string{}}
	for _, p := range []placed{c.from, c.to} {
		for _, s := range p.router.Servers() {
			record.Addresses[s.Name] = s.Addr
		}
	}
	value, err := record.Encode()
	if err != nil {
		return nil
	}
	key, theirs := marker.DeletingKey, marker.ReadingKey
	if phase == route.ReadNew {
		key, theirs = theirs, key
	}
	var mu sync.Mutex // guards found
	var found *placed
	pool.each(func(s *backend.Server) {
		value, err := s.Announce(ctx, key, value, 2*m.options.ChangeStep, theirs)
		if err != nil || value == nil {
			return
		}
		r, err := marker.Decode(value)
		if err != nil {
			return
		}
		r.Placement.Share = nil
		for i := range r.Previous {
			r.Previous[i].Share = nil
		}
		if r.Placement.Equal(&own) || len(r.Previous) != 1 || !r.Previous[0].Equal(&from) {
			return
		}
		if to, ok := pool.located(r.Placement, r.Addresses); ok {
			mu.Lock()
			found = &to
			mu.Unlock()
		}
	})
	return found
}

// Elsewhere returns the servers of the list to which another middleware changes from that of this one, as it has announced on the servers; nil: none
// has, or there are several pools. A middleware that can't look its servers up follows by it: an announcement lasts two steps, so one that looks within each step and applies what it
// finds is at most one phase behind.
func (m *Middleware) Elsewhere(ctx context.Context) []route.Server {
	m.applying.Lock()
	defer m.applying.Unlock()
	p := m.current.Load().pools[0]
	if len(m.options.Pools) > 0 || p.records == nil || m.work == nil || !p.options.inPhases(p.step) {
		return nil
	}
	from := p.wanted()
	if c := p.tier.change; c != nil && c.phase == route.DeleteNew {
		from = c.from
	}
	here, wanted := from.record(), p.wanted().record()
	var mu sync.Mutex // guards found
	var found []route.Server
	p.each(func(s *backend.Server) {
		value, err := s.Announced(ctx, marker.DeletingKey)
		if err != nil || value == nil {
			return
		}
		r, err := marker.Decode(value)
		if err != nil || r.Placement.Equal(&wanted) || len(r.Previous) != 1 || !r.Previous[0].Equal(&here) {
			return
		}
		to, ok := p.located(r.Placement, r.Addresses)
		if !ok {
			return
		}
		// Only the servers may differ: options are not looked up.
		servers := slices.Clone(to.router.Servers())
		for i := range servers {
			if at := slices.IndexFunc(m.options.Servers, func(o route.Server) bool { return o.Name == servers[i].Name }); at >= 0 {
				servers[i].Zone = m.options.Servers[at].Zone
			}
		}
		router, err := route.New(servers, m.options.Placement)
		if err != nil {
			return
		}
		if own := marker.Of(router, m.options.Placement); own.Equal(&r.Placement) {
			mu.Lock()
			found = servers
			mu.Unlock()
		}
	})
	return found
}

// each calls do for each of the pool's servers that is not down, and waits for all.
func (p *pool) each(do func(s *backend.Server)) {
	var doing sync.WaitGroup
	for _, s := range p.servers {
		if !s.Down() {
			doing.Go(func() { do(s) })
		}
	}
	doing.Wait()
}

// cleanNew deletes on servers what they may have held earlier of the keys that they get. Those that join are flushed anyway.
func (m *Middleware) cleanNew(t *tier, c *change) {
	p, mark := m.current.Load().of(t), m.mark(t)
	if p.options.Rejoin == backend.RejoinTrust {
		return
	}
	for i, s := range p.servers[:len(c.to.router.Servers())] {
		if s.Joins() || !c.to.router.Gains(s.Name, c.from.router) {
			continue
		}
		c.cleaning.Go(func() {
			gained := func(key []byte) bool { return p.router.Gained(i, key) && !bytes.HasPrefix(key, []byte(marker.Prefix)) }
			s.Purge(m.work, gained, mark)
		})
	}
}

// mark is what tells others that a server was cleaned for the change under way.
func (m *Middleware) mark(t *tier) backend.Mark {
	if t.change == nil {
		return backend.Mark{}
	}
	text := fingerprint(t.change.from.record()) + " " + fingerprint(t.change.to.record())
	return backend.Mark{Text: text, For: m.options.ChangeStep}
}

// goThrough takes the change of placement from phase to phase, until there is none or ctx is done.
func (m *Middleware) goThrough(ctx context.Context, t *tier) {
	m.follow(ctx, t.rescheduled, func() *course {
		if t.change == nil {
			return nil
		}
		return &t.change.course
	}, func(ctx context.Context) bool { return m.step(ctx, t) })
}

// follow calls step when the phase that at returns is over, or may be, until there is none, step reports that, or ctx is done; at is called with applying held, and
// looked at again when rescheduled says so.
func (m *Middleware) follow(ctx context.Context, rescheduled <-chan struct{}, at func() *course, step func(context.Context) (more bool)) {
	for {
		m.applying.Lock()
		c := at()
		if c == nil {
			m.applying.Unlock()
			return
		}
		is := *c
		m.applying.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-rescheduled:
			continue
		case <-time.After(time.Until(is.due)):
		}
		is.cleaning.Wait()
		if !step(ctx) {
			return
		}
	}
}

// step enters the next phase if that is due. more: there will be another one.
func (m *Middleware) step(ctx context.Context, t *tier) (more bool) {
	m.applying.Lock()
	defer m.applying.Unlock()
	c, next := t.change, route.Settled
	switch {
	case m.stopping || c == nil || !slices.Contains(m.tiers, t):
		return false
	case time.Now().Before(c.due): // another list is wanted meanwhile
		return true
	case c.phase == route.DeleteNew:
		next = route.ReadNew
	case c.phase == route.Settled:
		t.change = nil
		if at := slices.Index(m.tiers, t); !m.wants(t, &m.options.pools()[at]) {
			return false
		}
		next = route.DeleteNew
	default:
		t.settled = c.to
	}
	if err := m.enter(ctx, t, next); err != nil {
		m.options.Log.Error("the placement of keys cannot change", "error", err)
	}
	return next != route.DeleteNew // which has a goroutine of its own
}

// catchUp returns the core to begin with: p, or, if the records that the servers of a pool hold say that keys are or were placed otherwise there,
// one in which that is late. ctx bounds reaching the servers that p does not have. applying is held.
func (m *Middleware) catchUp(ctx context.Context, p *core) *core {
	late := false
	for _, q := range p.pools {
		if q.records == nil || !q.options.inPhases(q.step) {
			continue
		}
		if from, ok := q.before(q.records.Looks().Newest()); ok {
			late = true
			q.tier.change = &change{course: course{phase: route.Late, cleaning: new(sync.WaitGroup)}, from: from, to: q.settled}
			p.options.Log.Info("keys were placed otherwise when the servers were last heard of: other middlewares may still do so", "pool", q.name, "phase", route.Late.String(),
				"from", fingerprint(from.record()), "to", fingerprint(q.settled.record()))
		}
	}
	if m.routing = p.routesBefore(); m.routing != nil {
		late = true
		p.options.Log.Info("keys were in other pools, or had another gutter, when the servers were last heard of: other middlewares may still route them there", "phase", m.routing.phase.String())
	}
	if !late {
		return p
	}
	o, router, err := m.effective()
	if err != nil {
		p.options.Log.Error("keys were placed otherwise, in a way that can't be followed", "error", err)
		m.routing = nil
		for _, t := range m.tiers {
			t.change = nil
		}
		return p
	}
	servers, _, _ := m.serversFor(o, p)
	next := newCore(o, router, m.tiers, servers, &m.shared)
	next.requireVersions()
	for _, s := range servers {
		if !slices.Contains(p.servers, s) {
			_ = s.Reach(ctx)
		}
	}
	m.current.Store(next)
	m.entrance.Exchange(func() *queue.Lanes { return next.lanes })
	m.registry.Change(m.statistics(next))
	return next
}

// before returns the placement, other than p's, by which keys are or were placed by the newest record; ok is false if there is none, or some of
// its servers can't be found.
func (p *pool) before(newest *marker.Record) (from placed, ok bool) {
	if newest == nil {
		return from, false
	}
	current, all := p.record(), []marker.Placement{newest.Placement}
	if newest.Changing {
		all = append(all, newest.Previous...)
	}
	for _, old := range all {
		old.Share = current.Share // see routesBefore
		if !old.Equal(&current) {
			return p.located(old, newest.Addresses)
		}
	}
	return from, false
}

// located returns a placement that was read from a server, with the addresses that were there; ok is false if some are missing.
func (p *pool) located(read marker.Placement, addresses map[string]string) (found placed, ok bool) {
	o, err := read.Options()
	if err != nil {
		return found, false
	}
	servers := slices.Clone(read.Servers)
	for i := range servers {
		s := &servers[i]
		if s.Addr = addresses[s.Name]; s.Addr == "" && !slices.ContainsFunc(p.servers, func(b *backend.Server) bool { return b.Name == s.Name }) {
			return found, false
		}
	}
	router, err := route.New(servers, o)
	return placed{router, o}, err == nil
}
