package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/queue"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

// Apply changes the options while clients are connected: servers are added, removed, renamed, reweighted or moved to another
// address, and tunables change. No request fails because of it, with one exception: when a server only moves to another
// address, the requests in flight to its previous one fail. Any other change takes place between two requests of every
// connection: earlier requests are served as before, later ones wait until it is done.
//
// A server that is added, or moved, may hold anything, and serves no reads until Options.Rejoin has been applied; one that
// was renamed, but has the address of a removed one, keeps what it holds.
//
// With Options.ChangeStep and not one writer, another placement of keys is in force when Apply has returned and two steps are over; see change.
//
// An option that cannot change while clients are served (Listen) is an error, as are options that New would refuse; nothing
// is changed then. ctx bounds connecting to the servers, but not the exchange, which takes up to Timeout if a server does
// not answer. Version and Log are not changed.
func (m *Middleware) Apply(ctx context.Context, o Options) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	if m.stopping {
		return errors.New("the middleware is stopping")
	}
	o.Version, o.Log, o.Tap = m.options.Version, m.options.Log, m.options.Tap
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	if _, err := o.route(); err != nil {
		return err
	}
	if !slices.Equal(o.Listen, m.options.Listen) {
		return fmt.Errorf("the listen addresses cannot change while clients are served (%v, not %v); restart instead", m.options.Listen, o.Listen)
	}
	if o.Security != m.options.Security {
		return errors.New("TLS and authentication cannot change while clients are served, but for the contents of their files; restart instead")
	}
	if err := cmp.Or(m.checkPools(&o), m.checkSameStrips(&o), m.checkRoutes(&o), m.checkMigrations(ctx, &o)); err != nil {
		return err
	}
	if err := m.access.openLogins(o.pools(), o.Log); err != nil {
		return err
	}
	gone, err := m.applyShadows(ctx, &o)
	if err != nil {
		return err
	}
	defer stopShadows(gone)
	if m.reroutes(&o) {
		defer m.beginRerouting()
	}
	before := m.options.Migrations
	defer func() { m.beginMigrations(before) }()
	m.options = o
	m.poolStates = m.poolStatesFor(&o)
	pools := o.pools()
	var changed []*poolState
	for i, t := range m.poolStates {
		if !pools[i].inPhases(o.ChangeStep) || !t.begun {
			m.wants(t, &pools[i])
		} else {
			changed = append(changed, t)
		}
	}
	entered := false
	for _, t := range changed {
		if m.wants(t, &pools[slices.Index(m.poolStates, t)]) {
			entered = true
			if err := m.enter(ctx, t, route.DeleteNew); err != nil {
				return err
			}
		}
	}
	if entered {
		return nil
	}
	return m.replace(ctx, nil)
}

// poolStatesFor returns the tiers of o's pools: those there are, by name, and new ones. applying is held.
func (m *Middleware) poolStatesFor(o *Options) (states []*poolState) {
	for _, p := range o.pools() {
		at := slices.IndexFunc(m.poolStates, func(t *poolState) bool { return t.name == p.Name })
		if at >= 0 {
			states = append(states, m.poolStates[at])
			continue
		}
		t := &poolState{name: p.Name, rescheduled: make(chan struct{}, 1), missing: sweep.NewMissing()}
		if p.Rejoin != backend.RejoinTrust {
			t.records = backend.NewRecords(o.Log, func(server string, newest *marker.Record) (func(key []byte) bool, bool) {
				return m.movedKeys(t, server, newest)
			})
		}
		states = append(states, t)
	}
	return states
}

// checkPools reports what cannot change of the pools while clients are served. applying is held.
func (m *Middleware) checkPools(o *Options) error {
	now := m.current.Load()
	inPhases := func(p PoolOptions) bool { return p.inPhases(o.ChangeStep) }
	if m.work != nil && (len(o.Pools) == 0) != (len(m.options.Pools) == 0) && slices.ContainsFunc(slices.Concat(m.options.pools(), o.pools()), inPhases) {
		return errors.New("a list of servers cannot become pools, nor pools a list, while clients are served and other mcmw may write the servers; accepted: restart all at once")
	}
	check := func(p *PoolOptions, shadow bool) error {
		for _, q := range now.pools {
			if !shadow && q.name == p.Name && q.options.ServerTLS != p.ServerTLS {
				return fmt.Errorf("%sTLS of the servers cannot change while clients are served; restart instead", p.of())
			}
			if !shadow && q.name == p.Name && q.options.ServerAuthFile != p.ServerAuthFile {
				return fmt.Errorf("%sthe file with the password for the servers cannot change while clients are served, but for its contents; restart instead", p.of())
			}
		}
		for _, s := range p.Servers {
			is := func(t *backend.Server) bool { return s.Name == t.Name || s.Addr == t.Addr() }
			refuse := func(kind, name string) error {
				return fmt.Errorf("server %q cannot move from %s %q to pool %q while clients are served; accepted: without it first, then with it", s.Name, kind, name, p.Name)
			}
			for _, q := range now.pools {
				if !shadow && q.name == p.Name || !slices.ContainsFunc(q.servers, is) {
					continue
				}
				if m.leaves(q, &s) {
					return NotYet{fmt.Errorf("server %q is leaving pool %q; accepted: in pool %q once it has left", s.Name, q.name, p.Name)}
				}
				return refuse("pool", q.name)
			}
			for _, q := range now.shadows {
				if (!shadow || q.name != p.Name) && slices.ContainsFunc(q.inner.current.Load().servers, is) {
					return refuse("shadow", q.name)
				}
			}
		}
		return nil
	}
	for i := range o.Shadows {
		if err := check(&o.Shadows[i].To, true); err != nil {
			return err
		}
	}
	for _, p := range o.pools() {
		if err := check(&p, false); err != nil {
			return err
		}
	}
	return nil
}

