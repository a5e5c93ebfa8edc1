package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// rerouting is a change of routes that gives keys to other pools, or of gutters, where other middlewares may learn of it earlier or later. It goes through the phases of
// a change of placement, each as long, and a middleware may start late in it; another one begins when it is over:
//
//	settled --> delete-new --> read-new --> settled, no change may begin --> settled
//	start --> late --> settled, no change may begin --> ..
//
// In the pools' records on the servers it is a change of which keys a pool has. The gutters concerned are closed up to the end, and cleaned in the last step; so they
// are, without the phases before, of a middleware that writes alone.
type rerouting struct {
	course
	from route.Routes
	// gutters are those before of pools whose gutters are closed, by the pools' names.
	gutters map[string]route.Standin
	gains   map[string]bool // the pools that get keys
	phased  bool
}

// shift is what options not yet in force change of where keys are, or will be when the change of routes under way is over.
type shift struct {
	moved   []route.Moved            // in phases
	gutters map[string]route.Standin // as rerouting's
	phased  bool
	router  *route.Router // behind that
}

// inPhases reports whether the moved keys leave, or come to, a pool of o whose placement changes in phases.
func (o *Options) inPhases(moved []route.Moved) bool {
	return slices.ContainsFunc(o.Pools, func(p PoolOptions) bool {
		return p.inPhases(o.ChangeStep) && slices.ContainsFunc(moved, func(m route.Moved) bool { return m.From == p.Name || m.To == p.Name })
	})
}

// shiftTo returns what o changes of where keys are, and of gutters; nothing where nobody is served yet. applying is held.
func (m *Middleware) shiftTo(o *Options) (s shift, err error) {
	s.router, err = o.route()
	now := m.current.Load().router.Table()
	if err != nil || m.work == nil || now == nil || s.router.Table() == nil {
		return s, err
	}
	s.router = m.migrated(o, s.router)
	s.moved = route.MovedBetween(now, s.router.Table())
	s.phased = o.inPhases(s.moved) || m.options.inPhases(s.moved)
	s.gutters = map[string]route.Standin{}
	for _, p := range o.Pools {
		was := m.options.poolNamed(p.Name)
		is, former := p.Options.Standin(), was.Options.Standin()
		other := was.Name != "" && is != former
		if other || is.Pool != "" && slices.ContainsFunc(s.moved, func(k route.Moved) bool { return k.To == p.Name }) {
			s.gutters[p.Name] = former
		}
		for _, name := range []string{p.Name, is.Pool, former.Pool} {
			with, without := o.poolNamed(name), m.options.poolNamed(name)
			s.phased = s.phased || other && (with.Name != "" && with.inPhases(o.ChangeStep) || without.Name != "" && without.inPhases(o.ChangeStep))
		}
	}
	if !s.phased {
		s.moved = nil
		for pool, former := range s.gutters {
			if o.poolNamed(former.Pool).Name == "" {
				s.gutters[pool] = route.Standin{} // nobody else uses it
			}
		}
	}
	return s, nil
}

