package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/queue"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

// Apply changes the options while clients are connected: servers are added, removed, renamed, reweighted or moved to
// another address, and tunables change. No request fails because of it, with one exception: when a server only moves to
// another address, the requests in flight to its previous address fail. Any other change takes place between two
// requests of every connection: earlier requests are served as before, later ones wait until it is done.
//
// A server that is added, or moved, may hold anything, and serves no reads until Options.Rejoin has been applied to it.
// A server that has the address of a removed one, but another name, was renamed and keeps what it holds.
//
// If Options.ChangeStep is set and there may be several writers, a new placement of keys is fully applied two steps
// after Apply has returned; see change.
//
// Apply returns an error, and changes nothing, if an option changes that cannot change while clients are served (such
// as Listen), or if New would refuse the options. The error is a NotYet if the options can be applied later. ctx bounds
// connecting to the servers, but not the exchange of cores, which takes up to Timeout if a server does not answer.
// Version, Log and Tap are not changed.
func (m *Middleware) Apply(ctx context.Context, o Options) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	moves, err := m.accept(ctx, &o)
	if err != nil {
		return err
	}
	if err := m.access.readLogins(o.all(), o.Log); err != nil {
		return err
	}
	removed, err := m.applyRecipients(ctx, &o)
	if err != nil {
		return err
	}
	defer stopRecipients(removed)
	defer m.startRecipients() // a pool that becomes a shadow has left its servers by then
	var entering []driven
	if r := m.reroutes(&o, moves); r != nil {
		entering = append(entering, r)
	}
	begun := m.applyMigrations(&o)
	if m.work != nil {
		entering = append(entering, begun...)
	}
	m.options = o
	m.poolStates = m.poolStatesFor(&o)
	for i, t := range m.poolStates {
		if m.wants(t, &o.Pools[i]) {
			entering = append(entering, t.change)
		}
	}
	return m.enter(ctx, route.DeleteNew, entering...)
}

// Check returns the error with which Apply would refuse o now, and changes nothing.
func (m *Middleware) Check(ctx context.Context, o Options) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	if _, err := m.accept(ctx, &o); err != nil {
		return err
	}
	files := access{logins: maps.Clone(m.access.logins)}
	if err := files.readLogins(o.all(), o.Log); err != nil {
		return err
	}
	_, err := m.recipientsFor(ctx, &o)
	return err
}

// accept completes o, and returns what it moves, or an error if it cannot be applied while clients are served, or not
// now. applying is held.
func (m *Middleware) accept(ctx context.Context, o *Options) (s shift, err error) {
	if m.stopping {
		return s, errors.New("the middleware is stopping")
	}
	o.Version, o.Log, o.Tap = m.options.Version, m.options.Log, m.options.Tap
	*o = o.withDefaults()
	if err := o.validate(); err != nil {
		return s, err
	}
	if s, err = m.shiftTo(o); err != nil {
		return s, err
	}
	if !slices.Equal(o.Listen, m.options.Listen) {
		return s, fmt.Errorf("the listen addresses cannot change while clients are served; keep %v, or restart mcmw "+
			"to use %v", m.options.Listen, o.Listen)
	}
	if o.Security != m.options.Security {
		return s, errors.New("TLS and authentication cannot change while clients are served, only the contents of " +
			"their files can; restart mcmw to change them")
	}
	return s, cmp.Or(m.checkPools(o), m.checkSameStrips(s.router), m.checkRoutes(o, s), m.checkMigrations(ctx, o),
		m.checkCopying(o))
}

// poolStatesFor returns the states of o's pools: the existing state of the pool with that name, or a new one. applying
// is held.
func (m *Middleware) poolStatesFor(o *Options) (states []*poolState) {
	for _, p := range o.Pools {
		if t := m.stateNamed(p.Name); t != nil {
			states = append(states, t)
			continue
		}
		t := &poolState{name: p.Name, missing: sweep.NewMissing(), versionless: map[string]bool{}}
		if p.Rejoin != backend.RejoinTrust {
			t.records = backend.NewRecords(o.Log,
				func(server string, newest *marker.Record) (func(key []byte) bool, bool) {
					return m.movedKeys(t, server, newest)
				})
		}
		states = append(states, t)
	}
	return states
}

