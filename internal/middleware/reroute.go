package middleware

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// rerouting is a change of routes that gives keys to other pools, or a change of gutters. Other middlewares may learn
// of it earlier or later, so it goes through the phases of a change of placement, which middlewares announce as they
// announce that one. A middleware that starts in it and finds no announcement is late. The next change can begin after
// the last phase:
//
//	settled --> delete-new --> read-new --> settled, closing --> settled
//	start --> late --> settled, closing --> settled
//
// In the pools' records on the servers it appears as a change of the keys that a pool has. The gutters of the pools
// concerned are closed in all phases, and cleaned in the last one, settled closing. With one writer there is only this
// last phase.
type rerouting struct {
	course
	from route.Routes
	// gutters are the previous gutters of the pools whose gutters are closed, by the pools' names.
	gutters map[string]route.Standin
	moved   []route.Moved
}

// shift describes how new options, not yet applied, move keys to other pools, and change gutters.
type shift struct {
	moved   []route.Moved            // the keys that move in phases
	gutters map[string]route.Standin // as in rerouting
	phased  bool                     // other middlewares may be in other phases
	router  *route.Router            // of the new options
}

// inPhases reports whether the moved keys leave, or go to, a pool of o whose placement changes in phases.
func (o *Options) inPhases(moved []route.Moved) bool {
	return slices.ContainsFunc(o.Pools, func(p PoolOptions) bool {
		return p.inPhases(o.ChangeStep) &&
			slices.ContainsFunc(moved, func(m route.Moved) bool { return m.From == p.Name || m.To == p.Name })
	})
}

// shiftTo returns how o moves keys to other pools and changes gutters. Before clients are served nothing moves.
// applying is held.
func (m *Middleware) shiftTo(o *Options) (s shift, err error) {
	s.router, err = o.route()
	now := m.current.Load().router
	if err != nil || m.work == nil || !now.Named() || !s.router.Named() {
		return s, err
	}
	s.router = s.router.Migrate(m.moves(o))
	s.moved = route.MovedBetween(now.Table(), s.router.Table())
	s.phased = o.inPhases(s.moved) || m.options.inPhases(s.moved)
	s.gutters = map[string]route.Standin{}
	for _, p := range o.Pools {
		old := m.options.poolNamed(p.Name)
		gutter, previous := p.Options.Standin(), old.Options.Standin()
		changes := old.Name != "" && gutter != previous
		if changes || gutter.Pool != "" &&
			slices.ContainsFunc(s.moved, func(k route.Moved) bool { return k.To == p.Name }) {
			s.gutters[p.Name] = previous
		}
		for _, name := range []string{p.Name, gutter.Pool, previous.Pool} {
			after, before := o.poolNamed(name), m.options.poolNamed(name)
			s.phased = s.phased || changes && (after.Name != "" && after.inPhases(o.ChangeStep) || before.Name != "" &&
				before.inPhases(o.ChangeStep))
		}
	}
	if !s.phased {
		s.moved = nil
		for pool, previous := range s.gutters {
			if o.poolNamed(previous.Pool).Name == "" {
				s.gutters[pool] = route.Standin{} // no other middleware uses it
			}
		}
	}
	return s, nil
}

