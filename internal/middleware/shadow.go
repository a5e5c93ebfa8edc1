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
	"mcmw/internal/refusal"
	"mcmw/internal/request"
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
	feed   *shadow.Feed
	counts *stats.Shadow
	inner  *Middleware

	options Options // of inner; guarded by Middleware.applying
}

func (s *ShadowOptions) ties() ties { return ties{"shadow", s.Of, s.To.Name} }

func (s *ShadowOptions) to() *PoolOptions { return &s.To }

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
		copies:        true,
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

func (s *ShadowOptions) explain(key, holders string) string {
	if !shadow.In([]byte(key), s.Share) {
		return fmt.Sprintf("none: the key is not in the share of %v that is copied to pool %s", s.Share, s.To.Name)
	}
	what, answers := "reads", "dropped"
	if s.All {
		what = "reads and writes"
	}
	if s.Compare {
		answers = "compared"
	}
	return fmt.Sprintf("%s (the key is in the share of %v; %s; answers are %s)", holders, s.Share, what, answers)
}

func (s *ShadowOptions) open(m *Middleware, o *Options) (recipientKind, error) {
	for _, r := range m.recipients {
		if r.kind == s.ties().kind && r.name == s.To.Name {
			return nil,
				fmt.Errorf("pool %q is the shadow of pool %q and cannot become that of pool %q while clients are "+
					"served; remove the shadow first, reload, then add it to pool %q", r.name, r.of, s.Of, s.Of)
		}
	}
	options := o.ofShadow(s)
	inner, err := newMiddleware(options)
	if err != nil {
		return nil, fmt.Errorf("%s%w", s.To.messagePrefix(), err)
	}
	counts := &stats.Shadow{Of: s.Of, To: s.To.Name}
	return &shadowed{shadow.NewFeed(o.copying(s), counts), counts, inner, options}, nil
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

func (s *shadowed) check(ctx context.Context, o *Options, w recipientOptions) error {
	wanted := w.(*ShadowOptions)
	if inner := o.ofShadow(wanted); !inner.equal(&s.options) {
		if err := s.inner.Check(ctx, inner); err != nil {
			return fmt.Errorf("%s%w", wanted.To.messagePrefix(), err)
		}
	}
	return nil
}

func (s *shadowed) change(ctx context.Context, _ *Middleware, o *Options, w recipientOptions) error {
	wanted := w.(*ShadowOptions)
	inner := o.ofShadow(wanted)
	if !inner.equal(&s.options) {
		if err := s.inner.Apply(ctx, inner); err != nil {
			return fmt.Errorf("%s%w", wanted.To.messagePrefix(), err)
		}
		s.options = inner
	}
	s.feed.Change(o.copying(wanted))
	return nil
}

// equal reports whether o and p are equal except for the log.
func (o Options) equal(p *Options) bool {
	o.Log = p.Log
	return reflect.DeepEqual(o, *p)
}

func (s *shadowed) begin(context.Context) {}

// run serves the shadow until ctx is done and no request is in flight.
func (s *shadowed) run(ctx context.Context) {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var inner sync.WaitGroup
	inner.Go(func() { _ = s.inner.Run(serving) }) // it listens nowhere, and so can't fail
	select {
	case <-s.inner.begun:
		limits := s.inner.current.Load().options.Limits
		s.feed.Run(ctx, &limits, s.inner.entrance.Put)
	case <-ctx.Done():
	}
	stop()
	inner.Wait()
}

func (s *shadowed) owes() bool { return false }

func (s *shadowed) outbox() request.Recipient { return s.feed.Outbox() }

func (s *shadowed) addState(_ ties, to *stats.Snapshot) {
	s.counts.AddTo(to, s.inner.registry.Snapshot().Servers)
}

// shadows returns the recipients that are shadows.
func (c *core) shadows() (all []*shadowed) {
	for _, r := range c.recipients {
		if s, ok := r.recipientKind.(*shadowed); ok {
			all = append(all, s)
		}
	}
	return all
}