// checkRoutes reports what o can't change of where keys are while clients are served, or not yet. applying is held.
func (m *Middleware) checkRoutes(o *Options) error {
	s, err := m.shiftTo(o)
	if err != nil {
		return err
	}
	moved, router := s.moved, s.router
	if c := m.routing; c != nil {
		switch gone := m.gone(o, c); {
		case len(moved)+len(s.gutters) > 0:
			return NotYet{fmt.Errorf("routes change, in phase %s; accepted: another change when that is over", c.phase)}
		case gone != "":
			return NotYet{fmt.Errorf("the keys of pool %q go to another one; accepted: without it when that is over", gone)}
		case slices.ContainsFunc(o.Migrations, func(g Migration) bool { return !g.isIn(m.options.Migrations) }):
			return NotYet{errors.New("routes change; accepted: another migration when that is over")}
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(s.gutters)) {
		if g := s.gutters[pool].Pool; g != "" && o.poolNamed(g).Name == "" {
			return route.NewGutterError(pool, "pool %q had the gutter %q until now, which other mcmw may use still, and that is gone; accepted: with pool %q, and without it when that is over", pool, g, g)
		}
		for _, g := range o.Migrations {
			if gutter := s.gutters[pool].Pool; m.clock().Before(g.over()) && slices.ContainsFunc([]string{g.From, g.To}, func(name string) bool { return name == pool || name == gutter }) {
				return route.NewGutterError(pool, "pool %q had the gutter %q until now, and %s is not over; accepted: that first, or another gutter first", pool, gutter, g.what())
			}
		}
	}
	for _, k := range moved {
		refuse := func(why string, args ...any) error {
			at := slices.IndexFunc(o.Routes.Prefixes, func(p route.Prefix) bool { return p.Prefix == k.Prefix })
			return route.NewRouteError(at, "keys go from pool %q to pool %q while clients are served and other mcmw may write their servers, and "+why, append([]any{k.From, k.To}, args...)...)
		}
		if o.poolNamed(k.From).Name == "" {
			return refuse("pool %q is gone; accepted: without a route to it first, and without it when that is over", k.From)
		}
		for _, g := range m.options.Migrations {
			if g.From == k.To && g.To == k.From && !g.isIn(o.Migrations) {
				return refuse("the migration from pool %q to pool %q is dropped; accepted: with routes to pool %q, which has them now", g.From, g.To, g.To)
			}
		}
		for _, name := range []string{k.From, k.To} {
			if until := m.left[name]; m.clock().Before(until) {
				return NotYet{fmt.Errorf("a migration to pool %q was dropped, and others may still be in it; accepted: other routes from %s on", name, moment(until))}
			}
			for _, g := range slices.Concat(m.options.Migrations, o.Migrations) {
				if (g.From == name || g.To == name) && m.clock().Before(g.over()) {
					return refuse("%s is not done; accepted: when it is (end: %s)", g.what(), g.ending())
				}
			}
		}
	}
	if len(moved) > 0 {
		_, err = router.Reroute(m.current.Load().router.Table().Routes(), route.DeleteNew)
	}
	return err
}

// gone returns a pool of those that c needs, which o hasn't; "": there is none.
func (m *Middleware) gone(o *Options, c *rerouting) string {
	if c.phase == route.Settled && len(c.gutters) == 0 {
		return ""
	}
	needed := []string{c.from.Default}
	for _, p := range c.from.Prefixes {
		needed = append(needed, p.Pool)
	}
	for _, g := range c.gutters {
		if g.Pool != "" {
			needed = append(needed, g.Pool)
		}
	}
	for _, name := range needed {
		if o.poolNamed(name).Name == "" {
			return name
		}
	}
	return ""
}

// reroutes begins a change of routes if o, not yet in force, gives keys to other pools in phases, or changes what gutters hold, and reports that; the next core is in
// its first phase. applying is held.
func (m *Middleware) reroutes(o *Options) bool {
	s, _ := m.shiftTo(o) // checkRoutes has reported what is wrong
	if len(s.moved)+len(s.gutters) == 0 {
		return false
	}
	from := m.current.Load().router.Table().Routes()
	if _, err := route.NewTable(o.names(), from); err != nil { // not in phases: a pool is gone at once
		from = o.Routes
	}
	m.routing = &rerouting{from: from, gutters: s.gutters, phased: s.phased, gains: map[string]bool{}}
	for _, k := range s.moved {
		m.routing.gains[k.To] = true
	}
	if s.phased {
		m.routing.phase = route.DeleteNew
	}
	return true
}

// beginRerouting says that the first core of the change of routes is in force, and lets it go on. applying is held.
func (m *Middleware) beginRerouting() {
	m.rerouted()
	m.background.Go(func() { m.goThroughRoutes(m.work) })
}

// rerouted says that the core of the phase that m.routing has come to is in force. applying is held.
func (m *Middleware) rerouted() {
	c := m.routing
	m.options.Log.Info("routes of keys change", "phase", c.phase.String())
	c.cleaning, c.due = new(sync.WaitGroup), time.Now()
	switch {
	case c.phase == route.DeleteNew:
		m.cleanRerouted(c)
	case c.phase == route.Settled:
		m.cleanGutters(c)
	}
	switch {
	case c.phase == route.Late:
		c.due = c.due.Add(lateSteps * m.options.ChangeStep)
	case c.phased:
		c.due = c.due.Add(m.options.ChangeStep)
	}
}

// cleanRerouted deletes on servers what they may have held earlier of the keys that their pools get.
func (m *Middleware) cleanRerouted(c *rerouting) {
	p := m.current.Load()
	for i, q := range p.pools {
		if q.had == nil || !c.gains[q.name] || q.options.Rejoin == backend.RejoinTrust {
			continue
		}
		mark := backend.Mark{Text: "routes " + fingerprint(q.of(placed{q.router, q.options.Options}, q.had), q.wantedRecord()), For: m.options.ChangeStep}
		gained := func(key []byte) bool { return p.router.Gives(i, key) && !bytes.HasPrefix(key, []byte(marker.Prefix)) }
		for _, s := range q.servers {
			if !s.Joins() {
				c.cleaning.Go(func() { s.Purge(m.work, gained, mark) })
			}
		}
	}
}

// goThroughRoutes takes the change of routes from phase to phase, until there is none or ctx is done.
func (m *Middleware) goThroughRoutes(ctx context.Context) {
	m.follow(ctx, nil, func() *course {
		if m.routing == nil {
			return nil
		}
		return &m.routing.course
	}, m.stepRoutes)
}

// stepRoutes enters the next phase of the change of routes if that is due. more: there will be another one.
func (m *Middleware) stepRoutes(ctx context.Context) (more bool) {
	m.applying.Lock()
	defer m.applying.Unlock()
	c := m.routing
	switch {
	case m.stopping || c == nil:
		return false
	case time.Now().Before(c.due):
		return true
	case c.phase == route.Settled:
		m.routing = nil
	case c.phase == route.DeleteNew:
		c.phase = route.ReadNew
	default:
		c.phase = route.Settled
	}
	if m.routing != nil || len(c.gutters) > 0 {
		if err := m.replace(ctx, nil); err != nil {
			m.options.Log.Error("the routes of keys cannot change", "error", err)
		}
	}
	if m.routing == nil {
		return false
	}
	m.rerouted()
	return true
}

// routesBefore returns the change to c from the routes and the gutters that the newest records on the pools' servers tell of; nil: they are c's.
func (c *core) routesBefore() *rerouting {
	table := c.router.Table()
	if table == nil {
		return nil
	}
	r := &rerouting{course: course{phase: route.Late, cleaning: new(sync.WaitGroup)}, gutters: map[string]route.Standin{}}
	shares := make([]*route.Share, len(c.pools))
	others := false
	for i, q := range c.pools {
		shares[i] = table.Share(i)
		phased := q.options.inPhases(q.step)
		if q.records == nil || q.share == nil {
			continue
		}
		newest := q.records.Looks().Newest()
		if newest == nil {
			if phased {
				shares[i] = nil
			}
			continue
		}
		for _, old := range append([]marker.Placement{newest.Placement}, newest.Previous...) {
			if old.Share != nil && !old.Share.Equal(q.share) {
				if was := old.Share.Gutter; was != q.share.Gutter || was.Pool != "" {
					if c.named(was.Pool) < 0 {
						was = route.Standin{}
					}
					r.gutters[q.name] = was
					r.phased = r.phased || phased
				}
				if phased {
					shares[i], others = old.Share.Own(), true
				}
				break
			}
			if !newest.Changing {
				break
			}
		}
	}
	if others {
		r.from = table.RoutesBefore(shares)
		was, err := route.NewTable(c.options.names(), r.from)
		others = err != nil || len(route.MovedBetween(was, table)) > 0
		r.phased = r.phased || others
	}
	switch {
	case !others && len(r.gutters) == 0:
		return nil
	case !others:
		r.from = table.Routes()
	}
	if !r.phased {
		r.phase = route.Settled
	}
	return r
}
