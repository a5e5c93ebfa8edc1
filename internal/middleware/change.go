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
func (p placed) at(o *Options) (placed, error) {
	servers := slices.Clone(p.router.Servers())
	for i := range servers {
		at := slices.IndexFunc(o.Servers, func(s route.Server) bool { return s.Name == servers[i].Name })
		if at >= 0 {
			servers[i].Addr, servers[i].Zone = o.Servers[at].Addr, o.Servers[at].Zone
		}
	}
	p.options.Read, p.options.Zone = o.Placement.Read, o.Placement.Zone
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
	phase    route.Phase // Settled: it is over, and the next one must not begin yet
	from, to placed
	due      time.Time       // when the phase may end
	cleaning *sync.WaitGroup // the new holders that are being cleaned
}

// lateSteps is how many steps late lasts: behind them no other middleware reads by the placement before.
const lateSteps = 2

// inPhases reports whether another placement is put in force in phases.
func (o *Options) inPhases() bool { return o.ChangeStep > 0 && o.Writers != WritersOne }

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
func (p *core) wanted() placed {
	if p.change == nil {
		return placed{p.router, p.options.Placement}
	}
	return p.change.to
}

// changing reports whether p is one of a change of placement.
func (p *core) changing() bool { return p.router.Phase() != route.Settled }

// fingerprint returns a short text that is equal for equal placements.
func fingerprint(p marker.Placement) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", p))
	return hex.EncodeToString(sum[:6])
}

// effective returns m.options with the servers and the placement of now, and the router for them; applying is held.
func (m *Middleware) effective() (Options, *route.Router, error) {
	o := m.options
	if m.change == nil {
		router, err := o.route()
		return o, router, err
	}
	from, err := m.change.from.at(&o)
	if err != nil {
		return o, nil, err
	}
	to, err := m.change.to.at(&o)
	if err != nil {
		return o, nil, err
	}
	m.change.from, m.change.to = from, to
	router := route.Change(from.router, to.router, m.change.phase)
	o.Servers, o.Placement = router.Servers(), to.options
	return o, router, nil
}

// wants reports whether m.options ask for another placement than what is in force, or under way, and whether the change to it may begin. If
// so it is the one under way. applying is held.
func (m *Middleware) wants() (changed bool) {
	router, _ := m.options.route() // it was one before
	wanted := placed{router, m.options.Placement}
	switch {
	case !m.options.inPhases() || m.work == nil:
		m.settled, m.change = wanted, nil
		return false
	case m.change == nil && !m.settled.equal(wanted):
		m.change = &change{from: m.settled, to: wanted}
		m.background.Go(func() { m.goThrough(m.work) })
		return true
	case m.change == nil || m.change.phase != route.DeleteNew || m.change.to.equal(wanted):
		return false // it begins when the change under way is over
	}
	m.change.to = wanted
	return true
}

// enter makes phase the one of the change from now on; applying is held.
func (m *Middleware) enter(ctx context.Context, phase route.Phase) error {
	c, step := m.change, m.options.ChangeStep
	if other := m.otherChange(ctx, phase); other != nil {
		m.options.Log.Warn("another middleware changes to another list of servers; this one follows, and its own list has to wait")
		if phase == route.DeleteNew {
			step = 0 // the other one is a phase ahead, and will not wait
		}
		phase, c.to = route.DeleteNew, *other
		m.announce(ctx, phase)
	}
	c.phase, c.cleaning = phase, new(sync.WaitGroup)
	m.options.Log.Info("the placement of keys changes", "phase", phase.String(), "from", fingerprint(c.from.record()), "to", fingerprint(c.to.record()))
	err := m.replace(ctx, true)
	if phase == route.DeleteNew {
		m.cleanNew(c)
	}
	c.due = time.Now().Add(step)
	select {
	case m.hurry <- struct{}{}:
	default:
	}
	return err
}

// otherChange says on the servers that the change under way enters phase, and returns where others are changing to from the same placement; nil: nowhere
// else. One of two middlewares that enter at the same time sees the other: each writes what it does, and reads what the other does then. If
// both see each other, the one that is about to read by its list gives way. applying is held.
func (m *Middleware) otherChange(ctx context.Context, phase route.Phase) *placed {
	if m.records == nil || phase == route.Settled {
		return nil
	}
	other := m.announce(ctx, phase)
	switch {
	case other == nil:
		return nil
	case phase == route.ReadNew:
		m.each(func(s *backend.Server) { _ = s.Withdraw(ctx, marker.ReadingKey) })
		return other
	}
	select {
	case <-ctx.Done():
	case <-time.After(giveWay):
	}
	return m.announce(ctx, phase)
}

// giveWay is how long a middleware takes at most to withdraw what it has announced, and not done.
const giveWay = 500 * time.Millisecond

// announce says on the servers that the change under way enters phase, and returns where one in the neighbouring phase is changing to from the same
// placement; nil: nowhere else.
func (m *Middleware) announce(ctx context.Context, phase route.Phase) *placed {
	c := m.change
	own, from := c.to.record(), c.from.record()
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
	m.each(func(s *backend.Server) {
		value, err := s.Announce(ctx, key, value, 2*m.options.ChangeStep, theirs)
		if err != nil || value == nil {
			return
		}
		r, err := marker.Decode(value)
		if err != nil || r.Placement.Equal(&own) || len(r.Previous) != 1 || !r.Previous[0].Equal(&from) {
			return
		}
		if to, ok := m.current.Load().located(r.Placement, r.Addresses); ok {
			mu.Lock()
			found = &to
			mu.Unlock()
		}
	})
	return found
}