// NotYet is the error of options that will be accepted when a change that is under way is over.
type NotYet struct{ Why error }

func (e NotYet) Error() string { return e.Why.Error() }

// leaves reports whether s, which q has, is about to leave it. applying is held.
func (m *Middleware) leaves(q *pool, s *route.Server) bool {
	pools := m.options.pools()
	at := slices.IndexFunc(pools, func(p PoolOptions) bool { return p.Name == q.name })
	return at >= 0 && !slices.ContainsFunc(pools[at].Servers, func(t route.Server) bool { return t.Name == s.Name || t.Addr == s.Addr })
}

// replace puts m.options in force by the placement of now. The change of placement of the pool of changed has come to another phase, or is another
// one; nil: none has. applying is held.
func (m *Middleware) replace(ctx context.Context, changed *poolState) error {
	o, router, err := m.effective()
	if err != nil {
		return err
	}
	previous := m.current.Load()
	servers, joined, now := m.serversFor(o, previous)
	if changed == nil && onlyAddresses(&previous.options, &o) && previous.router.Rerouting() == router.Rerouting() && slices.Equal(previous.router.Migrations(), router.Migrations()) {
		return nil
	}
	if v := m.hot.Values(); v != nil {
		v.SetAge(o.hotAge())
	}
	next := newCore(o, router, m.poolStates, servers, &m.shared)
	moved := make([]bool, len(next.pools))
	for i, q := range next.pools {
		was := previous.of(q.poolState)
		if was == nil {
			continue
		}
		last, current := was.record(), q.record()
		other := !last.Equal(&current)
		moved[i] = q.poolState == changed || other || was.rerouting != q.rerouting && (was.had != nil || q.had != nil)
		if q.change == nil {
			// In phases a migration or a change of routes moves keys from a settled pool: it deletes itself what may come back.
			q.inherit(was, now, other && !q.options.inPhases(q.step))
		}
	}
	succeed := func() {
		for was, is := range now {
			if is != was {
				is.Succeed(was)
			}
		}
	}
	if m.work == nil {
		m.current.Store(next)
		succeed()
		m.entrance.Exchange(func() *queue.Lanes { return next.lanes })
		m.registry.Change(m.statistics(next))
		return nil
	}
	m.beginPools(ctx, next)
	for i, q := range next.pools {
		if was := previous.of(q.poolState); was != nil {
			q.place(moved[i] || q.changing(), append(slices.Clone(q.servers), was.servers...))
		}
	}
	for _, q := range next.pools {
		for _, s := range q.servers {
			if slices.Contains(joined, s) {
				m.startProber(q.poolState, s)
			}
		}
	}
	for i, q := range next.pools {
		if moved[i] && q.records != nil {
			q.records.AwaitPlaced(ctx)
		}
	}
	next.decideWriters(ctx)
	for _, q := range next.pools {
		if was := previous.of(q.poolState); was != nil && q.records != nil {
			q.records.RespectMarks(m.keepsHeeding(q, was.heeds()) || q.heeds())
		}
	}
	next.makeWorkers(&m.shared, m.appendStats)
	next.connect(ctx)
	for _, s := range joined {
		s.AwaitReadable(ctx, time.Now().Add(o.ConnectTimeout))
	}
	m.entrance.Exchange(func() *queue.Lanes {
		previous.stop()
		succeed()
		for i, q := range next.pools {
			if !moved[i] {
				continue
			}
			for _, s := range q.servers {
				s.Reclaim()
			}
			if q.records != nil {
				q.records.AwaitPlaced(ctx) // including the markers of servers that reclaim keys
			}
		}
		if v := m.hot.Values(); v != nil && !reflect.DeepEqual(previous.options.Routes, o.Routes) {
			v.Forget() // reads may go to another pool, which has not got the same
		}
		m.registry.Change(m.statistics(next))
		m.current.Store(next)
		next.openGutters()
		next.start(m.work, m.registry)
		return next.lanes
	})
	for _, q := range previous.pools {
		if next.of(q.poolState) == nil {
			q.endRecords(ctx, o.ConnectTimeout)
		}
	}
	for _, s := range previous.servers {
		if !slices.Contains(servers, s) {
			m.release(s)
		}
	}
	for _, q := range next.pools {
		q.place(q.changing(), q.servers)
		if q.records != nil {
			q.records.RespectMarks(q.heeds())
		}
	}
	return nil
}

