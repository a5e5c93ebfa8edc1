package middleware

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"mcmw/internal/hotkeys"
	"mcmw/internal/netstage"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/refusal"
	"mcmw/internal/shadow"
	"mcmw/internal/stats"
)

// ShadowOptions say which requests of a pool are copied to another pool.
type ShadowOptions struct {
	shadow.Options
	// Of is the name of the pool in Options.Pools whose requests are copied, To the pool that gets them, which is not
	// in Options.Pools.
	Of string
	To PoolOptions
}

// shadowed is the shadow of a pool: a middleware without clients, whose queue, workers and connections serve nothing
// else.
type shadowed struct {
	// Static after construction.
	name   string // the name of the pool that gets the copies
	feed   *shadow.Feed
	counts *stats.Shadow
	inner  *Middleware

	// Guarded by Middleware.applying.
	options Options            // of inner
	stop    context.CancelFunc // nil until it is started
	ended   chan struct{}      // closed when nothing of inner is left; nil until it is started
}

// checkShadows returns a *refusal.Error about the first shadow that is wrong.
func (o *Options) checkShadows() error {
	routed := o.Routes.Names()
	for i, s := range o.Shadows {
		refuse := func(text string, args ...any) error {
			return refusal.Of(fmt.Sprintf("shadows[%d]", i), text, args...)
		}
		earlier := func(same func(ShadowOptions) bool) bool { return slices.ContainsFunc(o.Shadows[:i], same) }
		switch of, to := s.Of, s.To.Name; {
		case of == to:
			return refuse("pool %q can't be its own shadow; accepted: another pool, which has no route", to)
		case slices.Contains(routed, to):
			return refuse("pool %q has a route, so it can't be a shadow; accepted: a pool without a route", to)
		case !slices.Contains(routed, of):
			return refuse("pool %q has no route, so it gets no requests to copy; accepted: one of %s", of,
				strings.Join(routed, ", "))
		case earlier(func(e ShadowOptions) bool { return e.Of == of }):
			return refuse("pool %q has two shadows; accepted: one", of)
		case earlier(func(e ShadowOptions) bool { return e.To.Name == to }):
			return refuse("pool %q is the shadow of two pools; accepted: of one pool", to)
		case !(s.Share > 0 && s.Share <= 1):
			return refuse("a share of %v; accepted: above 0, up to 1", s.Share)
		}
	}
	return nil
}

// ofShadow returns the options of the middleware that serves the shadow s of o.
func (o *Options) ofShadow(s *ShadowOptions) Options {
	pool := s.To
	pool.Name, pool.Large = "", plan.Large{}
	inner := Options{
		Pools: []PoolOptions{pool}, ServerOptions: pool.ServerOptions, RequestOptions: o.RequestOptions,
		ChangeStep: o.ChangeStep, SweepEvery: o.SweepEvery, SweepRate: o.SweepRate,
		RefillRate: o.RefillRate,
		Workers:    1, Queue: 1, Ready: ReadyAny, DrainTimeout: time.Millisecond, HotKeys: hotkeys.Off,
		Log:           o.Log.With("pool", s.To.Name),
		ClientOptions: netstage.ClientOptions{Limits: o.Limits},
		Security:      Security{ServerTLS: pool.ServerTLS, ServerFiles: o.Security.ServerFiles},
	}
	inner.Timeout, inner.GetErrorMiss, inner.Depth = pool.Timeout, false, 0
	return inner.withDefaults()
}

// copying returns the options of the copying to the shadow s of o.
func (o *Options) copying(s *ShadowOptions) shadow.Options {
	copied := s.Options
	longest := o.longestTimeout()
	copied.Within = longest + longest/10 // the timeout, and time for the workers to answer
	return copied
}

// shadowsFor returns the shadows of o: the existing one with that name, or a new one, which is not started. applying is
// held.
func (m *Middleware) shadowsFor(o *Options) (shadows []*shadowed, err error) {
	for i := range o.Shadows {
		wanted := &o.Shadows[i]
		at := slices.IndexFunc(m.shadows, func(s *shadowed) bool { return s.name == wanted.To.Name })
		if at >= 0 && m.shadows[at].counts.Of != wanted.Of {
			return nil,
				fmt.Errorf("pool %q is the shadow of pool %q and cannot become that of pool %q while clients are "+
					"served; remove the shadow first, reload, then add it to pool %q",
					wanted.To.Name, m.shadows[at].counts.Of, wanted.Of, wanted.Of)
		}
		if at >= 0 {
			shadows = append(shadows, m.shadows[at])
			continue
		}
		s := &shadowed{name: wanted.To.Name, options: o.ofShadow(wanted)}
		if s.inner, err = newMiddleware(s.options); err != nil {
			return nil, fmt.Errorf("%s%w", wanted.To.messagePrefix(), err)
		}
		s.counts = &stats.Shadow{Of: wanted.Of, To: wanted.To.Name, Servers: func() []stats.ServerSnapshot {
			return s.inner.registry.Snapshot().Servers
		}}
		s.feed = shadow.NewFeed(o.copying(wanted), s.counts)
		shadows = append(shadows, s)
	}
	return shadows, nil
}