// stateNamed returns the state of the pool called name; nil: there is none. applying is held.
func (m *Middleware) stateNamed(name string) *poolState {
	if at := slices.IndexFunc(m.poolStates, func(t *poolState) bool { return t.name == name }); at >= 0 {
		return m.poolStates[at]
	}
	return nil
}

// checkPools returns an error if o changes pools in a way that is not possible while clients are served. applying is
// held.
func (m *Middleware) checkPools(o *Options) error {
	now := m.current.Load()
	inPhases := func(p PoolOptions) bool { return p.inPhases(o.ChangeStep) }
	if m.work != nil && (o.Pools[0].Name == "") != (m.options.Pools[0].Name == "") &&
		slices.ContainsFunc(slices.Concat(m.options.Pools, o.Pools), inPhases) {
		return errors.New("a list of servers cannot be replaced by pools, or pools by a list, while clients are " +
			"served and other mcmw may write the servers; " +
			"stop all mcmw, then start them with the new configuration")
	}
	check := func(p *PoolOptions, shadow bool) error {
		for _, q := range now.pools {
			if !shadow && q.name == p.Name && q.options.ServerTLS != p.ServerTLS {
				return fmt.Errorf("%sTLS of the servers cannot change while clients are served; restart mcmw to "+
					"change it", p.messagePrefix())
			}
			if !shadow && q.name == p.Name && q.options.ServerAuthFile != p.ServerAuthFile {
				return fmt.Errorf("%sthe file with the password for the servers cannot change while clients are "+
					"served, only its contents can; restart mcmw to use another file", p.messagePrefix())
			}
			if !shadow && q.name == p.Name && q.records == nil && p.Rejoin != backend.RejoinTrust {
				return fmt.Errorf("%srejoin cannot change from trust while clients are served, because nothing is "+
					"on record about the servers; restart mcmw to change it", p.messagePrefix())
			}
		}
		for _, s := range p.Servers {
			same := func(t *backend.Server) bool { return s.Name == t.Name || s.Addr == t.Addr() }
			refuse := func(kind, name string) error {
				return fmt.Errorf("server %q cannot move from %s %q to pool %q while clients are served; remove it "+
					"first, reload, then add it to pool %q",
					s.Name, kind, name, p.Name, p.Name)
			}
			for _, q := range now.pools {
				if q.name == p.Name || !slices.ContainsFunc(q.servers, same) {
					continue
				}
				if m.leaves(q, &s) {
					return NotYet{fmt.Errorf("server %q is still leaving pool %q; it can join pool %q when it has left",
						s.Name, q.name, p.Name)}
				}
				return refuse("pool", q.name)
			}
			for _, q := range now.shadows() {
				if q.counts.To != p.Name && slices.ContainsFunc(q.inner.current.Load().servers, same) {
					return refuse("shadow", q.counts.To)
				}
			}
		}
		return nil
	}
	for i := range o.Shadows {
		to := &o.Shadows[i].To
		if err := cmp.Or(m.checkBecomesShadow(to.Name), check(to, true)); err != nil {
			return err
		}
	}
	for _, p := range o.Pools {
		if err := check(&p, false); err != nil {
			return err
		}
	}
	return nil
}

// NotYet is the error for options that can be applied when a change that is under way has ended.
type NotYet struct{ Why error }

func (e NotYet) Error() string { return e.Why.Error() }

// leaves reports whether s, which is still in q, is to leave it by m.options. applying is held.
func (m *Middleware) leaves(q *pool, s *route.Server) bool {
	at := m.options.number(q.name)
	return at >= 0 && !slices.ContainsFunc(m.options.Pools[at].Servers, func(t route.Server) bool {
		return t.Name == s.Name || t.Addr == s.Addr
	})
}

