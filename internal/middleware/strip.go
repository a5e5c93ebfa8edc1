package middleware

import (
	"errors"
	"maps"
	"slices"

	"mcmw/internal/route"
)

// CheckStrips reports a route that can't strip its prefix, because another pool has the keys under their whole names, too. The error is a
// *route.RouteError.
func (o *Options) CheckStrips() error {
	for i, p := range o.Routes.Prefixes {
		refuse := func(why string, args ...any) error {
			return route.NewRouteError(i, "prefix %q is stripped, and "+why, append([]any{p.Prefix}, args...)...)
		}
		pool := o.poolNamed(p.Pool)
		gutter := pool.Options.Gutter
		switch {
		case !p.Strip:
		case pool.Large.Limit > 0:
			return refuse("pool %q has large-values; accepted: one of both", p.Pool)
		case slices.ContainsFunc(o.Migrations, func(g Migration) bool { return g.From == p.Pool || g.To == p.Pool }):
			return refuse("the keys of pool %q migrate; accepted: one of both", p.Pool)
		case slices.ContainsFunc(o.Shadows, func(s ShadowOptions) bool { return s.Of == p.Pool }):
			return refuse("pool %q has a shadow; accepted: one of both", p.Pool)
		case slices.ContainsFunc(o.Pools, func(q PoolOptions) bool { return q.Options.Gutter == p.Pool }):
			return refuse("pool %q is a gutter; accepted: one of both", p.Pool)
		case gutter == "":
		case gutter == o.Routes.Default || gutter == o.Routes.Reads || slices.ContainsFunc(o.Routes.Prefixes, func(r route.Prefix) bool { return r.Pool == gutter || r.Reads == gutter }) ||
			slices.ContainsFunc(o.Pools, func(q PoolOptions) bool { return q.Name != p.Pool && q.Options.Gutter == gutter }):
			return refuse("the gutter %q of pool %q has other keys, too; accepted: a gutter of its own", gutter, p.Pool)
		}
	}
	return nil
}

// checkSameStrips reports that servers are to know keys without a prefix that they knew with it, or the other way: what they hold under the other
// name would be found again, old, when that is changed back. applying is held.
func (m *Middleware) checkSameStrips(o *Options) error {
	router, err := o.route()
	if err == nil && !maps.EqualFunc(router.Stripped(), m.current.Load().router.Stripped(), (*route.Share).Equal) {
		err = errors.New("the routes that strip a prefix, and longer ones, cannot change while clients are served; accepted: restart all at once")
	}
	return err
}
