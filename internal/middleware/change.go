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

// placed is a list of servers with the placement of keys on them.
type placed struct {
	router  *route.Router
	options route.Options
}

// record returns p in the form that the records on the servers have.
func (p placed) record() marker.Placement { return marker.Of(p.router, p.options) }

// equal reports whether p and q give every key the same servers.
func (p placed) equal(q placed) bool {
	a, b := p.record(), q.record()
	return a.Equal(&b)
}

// at returns p with the parts of o that don't place keys: the servers' addresses, entries and zones, the read policy and the gutters.
func (p placed) at(o *PoolOptions) (placed, error) {
	servers := slices.Clone(p.router.Servers())
	for i := range servers {
		at := slices.IndexFunc(o.Servers, func(s route.Server) bool { return s.Name == servers[i].Name })
		if at >= 0 {
			servers[i].Addr, servers[i].Zone, servers[i].Entry = o.Servers[at].Addr, o.Servers[at].Zone, o.Servers[at].Entry
		}
	}
	p.options.Read, p.options.Zone = o.Options.Read, o.Options.Zone
	p.options.Gutter, p.options.GutterTTL, p.options.Closed, p.options.PreviousGutter = o.Options.Gutter, o.Options.GutterTTL, o.Options.Closed, o.Options.PreviousGutter
	var err error
	p.router, err = route.New(servers, p.options)
	return p, err
}

// change is a change of placement, where other middlewares may learn of it earlier or later; see route.Phase. Each phase lasts for
// Options.ChangeStep, phase late for lateSteps of them:
//
//	settled --> delete-new --> read-new --> settled, closing --> settled
//	             ^  ^    |                              |
//	             |  '----' another list is wanted       |
//	             '---- a list was wanted meanwhile -----'
//
//	start --> late --> settled, closing --> settled
//
// If another list is wanted in delete-new, that phase begins again with the new list. In later phases a new list has to wait. "Settled, closing" is
// the last phase of a change: no other change may begin in it. A middleware starts in phase late if the servers' records say that keys are, or were,
// placed differently.
type change struct {
	course
	from, to placed
}

// course is the progress of a change that goes through phases.
type course struct {
	phase    route.Phase     // Settled: keys are placed as wanted, but the next change must not begin yet
	due      time.Time       // when the phase may end
	cleaning *sync.WaitGroup // counts the new holders that are being cleaned; the phase does not end before
}

// lateSteps is how many steps phase late lasts: after them no other middleware reads by the previous placement.
const lateSteps = 2

// inPhases reports whether a new placement is applied in phases.
func (o *PoolOptions) inPhases(step time.Duration) bool { return step > 0 && o.Writers != WritersOne }

// copy returns a copy that stays as it is when c enters another phase; nil if c is nil.
func (c *change) copy() *change {
	if c == nil {
		return nil
	}
	d := *c
	return &d
}

// ends returns the placement by which keys are read in c's phase, and the other one.
func (c *change) ends() (read, other placed) {
	if c.phase == route.DeleteNew {
		return c.from, c.to
	}
	return c.to, c.from
}

// wanted returns the placement that p has, or will have after the change that is under way.
func (p *pool) wanted() placed {
	if p.change == nil {
		return placed{p.router, p.options.Options}
	}
	return p.change.to
}

// wantedRecord returns wanted in the form that the records on the servers have.
func (p *pool) wantedRecord() marker.Placement { return p.of(p.wanted(), p.share) }

// changing reports whether the placement of p, or the set of keys that it has, is changing.
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

