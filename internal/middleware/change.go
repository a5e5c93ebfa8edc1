package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// placement is a list of servers with the placement of keys on them.
type placement struct {
	router  *route.Router
	options route.Options
}

// placement returns the placement that the options have, which have been validated.
func (o *PoolOptions) placement() placement {
	router, _ := route.New(o.Servers, o.Options)
	return placement{router, o.Options}
}

// record returns p in the form that the records on the servers have.
func (p placement) record() marker.Placement { return marker.Of(p.router, p.options) }

// equal reports whether p and q give every key the same servers.
func (p placement) equal(q placement) bool {
	a, b := p.record(), q.record()
	return a.Equal(&b)
}

// at returns p with the parts of o that don't place keys: the servers' addresses, entries and zones, the read policy
// and the gutters.
func (p placement) at(o *PoolOptions) (placement, error) {
	servers := slices.Clone(p.router.Servers())
	for i := range servers {
		at := slices.IndexFunc(o.Servers, func(s route.Server) bool { return s.Name == servers[i].Name })
		if at >= 0 {
			servers[i].Addr, servers[i].Zone, servers[i].Entry = o.Servers[at].Addr, o.Servers[at].Zone,
				o.Servers[at].Entry
		}
	}
	p.options.Read, p.options.Zone = o.Options.Read, o.Options.Zone
	p.options.Gutter, p.options.GutterTTL, p.options.Closed, p.options.PreviousGutter = o.Options.Gutter,
		o.Options.GutterTTL, o.Options.Closed, o.Options.PreviousGutter
	var err error
	p.router, err = route.New(servers, p.options)
	return p, err
}

// change is a change of placement, where other middlewares may learn of it earlier or later; see route.Phase. Each
// phase lasts for at least Options.ChangeStep, and delete-new for the longest Timeout more, because a middleware enters
// it when the requests that it is serving are answered:
//
//	settled --> delete-new --> copy --> hand-over --> read-new --> settled, closing --> settled
//	             ^  ^    |    '------------------------^                  |
//	             |  '----' another list is wanted                         |
//	             '------------- a list was wanted meanwhile --------------'
//
// If another list is wanted in delete-new, that phase begins again with the new list. In later phases a new list has to
// wait. "Settled, closing" is the last phase of a change: no other change may begin in it, unless another middleware
// has begun it.
//
// In copy, one middleware copies the values of keys that move to their new holders, once all middlewares have left
// delete-new (copying). Copy ends when that is done or has failed, and hand-over only after every middleware that may
// have copied has stopped, and what it has not confirmed has expired. If nothing can be copied, both are left out.
//
// Middlewares announce on the servers which phase they are in. Read-new ends when none is in an earlier phase any more,
// however long that takes (courseRows). A middleware that starts joins the change that the others have announced, in a
// phase that is compatible with theirs (join).
type change struct {
	course
	of       *poolState
	from, to placement
}

// inPhases reports whether a new placement is applied in phases.
func (o *PoolOptions) inPhases(step time.Duration) bool { return step > 0 && o.Writers != WritersOne }

func (c *change) what() string { return "the placement of keys" }

// name returns the name of c by which it is announced.
func (c *change) name() route.Announced {
	return route.Announced{From: fingerprint(c.from.record()), To: fingerprint(c.to.record())}
}

// ends returns the placement by which keys are read in c's phase, and the other one.
func (c *change) ends() (read, other placement) {
	if c.readsOld() {
		return c.from, c.to
	}
	return c.to, c.from
}

// readsOld reports whether keys are read by the previous placement.
func (c *change) readsOld() bool { return c.phase != route.Settled && c.phase < route.ReadNew }