// checkRoutes returns an error if o, by which s moves, moves keys to other pools, or changes gutters, in a way that is
// not possible while clients are served, or not yet (NotYet). applying is held.
func (m *Middleware) checkRoutes(o *Options, s shift) (err error) {
	if c := m.routing; c != nil {
		switch missing := c.missingPool(o); {
		case len(s.moved)+len(s.gutters) > 0:
			return NotYet{fmt.Errorf("an earlier change of routes or gutters has not ended (phase %s); they can "+
				"change again when it has", c.phase)}
		case missing != "":
			return NotYet{fmt.Errorf("an earlier change of routes or gutters, which needs pool %q, has not ended; "+
				"the pool can be removed when it has", missing)}
		case slices.ContainsFunc(o.Migrations, func(g Migration) bool { return !g.isIn(m.options.Migrations) }):
			return NotYet{errors.New("an earlier change of routes or gutters has not ended; a migration can be added " +
				"when it has")}
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(s.gutters)) {
		if g := s.gutters[pool].Pool; g != "" && o.poolNamed(g).Name == "" {
			return route.WrongGutter(pool,
				"pool %q had the gutter %q until now, which other mcmw may still use; keep pool %q, reload, and "+
					"remove it when the change has ended", pool, g, g)
		}
		for _, g := range o.Migrations {
			gutter, next := s.gutters[pool].Pool, o.poolNamed(pool).Options.Gutter
			if m.clock().Before(g.over()) && slices.ContainsFunc([]string{pool, gutter, next}, g.uses) {
				return route.WrongGutter(pool,
					"pool %q had the gutter %q until now, and %s has not ended; change the gutter alone, before the "+
						"migration is added or after it has ended",
					pool, gutter, g.describe())
			}
		}
	}
	for _, k := range s.moved {
		refuse := func(why string, args ...any) error {
			at := slices.IndexFunc(o.Routes.Prefixes, func(p route.Prefix) bool { return p.Prefix == k.Prefix })
			return route.WrongRoute(at,
				"the routes move keys from pool %q to pool %q while other mcmw may write their servers, but "+why,
				append([]any{k.From, k.To}, args...)...)
		}
		if o.poolNamed(k.From).Name == "" {
			return refuse("pool %q is removed as well; remove only the routes to it, reload, and remove the pool "+
				"when the change has ended", k.From)
		}
		for _, g := range m.options.Migrations {
			if g.From == k.To && g.To == k.From && !g.isIn(o.Migrations) {
				return refuse("the migration from pool %q to pool %q is dropped; change the routes to pool %q, which "+
					"has the keys now", g.From, g.To, g.To)
			}
		}
		for _, name := range []string{k.From, k.To} {
			if err := m.checkDropped(name, "the routes can change"); err != nil {
				return err
			}
			for _, g := range slices.Concat(m.options.Migrations, o.Migrations) {
				if g.uses(name) && m.clock().Before(g.over()) {
					return refuse("%s has not ended; change the routes after it (end: %s)", g.describe(), g.ending())
				}
			}
		}
	}
	if len(s.moved) > 0 {
		_, err = s.router.Reroute(m.current.Load().router.Table().Routes(), route.DeleteNew)
	}
	return err
}

// missingPool returns the name of a pool that the change r needs and o lacks; "": there is none.
func (r *rerouting) missingPool(o *Options) string {
	if r.phase == route.Settled && len(r.gutters) == 0 {
		return ""
	}
	needed := r.from.Names()
	for _, g := range r.gutters {
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

// reroutes begins the change of routes s to o, which is not applied yet; nil: no keys move to other pools in phases,
// and no gutters change. Apply enters the first phase. applying is held.
func (m *Middleware) reroutes(o *Options, s shift) *rerouting {
	if len(s.moved)+len(s.gutters) == 0 {
		return nil
	}
	from := m.current.Load().router.Table().Routes()
	if _, err := route.NewTable(o.names(), from); err != nil { // without phases a pool may be removed at once
		from = o.Routes
	}
	m.routing = &rerouting{course: course{alone: !s.phased}, from: from, gutters: s.gutters, moved: s.moved}
	return m.routing
}

// gives reports whether p gets keys.
func (r *rerouting) gives(p *pool) bool {
	return slices.ContainsFunc(r.moved, func(k route.Moved) bool { return k.To == p.name })
}

func (r *rerouting) what() string { return "the change of routes" }

func (r *rerouting) next(*Middleware) route.Phase {
	if r.phase == route.DeleteNew {
		return route.ReadNew // no values are copied
	}
	return courseRows[r.phase].next
}

func (r *rerouting) prepare(_ context.Context, m *Middleware, phase route.Phase, _ sightings) route.Phase {
	m.options.Log.Info("routes of keys change", "phase", phase.String())
	if phase != route.DeleteNew {
		return phase
	}
	// The marks of a change that gave keys to pools which lose some now: when it begins again, they are to be cleaned
	// again.
	for _, p := range m.current.Load().pools {
		loses := func(k route.Moved) bool { return k.From == p.name }
		if slices.ContainsFunc(r.moved, loses) && !r.gives(p) {
			eachAnswering(p.servers, func(s *backend.Server) {
				talk(m.work, s, func(l *link.Link) error { return l.Delete(marker.CleanRoutesKey) })
			})
		}
	}
	return phase
}

// gains returns the keys that pools get; in the last phase, those that gutters get.
func (r *rerouting) gains(m *Middleware, phase route.Phase) (gains []gain) {
	switch c := m.current.Load(); phase {
	case route.DeleteNew:
		for i, p := range c.pools {
			if p.had != nil && r.gives(p) {
				gives := func(key []byte) bool { return c.router.Gives(i, key) }
				gains = append(gains, gain{p, m.routesMark(p), func(int) func(key []byte) bool { return gives }})
			}
		}
	case route.Settled:
		return m.gutterGains(r)
	}
	return gains
}

// end opens the gutters that were closed.
func (r *rerouting) end(ctx context.Context, m *Middleware) {
	m.routing = nil
	if len(r.gutters) > 0 {
		if err := m.replace(ctx); err != nil {
			m.options.Log.Error(r.what()+" cannot enter its next phase", "error", err)
		}
	}
}

// routesMark returns the mark by which other middlewares know that a server of p, which gets keys, was cleaned. It does
// not depend on the pool's servers, which may change meanwhile.
func (m *Middleware) routesMark(p *pool) backend.Mark {
	text := fingerprint(marker.Placement{Share: p.had}, marker.Placement{Share: p.share})
	return backend.Mark{Key: marker.CleanRoutesKey, Text: text, For: markSteps * m.options.ChangeStep}
}

// routesBefore returns the change to c's routes and gutters from those in the newest records on the pools' servers;
// nil: they are the same.
func (c *core) routesBefore() *rerouting {
	if !c.router.Named() {
		return nil
	}
	table := c.router.Table()
	r := &rerouting{course: course{phase: route.Late, alone: true}, gutters: map[string]route.Standin{}}
	shares := make([]*route.Share, len(c.pools))
	others := false
	for i, p := range c.pools {
		shares[i] = table.Share(i)
		phased := p.options.inPhases(p.step)
		if p.records == nil || p.share == nil {
			continue
		}
		newest := p.records.Looks().Newest()
		if newest == nil {
			if phased {
				shares[i] = nil
			}
			continue
		}
		all := append([]marker.Placement{newest.Placement}, newest.Previous...)
		if p.absent.Load() {
			all = []marker.Placement{{Share: new(route.Share)}} // it had no keys
		}
		for _, old := range all {
			if old.Share != nil && !old.Share.Equal(p.share) {
				if gutter := old.Share.Own().Gutter; gutter != p.share.Own().Gutter || gutter.Pool != "" {
					if c.options.number(gutter.Pool) < 0 {
						gutter = route.Standin{}
					}
					r.gutters[p.name] = gutter
					r.alone = r.alone && !phased
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
		before, err := route.NewTable(c.options.names(), r.from)
		others = err != nil || len(route.MovedBetween(before, table)) > 0
		r.alone = r.alone && !others
	}
	switch {
	case !others && len(r.gutters) == 0:
		return nil
	case !others:
		r.from = table.Routes()
	}
	if r.alone {
		r.phase = route.Settled
	}
	return r
}