// effective returns m.options with the servers and placements of the present phases, and the router for them. applying is held.
func (m *Middleware) effective() (Options, *route.Router, error) {
	pools := slices.Clone(m.options.pools())
	routers := make([]*route.Router, len(pools))
	for i, t := range m.poolStates {
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
	router = router.Migrate(m.moves(&o))
	if m.routing != nil {
		router, err = router.Reroute(m.routing.from, m.routing.phase)
	}
	return o, router, err
}

// effective returns the placement of t's pool, with the options o, in the present phase.
func (t *poolState) effective(o *PoolOptions) (now placed, err error) {
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

// wants compares the placement in o, the options of t's pool, with the current one and the one that a change is leading to. If it differs from both
// and its change may begin, this change is now under way, and wants returns true. applying is held.
func (m *Middleware) wants(t *poolState, o *PoolOptions) (changed bool) {
	router, _ := route.New(o.Servers, o.Options) // it never fails: o has been validated
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
		return false // it begins when the change that is under way has ended
	}
	t.change.to = wanted
	return true
}

// enter makes t's change enter phase. applying is held.
func (m *Middleware) enter(ctx context.Context, t *poolState, phase route.Phase) error {
	c, step := t.change, m.options.ChangeStep
	if other := m.otherChange(ctx, t, phase); other != nil {
		m.options.Log.Warn("another mcmw is changing to a different list of servers: this one changes to that list first, and to its own list afterwards")
		if phase == route.DeleteNew {
			step = 0 // the other middleware is a phase ahead and will not wait
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

// otherChange announces on the servers that t's change enters phase, and returns the placement to which other middlewares are changing from the
// same placement; nil: there is no other. If two middlewares enter a phase at the same time, at least one sees the other, because each first writes
// its announcement and then reads the other's. If both see each other, the one that is about to read by its list gives way. applying is held.
func (m *Middleware) otherChange(ctx context.Context, t *poolState, phase route.Phase) *placed {
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
	pause(ctx, giveWay)
	return m.announce(ctx, t, phase)
}

// giveWay bounds the time in which a middleware that gives way withdraws its announcement.
const giveWay = 500 * time.Millisecond

// announce writes on the servers that t's change enters phase, and returns the placement to which a middleware in the neighbouring phase is changing
// from the same placement; nil: there is no other.
func (m *Middleware) announce(ctx context.Context, t *poolState, phase route.Phase) *placed {
	c, pool := t.change, m.current.Load().of(t)
	own, from := c.to.record(), c.from.record() // without shares: the set of keys that the pool has changes independently
	record := marker.Record{Placement: own, Previous: []marker.Placement{from}, Addresses: map[string]string{}, Entries: map[string]string{}}
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
	if phase == route.ReadNew {
		key, theirs = theirs, key
	}
	return findOn(pool, func(s *backend.Server) (to placed, ok bool) {
		value, err := s.Announce(ctx, key, value, 2*m.options.ChangeStep, theirs)
		if err != nil {
			return to, false
		}
		return pool.announced(value, own, from)
	})
}

// announced returns the placement to which a middleware is changing that has announced value. ok is false if it is changing to own, or not from the
// placement from.
func (p *pool) announced(value []byte, own, from marker.Placement) (to placed, ok bool) {
	r, err := marker.Decode(value)
	if err != nil {
		return to, false
	}
	r.Placement.Share = nil
	for i := range r.Previous {
		r.Previous[i].Share = nil
	}
	if r.Placement.Equal(&own) || len(r.Previous) != 1 || !r.Previous[0].Equal(&from) {
		return to, false
	}
	return p.located(r.Placement, r)
}

// Elsewhere returns, for each pool of which another middleware is changing from the list of this one to another, that list, as announced on the servers.
// A middleware that can't look up its servers follows others by this: an announcement lasts two steps, so a middleware that looks once within each
// step and applies what it finds is at most one phase behind.
func (m *Middleware) Elsewhere(ctx context.Context) (servers []route.Server) {
	m.applying.Lock()
	defer m.applying.Unlock()
	if m.work == nil {
		return nil
	}
	for i, o := range m.options.pools() {
		servers = append(servers, m.elsewhere(ctx, m.current.Load().of(m.poolStates[i]), &o)...)
	}
	return servers
}

// elsewhere is Elsewhere for the pool p, which has the options o. applying is held.
func (m *Middleware) elsewhere(ctx context.Context, p *pool, o *PoolOptions) []route.Server {
	if p == nil || p.records == nil || !p.options.inPhases(p.step) {
		return nil
	}
	from := p.wanted()
	if c := p.poolState.change; c != nil && c.phase == route.DeleteNew {
		from = c.from
	}
	found := findOn(p, func(s *backend.Server) (servers []route.Server, ok bool) {
		value, err := s.Announced(ctx, marker.DeletingKey)
		if err != nil {
			return nil, false
		}
		to, ok := p.announced(value, p.wanted().record(), from.record())
		if !ok {
			return nil, false
		}
		// Only the servers may differ: options come from the configuration, not from a lookup.
		servers = slices.Clone(to.router.Servers())
		for i := range servers {
			servers[i].Pool = p.name
			if at := slices.IndexFunc(o.Servers, func(s route.Server) bool { return s.Name == servers[i].Name }); at >= 0 {
				servers[i].Zone = o.Servers[at].Zone
			}
		}
		router, err := route.New(servers, o.Options)
		return servers, err == nil && placed{router, o.Options}.equal(to)
	})
	if found == nil {
		return nil
	}
	return *found
}

// findOn calls find for each of p's servers that is not down, all at the same time, and returns one of the results that were ok; nil: there is none.
func findOn[T any](p *pool, find func(s *backend.Server) (T, bool)) (found *T) {
	var mu sync.Mutex // guards found
	p.each(func(s *backend.Server) {
		if result, ok := find(s); ok {
			mu.Lock()
			defer mu.Unlock()
			found = &result
		}
	})
	return found
}

// each calls do for each of the pool's servers that is not down, all at the same time, and waits for them.
func (p *pool) each(do func(s *backend.Server)) {
	var doing sync.WaitGroup
	for _, s := range p.servers {
		if !s.Down() {
			doing.Go(func() { do(s) })
		}
	}
	doing.Wait()
}

// cleanNew starts to delete, on servers that get keys, what they may still hold of these keys. Servers that join are flushed anyway.
func (m *Middleware) cleanNew(t *poolState, c *change) {
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

// mark returns the mark by which other middlewares know that a server was cleaned for the change that is under way.
func (m *Middleware) mark(t *poolState) backend.Mark {
	if t.change == nil {
		return backend.Mark{}
	}
	text := fingerprint(t.change.from.record()) + " " + fingerprint(t.change.to.record())
	return backend.Mark{Text: text, For: m.options.ChangeStep}
}

// goThrough takes t's change of placement from phase to phase, until it has ended or ctx is done.
func (m *Middleware) goThrough(ctx context.Context, t *poolState) {
	m.follow(ctx, t.rescheduled, func() *course {
		if t.change == nil {
			return nil
		}
		return &t.change.course
	}, func(ctx context.Context) bool { return m.step(ctx, t) })
}

// follow calls step each time the phase of a change is due to end and its cleaning is done. A phase that has begun again meanwhile, because another list is
// wanted, is waited for again; rescheduled reports that at once. at returns the change. at and step are called with applying held. follow ends when at returns
// nil, step returns false, or ctx is done.
func (m *Middleware) follow(ctx context.Context, rescheduled <-chan struct{}, at func() *course, step func(context.Context) (more bool)) {
	m.applying.Lock()
	defer m.applying.Unlock()
	for {
		c := at()
		if c == nil {
			return
		}
		awaited, waited := *c, false
		m.applying.Unlock()
		select {
		case <-ctx.Done():
		case <-rescheduled:
		case <-time.After(time.Until(awaited.due)):
			awaited.cleaning.Wait()
			waited = true
		}
		m.applying.Lock()
		if ctx.Err() != nil {
			return
		}
		if c = at(); waited && c != nil && *c == awaited && !step(ctx) {
			return
		}
	}
}

// step enters the next phase of t's change. more: another phase will follow. applying is held.
func (m *Middleware) step(ctx context.Context, t *poolState) (more bool) {
	c, next := t.change, route.Settled
	switch {
	case m.stopping || !slices.Contains(m.poolStates, t):
		return false
	case c.phase == route.DeleteNew:
		next = route.ReadNew
	case c.phase == route.Settled:
		t.change = nil
		if at := slices.Index(m.poolStates, t); !m.wants(t, &m.options.pools()[at]) {
			return false
		}
		next = route.DeleteNew
	default:
		t.settled = c.to
	}
	if err := m.enter(ctx, t, next); err != nil {
		m.options.Log.Error("the placement of keys cannot enter its next phase", "error", err)
	}
	return next != route.DeleteNew // wants has started a goroutine for the next change
}

// catchUp returns the core to start with: c or, if the records on the servers of a pool say that keys are or were placed differently there, a core in
// which that pool is in phase late. ctx bounds reaching the servers that c does not have. applying is held.
func (m *Middleware) catchUp(ctx context.Context, c *core) *core {
	late := false
	for _, p := range c.pools {
		if p.records == nil || !p.options.inPhases(p.step) {
			continue
		}
		if from, ok := p.before(p.records.Looks().Newest()); ok {
			late = true
			p.poolState.change = &change{course: course{phase: route.Late, cleaning: new(sync.WaitGroup)}, from: from, to: p.settled}
			c.options.Log.Info("the servers' records have another placement of keys, which other mcmw may still use", "pool", p.name, "phase", route.Late.String(),
				"from", fingerprint(from.record()), "to", fingerprint(p.settled.record()))
		}
	}
	if m.routing = c.routesBefore(); m.routing != nil {
		late = true
		c.options.Log.Info("the servers' records have other routes or gutters, which other mcmw may still use", "phase", m.routing.phase.String())
	}
	if !late {
		return c
	}
	o, router, err := m.effective()
	if err != nil {
		c.options.Log.Error("the servers' records have another placement of keys, which this mcmw can't follow: while others still use it, reads may be stale", "error", err)
		m.routing = nil
		for _, t := range m.poolStates {
			t.change = nil
		}
		return c
	}
	servers, _, _ := m.serversFor(o, c)
	next := newCore(o, router, m.poolStates, servers, &m.shared)
	next.requireVersions()
	reach(ctx, slices.DeleteFunc(slices.Clone(servers), func(s *backend.Server) bool { return slices.Contains(c.servers, s) }))
	m.current.Store(next)
	m.entrance.Exchange(func() *queue.Lanes { return next.lanes })
	m.registry.Change(m.statistics(next))
	return next
}

// before returns the placement, other than p's, that keys have or had by the newest record. ok is false if there is none, or the address of one of
// its servers is unknown.
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
			return p.located(old, newest)
		}
	}
	return from, false
}

// located returns a placement in record, which was read from a server, with the servers' addresses. ok is false if one of these is unknown.
func (p *pool) located(read marker.Placement, record *marker.Record) (found placed, ok bool) {
	o, err := read.Options()
	if err != nil {
		return found, false
	}
	servers := slices.Clone(read.Servers)
	for i := range servers {
		s := &servers[i]
		s.Entry = record.Entries[s.Name]
		if s.Addr = record.Addresses[s.Name]; s.Addr == "" && !slices.ContainsFunc(p.servers, func(b *backend.Server) bool { return b.Name == s.Name }) {
			return found, false
		}
	}
	router, err := route.New(servers, o)
	return placed{router, o}, err == nil
}
