package middleware

import (
	"slices"
	"strconv"

	"mcmw/internal/route"
)

// A route may send reads to another pool than all else (route.Prefix.Reads). Each of the two is coherent in itself: a read sees what its pool was sent. So
// which keys a pool has (route.Share), and what a change of routes cleans, is said by where writes go. What joins two pools by their keys knows of one
// pool for a key, and is refused.

// CheckReads reports a route whose reads can't go to another pool. The error is a *route.RouteError.
func (o *Options) CheckReads() error {
	for i := -1; i < len(o.Routes.Prefixes); i++ {
		of, pool, reads := "the default pool's", o.Routes.Default, o.Routes.Reads
		if i >= 0 {
			p := &o.Routes.Prefixes[i]
			of, pool, reads = "prefix "+strconv.Quote(p.Prefix)+":", p.Pool, p.Reads
		}
		if reads == "" || reads == pool {
			continue
		}
		for _, name := range []string{pool, reads} {
			if slices.ContainsFunc(o.Migrations, func(g Migration) bool { return g.From == name || g.To == name }) {
				return route.NewRouteError(i, "%s reads go to pool %q, and the keys of pool %q migrate; accepted: one of both", of, reads, name)
			}
		}
		stands, also := o.poolNamed(pool).Options.Gutter, o.poolNamed(reads).Options.Gutter
		if stands == reads || also == pool || stands == also && stands != "" {
			return route.NewRouteError(i, "%s reads go to pool %q, and one of this and pool %q is the gutter of the other, or both have the same; accepted: gutters of their own",
				of, reads, pool)
		}
	}
	return nil
}

// poolNamed returns the settings of the pool called name.
func (o *Options) poolNamed(name string) PoolOptions {
	for _, p := range o.Pools {
		if p.Name == name {
			return p
		}
	}
	return PoolOptions{}
}
