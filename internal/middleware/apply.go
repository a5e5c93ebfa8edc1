package middleware

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/queue"
	"mcmw/internal/route"
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
	m.options = o
	if m.wants() {
		return m.enter(ctx, route.DeleteNew)
	}
	return m.replace(ctx, false)
}

// replace puts m.options in force by the placement of now; changed: the change of placement has come to another phase, or is another one. applying
// is held.
func (m *Middleware) replace(ctx context.Context, changed bool) error {
	o, router, err := m.effective()
	if err != nil {
		return err
	}
	previous := m.current.Load()
	servers, joined, now := m.serversFor(o, previous.servers)
	if !changed && onlyAddresses(previous.options, o) {
		return nil
	}
	next := newCore(o, router, servers, &m.shared)
	next.change = m.change.copy()
	last, current := previous.record(), next.record()
	moved := changed || !last.Equal(&current)
	if m.change == nil {
		next.inherit(previous, now, moved)
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
		m.registry.Change(next.statistics())
		return nil
	}
	m.place(next, moved || next.changing(), append(slices.Clone(servers), previous.servers...))
	for _, s := range joined {
		m.startProber(s)
	}
	if moved && m.records != nil {
		m.records.AwaitPlaced(ctx)
	}
	next.decideWriters(ctx)
	if m.records != nil {
		m.records.Heed(previous.heeds() || next.heeds())
	}
	next.makeWorkers(&m.shared, m.appendStats)
	next.connect(ctx)
	for _, s := range joined {
		s.AwaitReadable(ctx, time.Now().Add(o.ConnectTimeout))
	}
	m.entrance.Exchange(func() *queue.Lanes {
		previous.stop()
		succeed()
		if moved {
			for _, s := range servers {
				s.Reclaim()
			}
			if m.records != nil {
				m.records.AwaitPlaced(ctx) // including the markers of servers that reclaim keys
			}
		}
		m.registry.Change(next.statistics())
		m.current.Store(next)
		next.start(m.work, m.registry)
		return next.lanes
	})
	for _, s := range previous.servers {
		if !slices.Contains(servers, s) {
			m.release(s)
		}
	}
	m.place(next, next.changing(), servers)
	if m.records != nil {
		m.records.Heed(next.heeds())
	}
	return nil
}

// place puts the placement of p on servers; changing: it is not in force yet.
func (m *Middleware) place(p *core, changing bool, servers []*backend.Server) {
	if m.records != nil {
		previous, more := p.history()
		m.records.Place(p.record(), previous, more, changing, servers)
	}
}

// onlyAddresses reports whether b differs from a in nothing but the servers' addresses.
func onlyAddresses(a, b Options) bool {
	alike := slices.EqualFunc(a.Servers, b.Servers, func(s, t route.Server) bool { return s.Name == t.Name && s.Weight == t.Weight && s.Zone == t.Zone })
	a.Servers, b.Servers = nil, nil
	return alike && reflect.DeepEqual(a, b)
}

// serversFor returns the servers of o, in its order; which of them are new; and, for each of previous that stays, what it is
// now.
func (m *Middleware) serversFor(o Options, previous []*backend.Server) (servers, joined []*backend.Server, now map[*backend.Server]*backend.Server) {
	named, leaving := map[string]*backend.Server{}, map[string]*backend.Server{} // by name, and by address
	for _, s := range previous {
		named[s.Name], leaving[s.Addr()] = s, s
	}
	for _, wanted := range o.Servers {
		if s := named[wanted.Name]; s != nil {
			delete(leaving, s.Addr())
		}
	}
	now = map[*backend.Server]*backend.Server{}
	for _, wanted := range o.Servers {
		s := named[wanted.Name]
		switch renamed := leaving[wanted.Addr]; {
		case s != nil:
			s.Tune(o.backend(&m.shared))
			s.Move(wanted.Addr)
			now[s] = s
		case renamed != nil && renamed.Readable():
			s = renamed.Rename(wanted, o.backend(&m.shared))
			joined = append(joined, s)
			now[renamed] = s
		default:
			s = backend.NewServer(wanted, o.backend(&m.shared))
			joined = append(joined, s)
			if m.work != nil {
				s.Join(m.mark())
			}
		}
		servers = append(servers, s)
	}
	return servers, joined, now
}

// startProber starts the prober of s; applying is held.
func (m *Middleware) startProber(s *backend.Server) {
	ctx, cancel := context.WithCancel(m.work)
	m.stopProber[s] = cancel
	m.background.Go(func() { s.Probe(ctx) })
	if m.records != nil {
		m.background.Go(func() { m.records.Keep(ctx, s) })
		m.background.Go(func() { m.records.Watch(ctx, s) })
	}
}

// release frees what was started for s, which has been removed; applying is held.
func (m *Middleware) release(s *backend.Server) {
	m.stopProber[s]()
	delete(m.stopProber, s)
}