// wanted returns the placement that p has, or will have after the change that is under way.
func (p *pool) wanted() placement {
	if p.change == nil {
		return placement{p.router, p.options.Options}
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
		fmt.Fprintf(h, "{Servers:%+v Replicas:%d Ring:%s Hash:%s HashTag:%s}", p.Servers, p.Replicas, p.Ring, p.Hash,
			p.HashTag)
		for s := p.Share; s != nil; s = s.Routed {
			fmt.Fprintf(h, "{Default:%t Prefixes:%s Stripped:%s Gutter:%+v}", s.Default, s.Prefixes, s.Stripped,
				s.Gutter)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// effective returns m.options with the servers and placements of the present phases, and the router for them. applying
// is held.
func (m *Middleware) effective() (Options, *route.Router, error) {
	pools := slices.Clone(m.options.Pools)
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
	o := m.options
	o.Pools = pools
	router, err := route.Compose(o.names(), routers, o.Routes)
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
func (t *poolState) effective(o *PoolOptions) (now placement, err error) {
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
	return placement{route.Change(from.router, to.router, t.change.phase), to.options}, nil
}

// wants compares the placement in o, the options of t's pool, with the current one and the one that a change is leading
// to. If it differs from both and its change may begin, this change is now under way, and wants returns true. applying
// is held.
func (m *Middleware) wants(t *poolState, o *PoolOptions) (changed bool) {
	wanted := o.placement()
	switch {
	case !o.inPhases(m.options.ChangeStep) || m.work == nil || !t.begun:
		t.settled, t.change = wanted, nil
		return false
	case t.change == nil && !t.settled.equal(wanted):
		t.change = &change{of: t, from: t.settled, to: wanted}
		return true
	case t.change == nil || t.change.phase != route.DeleteNew || t.change.to.equal(wanted):
		return false // it begins when the change that is under way has ended
	}
	t.change.to = wanted
	return true
}

// checkCopying returns a NotYet if o ends at once a change for which values are copied, or does not have its pool any
// more: a copy that is not confirmed yet is correct only until the next phase. applying is held.
func (m *Middleware) checkCopying(o *Options) error {
	for i, t := range m.poolStates {
		at := o.number(t.name)
		if c := t.change; c != nil && (c.phase == route.Copy || c.phase == route.HandOver) &&
			(at < 0 || !o.Pools[at].inPhases(o.ChangeStep)) {
			return NotYet{fmt.Errorf("%svalues are still copied to their new servers (phase %s); writers one, "+
				"change-step 0 or the removal of the pool can be applied when that has ended",
				m.options.Pools[i].messagePrefix(), c.phase)}
		}
	}
	return nil
}

// prepare gives way, or waits, if others change to a different list: if two middlewares see each other, the one that is
// about to read by its list gives way.
func (c *change) prepare(ctx context.Context, m *Middleware, phase route.Phase, seen sightings) route.Phase {
	b, other := c.board(m), m.conflict(c, seen)
	if other != nil && phase == route.DeleteNew {
		backend.Pause(ctx, giveWay)
		seen = m.announce(ctx, c, phase)
		other = m.conflict(c, seen)
	} else if other != nil {
		b.leave(ctx, phase, route.Settled)
	}
	besides := c.besides(phase, seen)
	switch {
	case phase == route.Settled:
		c.of.settled = c.to
	case other != nil:
		m.options.Log.Warn("another mcmw is changing to a different list of servers: this one changes to that list " +
			"first, and to its own list afterwards")
		c.behind = phase == route.DeleteNew
		phase, c.to = route.DeleteNew, *other
		m.announce(ctx, c, phase)
	case besides != phase:
		m.announce(ctx, c, besides)
		b.leave(ctx, phase, besides)
		phase = besides
	}
	if phase == route.Copy && b != nil {
		b.leave(ctx, route.DeleteNew, phase)
	}
	m.options.Log.Info("the placement of keys changes", "pool", c.of.name, "phase", phase.String(), "from",
		fingerprint(c.from.record()), "to", fingerprint(c.to.record()))
	return phase
}

// giveWay bounds the time in which a middleware that gives way withdraws its announcement.
const giveWay = 500 * time.Millisecond

// besides returns the phase to enter instead of phase, because of what others have announced of c: who is late does not
// enter one in which values must not be copied while others may copy, nor one in which they are copied when others have
// stopped.
func (c *change) besides(phase route.Phase, seen sightings) route.Phase {
	copies, reads := seen.has(noticeCopying), seen.has(noticeReading)
	switch {
	case phase == route.DeleteNew && copies && reads, phase == route.Copy && reads:
		return route.HandOver
	case phase == route.DeleteNew && copies, phase == route.ReadNew && c.phase == route.DeleteNew && copies:
		return route.Copy
	}
	return phase
}

// gains returns the keys that servers get.
func (c *change) gains(m *Middleware, phase route.Phase) []gain {
	if phase != route.DeleteNew {
		return nil
	}
	p := m.current.Load().of(c.of)
	gets := len(c.to.router.Servers()) // the first servers of p
	return []gain{{p, m.mark(c.of), func(i int) func(key []byte) bool {
		if i >= gets || !c.to.router.Gains(p.servers[i].Name, c.from.router) {
			return nil
		}
		return func(key []byte) bool {
			in, stored := p.router.At(key)
			return slices.Contains(in.With(route.Drop, 0, stored, nil), i)
		}
	}}}
}

// markSteps is how many steps a mark lasts from the last look on: as long as a middleware may join the change, because
// it must not clean again what others read already, and not until the change can begin again after it was reversed.
const markSteps = 3

// mark returns the mark by which other middlewares know that a server was cleaned for the change that is under way.
func (m *Middleware) mark(t *poolState) backend.Mark {
	if t.change == nil {
		return backend.Mark{}
	}
	a := t.change.name()
	return backend.Mark{Key: marker.CleanKey, Text: a.From + " " + a.To, For: markSteps * m.options.ChangeStep}
}

// heard acts on what others have announced:
//   - In phase delete-new a change to another list is given way to.
//   - In phase copy copying begins when it is due and nobody is in delete-new.
//   - In read-new and settled, a next change that another middleware has begun, and that this one wants, begins here,
//     too.
func (c *change) heard(ctx context.Context, m *Middleware, seen sightings) (entered bool) {
	t := c.of
	switch c.phase {
	case route.DeleteNew:
		if entered = m.conflict(c, seen) != nil; entered {
			m.enterOrLog(ctx, route.DeleteNew, c)
		}
		return entered
	case route.Copy:
		if c.copying == nil && !seen.has(noticeDeleting) && !time.Now().Before(c.due) {
			m.beginCopying(c)
		}
		return false
	case route.HandOver:
		return false
	}
	next := route.Announced{From: seen.own.To, To: fingerprint(m.optionsOf(t).placement().record())}
	if !slices.Contains(names(seen.all()), next) {
		return false
	}
	t.settled = c.to
	c.end(ctx, m)
	return true
}

// end begins the change to the list that was wanted meanwhile, if there is one.
func (c *change) end(ctx context.Context, m *Middleware) {
	t := c.of
	t.change = nil
	if m.wants(t, m.optionsOf(t)) {
		m.enterOrLog(ctx, route.DeleteNew, t.change)
	}
}

// optionsOf returns the options of t's pool. applying is held.
func (m *Middleware) optionsOf(t *poolState) *PoolOptions {
	return &m.options.Pools[slices.Index(m.poolStates, t)]
}
