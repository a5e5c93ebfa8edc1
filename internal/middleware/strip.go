package middleware

import (
	"errors"
	"maps"
	"slices"

	"mcmw/internal/route"
)

// CheckStrips returns an error, a *refusal.Error, for the first route that can't strip its prefix, because the keys have to be known under their
// whole names as well.
func (o *Options) CheckStrips() error {
	for i, p := range o.Routes.Prefixes {
		refuse := func(why string, args ...any) error {
			return route.WrongRoute(i, "prefix %q is stripped, and "+why, append([]any{p.Prefix}, args...)...)
		}
		pool := o.poolNamed(p.Pool)
		gutter := pool.Options.Gutter
		switch {
		case !p.Strip:
		case pool.Large.Limit > 0:
			return refuse("pool %q has large-values; accepted: only one of these", p.Pool)
		case slices.ContainsFunc(o.Migrations, func(g Migration) bool { return g.From == p.Pool || g.To == p.Pool }):
			return refuse("the keys of pool %q migrate; accepted: only one of these", p.Pool)
		case slices.ContainsFunc(o.Shadows, func(s ShadowOptions) bool { return s.Of == p.Pool }):
			return refuse("pool %q has a shadow; accepted: only one of these", p.Pool)
		case slices.ContainsFunc(o.Pools, func(q PoolOptions) bool { return q.Options.Gutter == p.Pool }):
			return refuse("pool %q is a gutter; accepted: only one of these", p.Pool)
		case gutter == "":
		case gutter == o.Routes.Default || gutter == o.Routes.Reads || slices.ContainsFunc(o.Routes.Prefixes, func(r route.Prefix) bool { return r.Pool == gutter || r.Reads == gutter }) ||
			slices.ContainsFunc(o.Pools, func(q PoolOptions) bool { return q.Name != p.Pool && q.Options.Gutter == gutter }):
			return refuse("the gutter %q of pool %q also has other keys; give pool %q a gutter for its keys alone", gutter, p.Pool, p.Pool)
		}
	}
	return nil
}

// checkSameStrips returns an error if o strips other prefixes than the current options. Servers would keep values under the keys' other names, and these
// would be read again, old by then, after a change back. applying is held.
func (m *Middleware) checkSameStrips(o *Options) error {
	router, err := o.route()
	if err == nil && !maps.EqualFunc(router.Stripped(), m.current.Load().router.Stripped(), (*route.Share).Equal) {
		err = errors.New("routes that strip a prefix, and routes with a longer prefix, cannot change while clients are served; stop all mcmw, then start them with the new routes")
	}
	return err
}
