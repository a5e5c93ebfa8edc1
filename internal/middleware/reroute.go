package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// rerouting is a change of routes that gives keys to other pools, where other middlewares may learn of it earlier or later. It goes through the phases of a
// change of placement, each as long, and a middleware may start late in it; another one begins when it is over:
//
//	settled --> delete-new --> read-new --> settled, no change may begin --> settled
//	start --> late --> settled, no change may begin --> settled
//
// In the pools' records on the servers it is a change of which keys a pool has.
type rerouting struct {
	course
	from route.Routes
}

// inPhases reports whether the moved keys leave, or come to, a pool of o whose placement changes in phases.
func (o *Options) inPhases(moved []route.Moved) bool {
	return slices.ContainsFunc(o.Pools, func(p PoolOptions) bool {
		return p.inPhases(o.ChangeStep) && slices.ContainsFunc(moved, func(m route.Moved) bool { return m.From == p.Name || m.To == p.Name })
	})
}

// movedBy returns which keys o gives to other pools than those in which they are, or will be when the change of routes under way is over, and the router behind
// that; nothing where that is done at once. applying is held.
func (m *Middleware) movedBy(o *Options) (moved []route.Moved, router *route.Router, err error) {
	router, err = o.route()
	now := m.current.Load().router.Table()
	if err != nil || m.work == nil || now == nil || router.Table() == nil {
		return nil, router, err
	}
	router = m.migrated(o, router)
	moved = route.MovedBetween(now, router.Table())
	if !o.inPhases(moved) && !m.options.inPhases(moved) {
		return nil, router, nil
	}
	return moved, router, nil
}

// checkRoutes reports what o can't change of where keys are while clients are served, or not yet. applying is held.
func (m *Middleware) checkRoutes(o *Options) error {
	moved, router, err := m.movedBy(o)
	if err != nil {
		return err
	}
	if c := m.routing; c != nil {
		switch gone := m.gone(o, c); {
		case len(moved) > 0:
			return NotYet{fmt.Errorf("routes change, in phase %s; accepted: another change when that is over", c.phase)}
		case gone != "":
			return NotYet{fmt.Errorf("the keys of pool %q go to another one; accepted: without it when that is over", gone)}
		case slices.ContainsFunc(o.Migrations, func(g Migration) bool { return !g.isIn(m.options.Migrations) }):
			return NotYet{errors.New("routes change; accepted: another migration when that is over")}
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
			if gutter := m.besideGutter(o, name); gutter != "" {
				return refuse("pool %q has a gutter, or is one (%q); accepted: restart all at once, or writers one", name, gutter)
			}
			for _, g := range slices.Concat(m.options.Migrations, o.Migrations) {
				if (g.From == name || g.To == name) && m.clock().Before(g.over()) {
					return refuse("those of pool %q migrate to pool %q; accepted: when that is done (end: %s)", g.From, g.To, g.ending())
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
	if c.phase == route.Settled {
		return ""
	}
	for _, p := range append(slices.Clone(c.from.Prefixes), route.Prefix{Pool: c.from.Default}) {
		if o.poolNamed(p.Pool).Name == "" {
			return p.Pool
		}
	}
	return ""
}

// besideGutter returns the gutter that the pool called name has, or is, by the options of now or by o; "": there is none.
func (m *Middleware) besideGutter(o *Options, name string) string {
	for _, pools := range [][]PoolOptions{m.options.Pools, o.Pools} {
		for _, p := range pools {
			if g := p.Options.Gutter; g != "" && (p.Name == name || g == name) {
				return g
			}
		}
	}
	return ""
}

// reroutes begins a change of routes if o, not yet in force, gives keys to other pools in phases, and reports that; the next core is in its first phase. applying
// is held.
func (m *Middleware) reroutes(o *Options) bool {
	moved, _, _ := m.movedBy(o) // checkRoutes has reported what is wrong
	if len(moved) == 0 {
		return false
	}
	m.routing = &rerouting{from: m.current.Load().router.Table().Routes()}
	m.routing.phase, m.routing.cleaning = route.DeleteNew, new(sync.WaitGroup)
	return true
}

// rerouted says that the core of the phase that m.routing has come to is in force. applying is held.
func (m *Middleware) rerouted() {
	c := m.routing
	m.options.Log.Info("routes of keys change", "phase", c.phase.String())
	c.cleaning = new(sync.WaitGroup)
	if c.phase == route.DeleteNew {
		m.cleanRerouted(c)
		m.background.Go(func() { m.goThroughRoutes(m.work) })
	}
	c.due = time.Now().Add(m.options.ChangeStep)
}

// cleanRerouted deletes on servers what they may have held earlier of the keys that their pools get.
func (m *Middleware) cleanRerouted(c *rerouting) {
	p := m.current.Load()
	for i, q := range p.pools {
		if q.had == nil || q.options.Rejoin == backend.RejoinTrust {
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
		return false
	case c.phase == route.DeleteNew:
		c.phase = route.ReadNew
	default:
		c.phase = route.Settled
	}
	if err := m.replace(ctx, nil); err != nil {
		m.options.Log.Error("the routes of keys cannot change", "error", err)
	}
	m.rerouted()
	return true
}

// routesBefore returns the routes by which keys are, or were, in pools by the newest records on their servers; ok is false if these are c's.
func (c *core) routesBefore() (before route.Routes, ok bool) {
	table := c.router.Table()
	if table == nil {
		return before, false
	}
	shares := make([]*route.Share, len(c.pools))
	for i, q := range c.pools {
		shares[i] = table.Share(i)
		if q.records == nil || !q.options.inPhases(q.step) || q.share == nil {
			continue
		}
		newest := q.records.Looks().Newest()
		if newest == nil {
			shares[i] = nil
			continue
		}
		for _, old := range append([]marker.Placement{newest.Placement}, newest.Previous...) {
			if old.Share != nil && !old.Share.Equal(q.share) {
				shares[i], ok = old.Share, true
				break
			}
			if !newest.Changing {
				break
			}
		}
	}
	if !ok {
		return before, false
	}
	before = table.RoutesBefore(shares)
	was, err := route.NewTable(c.options.names(), before)
	return before, err != nil || len(route.MovedBetween(was, table)) > 0
}
