package middleware

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mcmw/internal/backend"
	"mcmw/internal/refusal"
	"mcmw/internal/route"
)

// feature is something that a pool has or is. Some pairs of them are apart: no pool may have both.
type feature uint8

const (
	strips      feature = iota // its route removes the prefix from keys
	servesReads                // a route sends only reads to it
	largeValues
	migrates // its keys migrate, keys migrate to it, or some of its servers are filled
	warmsUp  // another pool is warmed up
	hasGutter
	isGutter
	sharesGutter  // its gutter also has other keys
	fromItsGutter // keys migrate to it from its gutter
	readsGutter   // a route sends reads to its gutter
	hasShadow
	isShadow
	hasRoute
	isFollowed
	follows
	trusts // what its servers hold after an outage
	holds
)

// apart are the pairs of features that no pool may have, with what is said about the setting that gives it the first.
//
// A pool that strips is known by other keys than the clients': what copies keys, or has them in another pool, too,
// would have to name them twice. What fills a pool for reads writes it without mcmw: a copy in another pool could stay
// older than that, and after an outage writes would delete what they find in a gutter. The chunks of a large value are
// no keys of clients: nothing that copies keys, or moves them, finds them. A pool whose keys have migrated still holds
// them, without an end: as a gutter of the new pool it would show values from before the migration. A server that is
// trusted would be read although the gutter has got its writes. A tombstone is only on the servers of its pool. A
// shadow is served by a middleware of its own, which has no other pool. What follows has servers and connections, and
// nothing else of a pool.
var apart = []struct {
	feature, from feature
	text          string
}{
	{strips, largeValues, `prefix {prefix} is stripped, and pool {pool} has large-values; accepted: only one of these`},
	{strips, migrates, `prefix {prefix} is stripped, and the keys of pool {pool} migrate; accepted: only one of these`},
	{strips, hasShadow, `prefix {prefix} is stripped, and pool {pool} has a shadow; accepted: only one of these`},
	{strips, isGutter, `prefix {prefix} is stripped, and pool {pool} is a gutter; accepted: only one of these`},
	{strips, sharesGutter, `prefix {prefix} is stripped, and the gutter {gutter} of pool {pool} also has other keys; ` +
		`give pool {pool} a gutter for its keys alone`},
	{servesReads, migrates, `{of} reads go to pool {reads}, and the keys of pool {pool} migrate; ` +
		`accepted: only one of these`},
	{readsGutter, hasGutter, `{of} reads go to pool {reads}, which is the gutter of pool {pool}; ` +
		`give pool {pool} another gutter`},
	{largeValues, hasGutter, `not possible, because the pool has a gutter; accepted: 0`},
	{largeValues, isGutter, `not possible, because the pool is a gutter; accepted: 0`},
	{largeValues, hasShadow, `not possible, because the pool has a shadow; accepted: 0`},
	{largeValues, isShadow, `not possible, because the pool is a shadow; accepted: 0`},
	{largeValues, migrates, `not possible, because the pool has keys that migrate; accepted: 0`},
	{largeValues, warmsUp, `not possible, because the pool is not the only one: another pool is warmed up; ` +
		`accepted: 0`},
	{holds, hasGutter, `not possible, because the pool has a gutter, which has no tombstones; accepted: false`},
	{holds, migrates, `not possible, because the pool has keys that migrate, and tombstones do not; accepted: false`},
	{migrates, isShadow, `pool {pool} is a shadow; accepted: pools that are not shadows`},
	{fromItsGutter, hasGutter, `pool {from} is the gutter of pool {pool}; accepted: a pool that is not its gutter`},
	{hasGutter, trusts, `not possible with rejoin trust; accepted: rejoin invalidate or flush`},
	{hasGutter, isShadow, `the pool, or {gutter}, is a shadow; accepted: pools that are not shadows`},
	{isGutter, isShadow, `the pool, or {gutter}, is a shadow; accepted: pools that are not shadows`},
	{follows, hasRoute, `pool {pool} has a route` + onlyFollows},
	{follows, migrates, `pool {pool} has a migration` + onlyFollows},
	{follows, isGutter, `pool {pool} is a gutter` + onlyFollows},
	{follows, hasShadow, `pool {pool} has a shadow` + onlyFollows},
	{follows, isShadow, `pool {pool} is a shadow` + onlyFollows},
	{follows, isFollowed, `pool {pool} is followed by another one` + onlyFollows},
}

const onlyFollows = ", so it can't follow; accepted: a pool that only follows"

// given is a setting that gives a pool a feature. words are what texts about it may name.
type given struct {
	feature
	pool, path string
	words      []string
}