// replace makes a core for m.options in the present phases, and replaces the current core by it. changed are the
// changes that have entered another phase, or have begun. applying is held.
func (m *Middleware) replace(ctx context.Context, changed ...driven) error {
	o, router, err := m.effective()
	if err != nil {
		return err
	}
	previous := m.current.Load()
	servers, joined, successors := m.serversFor(o, previous)
	undecided := func(p *pool) bool { return p.undecided }
	if len(changed) == 0 && !slices.ContainsFunc(previous.pools, undecided) &&
		reflect.DeepEqual(previous.options.withoutAddresses(), o.withoutAddresses()) &&
		previous.router.Rerouting() == router.Rerouting() &&
		slices.Equal(previous.router.Migrations(), router.Migrations()) {
		return nil
	}
	if v := m.hot.Values(); v != nil {
		v.SetAge(o.hotAge())
	}
	next := m.newCore(o, router, servers)
	moved := make([]bool, len(next.pools))
	var gains []gain
	for i, p := range next.pools {
		old := previous.of(p.poolState)
		if old == nil {
			continue
		}
		last, current := old.record(), p.record()
		differs := !last.Equal(&current)
		moved[i] = slices.ContainsFunc(changed, func(d driven) bool { return d == p.poolState.change }) || differs ||
			old.rerouting != p.rerouting && (old.had != nil || p.had != nil)
		if p.change == nil {
			// A migration or a change of routes in phases moves keys from a pool whose placement is settled. It deletes
			// old values itself.
			atOnce := differs && !p.options.inPhases(p.step)
			if p.inherit(old, successors, atOnce); atOnce {
				gains = append(gains, gain{pool: p, keys: p.regains})
			}
		}
	}
	succeed := func() {
		for old, successor := range successors {
			if successor != old {
				successor.Succeed(old)
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
	// While the previous core serves, record the new placement, prepare the new servers and connect the new workers.
	m.beginPools(ctx, next, previous)
	for i, p := range next.pools {
		if old := previous.of(p.poolState); old != nil {
			p.place(moved[i] || p.changing(), append(slices.Clone(p.servers), old.servers...))
		}
	}
	for _, p := range next.pools {
		for _, s := range p.servers {
			if slices.Contains(joined, s) {
				m.startProber(p.poolState, s)
			}
		}
	}
	for i, p := range next.pools {
		if moved[i] && p.records != nil {
			p.records.AwaitPlaced(ctx)
		}
	}
	each(next.pools, func(p *pool) {
		if p.begun {
			p.decideWriters(ctx)
		}
	})
	for _, p := range next.pools {
		if old := previous.of(p.poolState); old != nil && p.records != nil {
			p.records.RespectMarks(m.keepsRespecting(p, old.respectsMarks()) || p.respectsMarks())
		}
	}
	m.makeWorkers(next)
	next.connect(ctx)
	<-m.clean(gains)
	for _, s := range joined {
		s.AwaitReadable(ctx, time.Now().Add(o.ConnectTimeout))
	}
	// With no batch in service, exchange the cores.
	m.entrance.Exchange(func() *queue.Lanes {
		previous.stop()
		succeed()
		for i, p := range next.pools {
			if !moved[i] {
				continue
			}
			for _, s := range p.servers {
				s.Reclaim()
			}
			if p.records != nil {
				p.records.AwaitPlaced(ctx) // including the marks of servers that get keys back
			}
		}
		if v := m.hot.Values(); v != nil && !reflect.DeepEqual(previous.options.Routes, o.Routes) {
			v.Forget() // reads may go to another pool, which may hold other values
		}
		m.registry.Change(m.statistics(next))
		m.current.Store(next)
		next.openGutters()
		next.start(m.work, m.registry)
		return next.lanes
	})
	next.release()
	for _, p := range next.pools {
		if previous.of(p.poolState) == nil {
			m.tend(m.work, p.poolState)
		}
	}
	// Release what only the previous core used.
	for _, p := range previous.pools {
		if next.of(p.poolState) == nil {
			p.endRecords(ctx, o.ConnectTimeout)
		}
	}
	for _, s := range previous.servers {
		if !slices.Contains(servers, s) {
			m.release(s)
		}
	}
	for _, p := range next.pools {
		p.place(p.changing(), p.servers)
		if p.records != nil {
			p.records.RespectMarks(p.respectsMarks())
		}
	}
	return nil
}

// beginPools judges the servers of pools that have not begun by their records, as at a start. A pool that is new, was a
// shadow, or was removed and returns, has none of the values that it held then. previous is the core that serves now.
// applying is held.
func (m *Middleware) beginPools(ctx context.Context, next, previous *core) {
	for _, p := range next.pools {
		if p.begun {
			continue
		}
		isNew, routed := previous.of(p.poolState) == nil, m.routing != nil && m.routing.joined
		p.first.Store(p)
		p.requireVersions()
		reach(ctx, p.servers)
		p.decideWriters(ctx)
		if p.change != nil {
			p.joinServers(m.mark(p.poolState))
		}
		p.absent.Store(isNew || !routed && next.isAbsent(p))
		p.begin(!isNew && routed)
		if !isNew && p.begun {
			m.watchOthers(p.poolState)
			if p.unswept.Load() {
				backend.Pause(ctx, aftermath)
			}
		}
	}
}

// begin begins the records of p, unless it is undecided; routed is as in judge.
func (p *pool) begin(routed bool) {
	if !p.undecided {
		p.beginRecords(routed)
		p.begun = true
	}
}

// reach tries to connect to all servers at the same time. A server that can't be reached is down afterwards.
func reach(ctx context.Context, servers []*backend.Server) {
	each(servers, func(s *backend.Server) { _ = s.Reach(ctx) })
}

// place records the placement of p on servers; changing: it is not fully applied yet.
func (p *pool) place(changing bool, servers []*backend.Server) {
	if p.records != nil && p.begun {
		p.records.Gutter(p.diverts())
		p.runs()
		p.records.Place(p.toRecord(changing), servers)
	}
}

// withoutAddresses returns o without how the servers are found: their addresses and entries.
func (o Options) withoutAddresses() Options {
	o.Pools = slices.Clone(o.Pools)
	for i := range o.Pools {
		p := &o.Pools[i]
		p.Servers = slices.Clone(p.Servers)
		for s := range p.Servers {
			p.Servers[s].Addr, p.Servers[s].Entry = "", ""
		}
	}
	return o
}

// serversFor returns the servers of o, in its order, those of them that are new, and the successor of each server of
// previous that stays, which is the server itself unless it was renamed. previous may be nil.
func (m *Middleware) serversFor(o Options, previous *core) (servers, joined []*backend.Server,
	successors map[*backend.Server]*backend.Server,
) {
	successors = map[*backend.Server]*backend.Server{}
	for i, p := range o.Pools {
		t, options := m.poolStates[i], m.backend(m.poolStates[i], &p)
		named, leaving := map[string]*backend.Server{}, map[string]*backend.Server{} // by name, and by address
		if old := previous.of(t); old != nil {
			for _, s := range old.servers {
				named[s.Name], leaving[s.Addr()] = s, s
			}
		}
		for _, wanted := range p.Servers {
			if s := named[wanted.Name]; s != nil {
				delete(leaving, s.Addr())
			}
		}
		for _, wanted := range p.Servers {
			s := named[wanted.Name]
			switch renamed := leaving[wanted.Addr]; {
			case s != nil:
				s.Tune(options)
				s.Move(wanted.Addr)
				successors[s] = s
			case renamed != nil && renamed.Readable():
				s = renamed.Rename(wanted, options)
				joined = append(joined, s)
				successors[renamed] = s
			default:
				s = backend.NewServer(wanted, options)
				joined = append(joined, s)
				if t.begun {
					s.Join(m.mark(t))
				}
			}
			servers = append(servers, s)
		}
	}
	return servers, joined, successors
}

// startProber starts the prober of s, a server of t's pool; applying is held.
func (m *Middleware) startProber(t *poolState, s *backend.Server) {
	ctx, cancel := context.WithCancel(m.work)
	m.stopProber[s] = cancel
	m.background.Go(func() { s.Probe(ctx) })
	if t.records != nil {
		m.background.Go(func() { t.records.Keep(ctx, s) })
	}
}

// release frees what was started for s, which has been removed; applying is held.
func (m *Middleware) release(s *backend.Server) {
	m.stopProber[s]()
	delete(m.stopProber, s)
}
