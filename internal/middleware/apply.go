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

// Apply makes the middleware serve with other options while clients are connected: servers come, go, get other names,
// weights or addresses, and the tunables change. No request fails for it. A server that only has another address costs the
// requests that are with its previous one; anything else is exchanged between two requests of every connection: what came
// before is served as it was, and what comes after waits for that.
//
// A server that joins, or has another address, may hold anything, and serves no read until Options.Rejoin is done; one that
// has another name but the address of one that left goes on with what it holds.
//
// What cannot change while clients are served (Listen) is an error, as are options that New would refuse; then nothing
// changes. ctx bounds connecting to the servers, not the exchange, which takes up to Timeout if a server does not answer.
// Version and Log stay.
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
	router, err := o.route()
	if err != nil {
		return err
	}
	if !slices.Equal(o.Listen, m.options.Listen) {
		return fmt.Errorf("the listen addresses cannot change while clients are served (%v, not %v); restart instead", m.options.Listen, o.Listen)
	}
	if o.Security != m.options.Security {
		return errors.New("TLS and authentication cannot change while clients are served, but for the contents of their files; restart instead")
	}
	previous := m.pool.Load()
	servers, joined, now := m.serversFor(o, previous.servers)
	readdressed := onlyAddresses(m.options, o)
	m.options = o
	if readdressed {
		return nil
	}
	next := newPool(o, router, servers, &m.swept)
	moved := !slices.Equal(previous.options.Servers, o.Servers) || previous.options.Placement != o.Placement
	next.inherit(previous, now, moved)
	if m.work == nil {
		m.pool.Store(next)
		m.entrance.Exchange(func() *queue.Lanes { return next.lanes })
		m.registry.Change(next.statistics())
		return nil
	}
	m.place(next, moved, append(slices.Clone(servers), previous.servers...))
	for _, s := range joined {
		m.startProber(s)
	}
	if moved && m.records != nil {
		m.records.AwaitPlaced(ctx)
	}
	next.makeWorkers(&m.shared, m.appendStats)
	next.connect(ctx)
	for _, s := range joined {
		s.AwaitReadable(ctx, time.Now().Add(o.ConnectTimeout))
	}
	m.entrance.Exchange(func() *queue.Lanes {
		previous.stop()
		if moved {
			for _, s := range servers {
				s.Reclaim()
			}
			if m.records != nil {
				m.records.AwaitPlaced(ctx) // with the marks of servers that have something to reclaim
			}
		}
		m.registry.Change(next.statistics())
		m.pool.Store(next)
		next.start(m.work, m.registry)
		return next.lanes
	})
	for _, s := range previous.servers {
		if !slices.Contains(servers, s) {
			m.release(s)
		}
	}
	m.place(next, false, servers)
	return nil
}

// place puts the placement of p on servers; changing: it is not in force yet.
func (m *Middleware) place(p *pool, changing bool, servers []*backend.Server) {
	if m.records != nil {
		previous, more := p.history()
		m.records.Place(p.record(), previous, more, changing, servers)
	}
}

// onlyAddresses reports whether b differs from a in the addresses of servers at most.
func onlyAddresses(a, b Options) bool {
	alike := slices.EqualFunc(a.Servers, b.Servers, func(s, t route.Server) bool { return s.Name == t.Name && s.Weight == t.Weight })
	a.Servers, b.Servers = nil, nil
	return alike && reflect.DeepEqual(a, b)
}

// serversFor returns the servers of o, in its order; those of them that join; and what each of previous is now, if it stays.
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
				s.Join()
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
	}
}

// release ends what was begun for s, which has left; applying is held.
func (m *Middleware) release(s *backend.Server) {
	m.stopProber[s]()
	delete(m.stopProber, s)
	s.Remove()
}