// beginPools judges the servers of the pools that are new, as at a start. applying is held.
func (m *Middleware) beginPools(ctx context.Context, next *core) {
	for _, p := range next.pools {
		if p.begun {
			continue
		}
		p.first.Store(p)
		for _, s := range p.servers {
			s.NeedVersions(p.options.Writers == WritersSeveral && (p.router.N() > 1 || p.migrates))
		}
		var reaching sync.WaitGroup
		for _, s := range p.servers {
			reaching.Go(func() { _ = s.Reach(ctx) })
		}
		reaching.Wait()
		p.decideWriters(ctx)
		p.beginRecords()
		p.begun = true
		m.background.Go(func() { m.sweep(m.work, p.poolState) })
	}
}

// place puts the placement of p on servers; changing: it is not in force yet.
func (p *pool) place(changing bool, servers []*backend.Server) {
	if p.records != nil {
		p.records.Gutter(p.diverts())
		previous, more := p.history()
		p.records.Place(p.record(), previous, more, changing, servers)
	}
}

// onlyAddresses reports whether b differs from a in nothing but the servers' addresses.
func onlyAddresses(a, b *Options) bool {
	return reflect.DeepEqual(a.withoutAddresses(), b.withoutAddresses())
}

// withoutAddresses returns o without the servers' addresses.
func (o *Options) withoutAddresses() Options {
	pools := slices.Clone(o.pools())
	for i := range pools {
		pools[i].Servers = slices.Clone(pools[i].Servers)
		for s := range pools[i].Servers {
			pools[i].Servers[s].Addr = ""
		}
	}
	return o.with(pools)
}

// serversFor returns the servers of o, in its order; which of them are new; and, for each of those of previous, which may be nil, that stays, what it
// is now.
func (m *Middleware) serversFor(o Options, previous *core) (servers, joined []*backend.Server, now map[*backend.Server]*backend.Server) {
	now = map[*backend.Server]*backend.Server{}
	for i, options := range o.pools() {
		t := m.poolStates[i]
		var were []*backend.Server
		if previous != nil {
			if q := previous.of(t); q != nil {
				were = q.servers
			}
		}
		is, added := m.poolServers(t, options, were, now)
		servers, joined = append(servers, is...), append(joined, added...)
	}
	return servers, joined, now
}

// poolServers is serversFor of t's pool.
func (m *Middleware) poolServers(t *poolState, o PoolOptions, previous []*backend.Server, now map[*backend.Server]*backend.Server) (servers, joined []*backend.Server) {
	named, leaving := map[string]*backend.Server{}, map[string]*backend.Server{} // by name, and by address
	for _, s := range previous {
		named[s.Name], leaving[s.Addr()] = s, s
	}
	for _, wanted := range o.Servers {
		if s := named[wanted.Name]; s != nil {
			delete(leaving, s.Addr())
		}
	}
	options := m.backend(t, &o)
	for _, wanted := range o.Servers {
		s := named[wanted.Name]
		switch renamed := leaving[wanted.Addr]; {
		case s != nil:
			s.Tune(options)
			s.Move(wanted.Addr)
			now[s] = s
		case renamed != nil && renamed.Readable():
			s = renamed.Rename(wanted, options)
			joined = append(joined, s)
			now[renamed] = s
		default:
			s = backend.NewServer(wanted, options)
			joined = append(joined, s)
			if t.begun {
				s.Join(m.mark(t))
			}
		}
		servers = append(servers, s)
	}
	return servers, joined
}

// startProber starts the prober of s, a server of t's pool; applying is held.
func (m *Middleware) startProber(t *poolState, s *backend.Server) {
	ctx, cancel := context.WithCancel(m.work)
	m.stopProber[s] = cancel
	m.background.Go(func() { s.Probe(ctx) })
	if t.records != nil {
		m.background.Go(func() { t.records.Keep(ctx, s) })
		m.background.Go(func() { t.records.Watch(ctx, s) })
	}
}

// release frees what was started for s, which has been removed; applying is held.
func (m *Middleware) release(s *backend.Server) {
	m.stopProber[s]()
	delete(m.stopProber, s)
}