// checkBecomesShadow returns an error if the pool called name cannot become a shadow now, because this middleware, or
// others, may still use it. applying is held.
func (m *Middleware) checkBecomesShadow(name string) error {
	t := m.stateNamed(name)
	if t == nil || name == "" || m.work == nil {
		return nil
	}
	refuse := func(has string) error {
		return fmt.Errorf("pool %q cannot become a shadow while it has %s; remove that first, reload, then add the "+
			"shadow", name, has)
	}
	switch {
	case slices.Contains(m.options.Routes.Names(), name):
		return refuse("a route")
	case slices.ContainsFunc(m.options.Pools, func(p PoolOptions) bool { return p.Options.Gutter == name }):
		return refuse("the keys of pools whose gutter it is")
	case slices.ContainsFunc(m.options.Migrations, func(g Migration) bool { return g.uses(name) }):
		return refuse("a migration")
	case t.change != nil:
		return NotYet{fmt.Errorf("a change of the servers of pool %q has not ended; the pool can become a shadow "+
			"when it has", name)}
	}
	return m.checkDropped(name, "it can become a shadow")
}

// checkShadows returns the error with which applyShadows would refuse the shadows of o. applying is held.
func (m *Middleware) checkShadows(ctx context.Context, o *Options) error {
	shadows, err := m.shadowsFor(o)
	for i := range shadows {
		wanted := &o.Shadows[i]
		if inner := o.ofShadow(wanted); err == nil && !inner.equal(&shadows[i].options) {
			if err = shadows[i].inner.Check(ctx, inner); err != nil {
				err = fmt.Errorf("%s%w", wanted.To.messagePrefix(), err)
			}
		}
	}
	return err
}

// applyShadows applies the shadows of o; the next core will use them, and startShadows starts them. It returns the
// shadows that were removed, which must be stopped once no worker of an earlier core is left. A shadow that becomes a
// pool has ended when applyShadows returns. applying is held.
func (m *Middleware) applyShadows(ctx context.Context, o *Options) (removed []*shadowed, err error) {
	shadows, err := m.shadowsFor(o)
	if err != nil {
		return nil, err
	}
	for i, s := range shadows {
		wanted := &o.Shadows[i]
		if inner := o.ofShadow(wanted); !inner.equal(&s.options) {
			if err := s.inner.Apply(ctx, inner); err != nil {
				return nil, fmt.Errorf("%s%w", wanted.To.messagePrefix(), err)
			}
			s.options = inner
		}
		s.feed.Change(o.copying(wanted))
	}
	for _, s := range m.shadows {
		if slices.Contains(shadows, s) {
			continue
		}
		// the pool judges its servers by what the shadow leaves there
		if s.stop != nil && o.poolNamed(s.name).Name != "" {
			s.stop()
			<-s.ended
			continue
		}
		removed = append(removed, s)
	}
	m.shadows = shadows
	return removed, nil
}

// equal reports whether o and p are equal except for the log.
func (o Options) equal(p *Options) bool {
	o.Log = p.Log
	return reflect.DeepEqual(o, *p)
}

// startShadows starts the shadows that have not been started, once clients are served. applying is held.
func (m *Middleware) startShadows() {
	if m.work == nil {
		return
	}
	for _, s := range m.shadows {
		if s.stop != nil {
			continue
		}
		ctx, stop := context.WithCancel(m.work)
		s.stop, s.ended = stop, make(chan struct{})
		limits := s.options.Limits
		m.background.Go(func() {
			defer close(s.ended)
			s.run(ctx, &limits)
		})
	}
}

// stopShadows tells shadows to end, without waiting.
func stopShadows(shadows []*shadowed) {
	for _, s := range shadows {
		if s.stop != nil {
			s.stop()
		}
	}
}

// run serves the shadow until ctx is done and no request is in flight.
func (s *shadowed) run(ctx context.Context, limits *protocol.Limits) {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var inner sync.WaitGroup
	inner.Go(func() { _ = s.inner.Run(serving) }) // it listens nowhere, and so can't fail
	s.feed.Run(ctx, limits, s.inner.entrance.Put)
	stop()
	inner.Wait()
}

// feedOf returns the feed for copies of the requests of the pool called name; nil: they are not copied.
func (c *core) feedOf(name string) *shadow.Feed {
	for _, s := range c.shadows {
		if s.counts.Of == name {
			return s.feed
		}
	}
	return nil
}

// shadowCounts returns the counts of the shadows.
func (c *core) shadowCounts() (counts []*stats.Shadow) {
	for _, s := range c.shadows {
		counts = append(counts, s.counts)
	}
	return counts
}