// features returns the settings of o that give pools features.
func (o *Options) features() (all []given) {
	give := func(f feature, pool, path string, words ...string) {
		all = append(all, given{f, pool, path, append(words, "{pool}", strconv.Quote(pool))})
	}
	pools := o.all()
	gutterOf := func(pool string) string {
		at := slices.IndexFunc(pools, func(p PoolOptions) bool { return p.Name == pool })
		if at < 0 {
			return ""
		}
		return pools[at].Options.Gutter
	}
	for _, p := range pools {
		path := "pools." + p.Name + "."
		if p.Large.Limit > 0 {
			give(largeValues, p.Name, path+"large-values")
		}
		if p.Holds {
			give(holds, p.Name, path+"holds")
		}
		if p.Rejoin == backend.RejoinTrust {
			give(trusts, p.Name, path+"rejoin")
		}
		if g := p.Options.Gutter; g != "" {
			give(hasGutter, p.Name, path+"gutter", "{gutter}", strconv.Quote(g))
			if g != p.Name {
				give(isGutter, g, path+"gutter", "{gutter}", strconv.Quote(g))
			}
		}
	}
	routes := o.Routes.All()
	for i, r := range routes {
		path, of := route.RoutePath(i-1), "prefix "+strconv.Quote(r.Prefix)+":"
		if i == 0 {
			of = "the default pool's"
		}
		for _, pool := range slices.Compact([]string{r.Pool, cmp.Or(r.Reads, r.Pool)}) {
			give(hasRoute, pool, path)
			if !r.Strip {
				continue
			}
			g := gutterOf(pool)
			give(strips, pool, path, "{prefix}", strconv.Quote(r.Prefix), "{gutter}", strconv.Quote(g))
			routed := slices.ContainsFunc(routes, func(o route.Prefix) bool { return o.Pool == g || o.Reads == g })
			ofOther := func(p PoolOptions) bool { return p.Name != pool && p.Options.Gutter == g }
			if g != "" && (routed || slices.ContainsFunc(pools, ofOther)) {
				give(sharesGutter, pool, path)
			}
		}
		if r.Reads != "" && r.Reads != r.Pool {
			give(servesReads, r.Reads, path, "{of}", of, "{reads}", strconv.Quote(r.Reads))
			if gutterOf(r.Pool) == r.Reads {
				give(readsGutter, r.Pool, path, "{of}", of, "{reads}", strconv.Quote(r.Reads))
			}
		}
	}
	for i, g := range o.Migrations {
		path := fmt.Sprintf("migrations[%d]", i)
		for _, pool := range slices.Compact([]string{g.From, g.To}) {
			give(migrates, pool, path)
		}
		if gutterOf(g.To) == g.From {
			give(fromItsGutter, g.To, path, "{from}", strconv.Quote(g.From))
		}
		for _, p := range pools {
			if g.WarmsUp && !g.uses(p.Name) {
				give(warmsUp, p.Name, path)
			}
		}
	}
	for i, s := range o.Shadows {
		path := fmt.Sprintf("shadows[%d]", i)
		give(hasShadow, s.Of, path)
		give(isShadow, s.To.Name, path)
	}
	for _, f := range o.Follows {
		give(isFollowed, f.Of, "pools."+f.Of+".follow")
		give(follows, f.To.Name, "pools."+f.Of+".follow")
	}
	return all
}

// CheckPools returns what is wrong with shadows, with features that a pool can't have together, with migrations, or
// with the names of gutters, each a *refusal.Error. Servers that have not been looked up yet may be missing.
func (o *Options) CheckPools() (refused []error) {
	if err := o.checkShadows(); err != nil {
		refused = append(refused, err)
	}
	if apart := o.checkTogether(); apart != nil {
		return append(refused, apart...)
	}
	if err := o.checkMigrations(); err != nil {
		refused = append(refused, err)
	}
	pools := o.all()
	for _, p := range pools {
		gutter := p.Options.Gutter
		named := func(q PoolOptions) bool { return q.Name == gutter }
		which := "not a pool"
		if gutter == p.Name {
			which = "this pool itself"
		}
		if gutter != "" && (gutter == p.Name || !slices.ContainsFunc(pools, named)) {
			refused = append(refused, route.WrongGutter(p.Name,
				"pool %q has the gutter %q, which is %s; accepted: another pool", p.Name, gutter, which))
		}
	}
	return refused
}

// checkTogether returns errors about features that a pool can't have together.
func (o *Options) checkTogether() (refused []error) {
	all := o.features()
	for _, a := range apart {
		for _, g := range all {
			has := func(other given) bool {
				return other.feature == a.from && other.pool == g.pool
			}
			if g.feature == a.feature && slices.ContainsFunc(all, has) {
				refused = append(refused, refusal.Of(g.path, "%s", strings.NewReplacer(g.words...).Replace(a.text)))
			}
		}
	}
	return refused
}

// checkSameStrips returns an error if next strips other prefixes than the current core. Servers would keep values under
// the keys' other names, and these would be read again, old by then, after a change back. applying is held.
func (m *Middleware) checkSameStrips(next *route.Router) error {
	if maps.EqualFunc(next.Stripped(), m.current.Load().router.Stripped(), (*route.Share).Equal) {
		return nil
	}
	return errors.New("routes that strip a prefix, and routes with a longer prefix, cannot change while clients are " +
		"served; stop all mcmw, then start them with the new routes")
}