// Elsewhere returns the servers of the list to which another middleware changes from that of this one, as it has announced on the servers; nil: none
// has. A middleware that can't look its servers up follows by it: an announcement lasts two steps, so one that looks within each step and applies what it
// finds is at most one phase behind.
func (m *Middleware) Elsewhere(ctx context.Context) []route.Server {
	m.applying.Lock()
	defer m.applying.Unlock()
	if m.records == nil || m.work == nil || !m.options.inPhases() {
		return nil
	}
	p := m.current.Load()
	from := p.wanted()
	if c := m.change; c != nil && c.phase == route.DeleteNew {
		from = c.from
	}
	here, wanted := from.record(), p.wanted().record()
	var mu sync.Mutex // guards found
	var found []route.Server
	m.each(func(s *backend.Server) {
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

// each calls do for each server in use that is not down, and waits for all.
func (m *Middleware) each(do func(s *backend.Server)) {
	var doing sync.WaitGroup
	for _, s := range m.current.Load().servers {
		if !s.Down() {
			doing.Go(func() { do(s) })
		}
	}
	doing.Wait()
}

// cleanNew deletes on servers what they may have held earlier of the keys that they get. Those that join are flushed anyway.
func (m *Middleware) cleanNew(c *change) {
	p, mark := m.current.Load(), m.mark()
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
func (m *Middleware) mark() backend.Mark {
	if m.change == nil {
		return backend.Mark{}
	}
	text := fingerprint(m.change.from.record()) + " " + fingerprint(m.change.to.record())
	return backend.Mark{Text: text, For: m.options.ChangeStep}
}

// goThrough takes the change of placement from phase to phase, until there is none or ctx is done.
func (m *Middleware) goThrough(ctx context.Context) {
	for {
		m.applying.Lock()
		c := m.change.copy()
		m.applying.Unlock()
		if c == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-m.hurry:
			continue
		case <-time.After(time.Until(c.due)):
		}
		c.cleaning.Wait()
		if !m.step(ctx) {
			return
		}
	}
}

// step enters the next phase if that is due. more: there will be another one.
func (m *Middleware) step(ctx context.Context) (more bool) {
	m.applying.Lock()
	defer m.applying.Unlock()
	c, next := m.change, route.Settled
	switch {
	case m.stopping || c == nil:
		return false
	case time.Now().Before(c.due): // another list is wanted meanwhile
		return true
	case c.phase == route.DeleteNew:
		next = route.ReadNew
	case c.phase == route.Settled:
		m.change = nil
		if !m.wants() {
			return false
		}
		next = route.DeleteNew
	default:
		m.settled = c.to
	}
	if err := m.enter(ctx, next); err != nil {
		m.options.Log.Error("the placement of keys cannot change", "error", err)
	}
	return next != route.DeleteNew // which has a goroutine of its own
}

// catchUp returns the core to begin with: p, or, if the records that the servers hold say that keys are or were placed otherwise, one that is
// late. ctx bounds reaching the servers that p does not have. applying is held.
func (m *Middleware) catchUp(ctx context.Context, p *core) *core {
	if m.records == nil || !p.options.inPhases() {
		return p
	}
	from, ok := p.before(m.records.Looks().Newest())
	if !ok {
		return p
	}
	m.change = &change{phase: route.Late, from: from, to: m.settled, cleaning: new(sync.WaitGroup)}
	o, router, err := m.effective()
	if err != nil {
		m.change = nil
		return p
	}
	servers, _, _ := m.serversFor(o, p.servers)
	next := newCore(o, router, servers, &m.shared)
	next.change = m.change.copy()
	next.requireVersions()
	for _, s := range servers[len(p.servers):] {
		_ = s.Reach(ctx)
	}
	m.current.Store(next)
	m.entrance.Exchange(func() *queue.Lanes { return next.lanes })
	m.registry.Change(next.statistics())
	o.Log.Info("keys were placed otherwise when the servers were last heard of: other middlewares may still do so", "phase", m.change.phase.String(),
		"from", fingerprint(from.record()), "to", fingerprint(m.change.to.record()))
	return next
}

// before returns the placement, other than p's, by which keys are or were placed by the newest record; ok is false if there is none, or some of
// its servers can't be found.
func (p *core) before(newest *marker.Record) (from placed, ok bool) {
	if newest == nil {
		return from, false
	}
	current, old := p.record(), newest.Placement
	if old.Equal(&current) && newest.Changing && len(newest.Previous) > 0 {
		old = newest.Previous[0]
	}
	if old.Equal(&current) {
		return from, false
	}
	return p.located(old, newest.Addresses)
}

// located returns a placement that was read from a server, with the addresses that were there; ok is false if some are missing.
func (p *core) located(read marker.Placement, addresses map[string]string) (found placed, ok bool) {
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
