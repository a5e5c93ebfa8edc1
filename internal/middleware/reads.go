package middleware

import (
	"slices"
	"strconv"

	"mcmw/internal/route"
)

// A route may send reads to another pool than all other commands (route.Prefix.Reads). Each of the two pools is consistent: a read sees what was sent to
// its pool. So the pool for writes alone decides which keys a pool has (route.Share), and what a change of routes cleans. A migration and a gutter join
// two pools by their keys and know only one pool per key; therefore they can't be combined with reads from another pool.

// CheckReads returns an error, a *refusal.Error, for the first route whose reads can't go to another pool.
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
				return route.WrongRoute(i, "%s reads go to pool %q, and the keys of pool %q migrate; accepted: only one of these", of, reads, name)
			}
		}
		gutter, readsGutter := o.poolNamed(pool).Options.Gutter, o.poolNamed(reads).Options.Gutter
		if gutter == reads || readsGutter == pool || gutter == readsGutter && gutter != "" {
			return route.WrongRoute(i, "%s reads go to pool %q, but that pool and pool %q share a gutter, or one is the gutter of the other; give each a gutter of its own",
				of, reads, pool)
		}
	}
	return nil
}

// poolNamed returns the settings of the pool called name; the zero value if there is none.
func (o *Options) poolNamed(name string) PoolOptions {
	for _, p := range o.Pools {
		if p.Name == name {
			return p
		}
	}
	return PoolOptions{}
}
