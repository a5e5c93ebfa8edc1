package middleware_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// These are runs of features of pools together, with real servers under a verified load. Package plan explores the same
// pairs.

// behindProxies returns o with proxies in front of the servers of the pool with that number.
func behindProxies(t *testing.T, o middleware.Options, pool int) (middleware.Options, []*mctest.Proxy) {
	t.Helper()
	var proxies []*mctest.Proxy
	o.Pools = slices.Clone(o.Pools)
	servers := slices.Clone(o.Pools[pool].Servers)
	for i, s := range servers {
		p := mctest.StartProxy(t, s.Addr)
		proxies = append(proxies, p)
		servers[i].Addr = p.Addr()
	}
	o.Pools[pool].Servers = servers
	return o, proxies
}

// failing makes the servers behind proxies unreachable, and waits for more load.
func failing(load *traffic, proxies ...*mctest.Proxy) {
	for _, p := range proxies {
		p.Inject(mctest.Fault{Lose: true, Refuse: true})
	}
	load.more()
}

// returned makes the server with that name, behind proxies, reachable again, and waits until the fleet reads it.
func returned(t *testing.T, fleet []*mwtest.MW, server string, proxies ...*mctest.Proxy) {
	t.Helper()
	for _, p := range proxies {
		p.Inject(mctest.Fault{})
	}
	for _, m := range fleet {
		require.Eventually(t, func() bool {
			all := m.Stats().Snapshot().Servers
			at := slices.IndexFunc(all, func(s stats.ServerSnapshot) bool { return s.Name == server })
			return all[at].Health.State == "up"
		}, mctest.Patience, mctest.Tick)
	}
}

// requireDiverted waits until the gutter of that number has served some reads, and that many writes, of each of fleet.
func requireDiverted(t *testing.T, fleet []*mwtest.MW, gutter int, writes uint64) {
	t.Helper()
	for _, m := range fleet {
		require.Eventually(t, func() bool {
			g := m.Stats().Snapshot().Gutters[gutter]
			return g.Reads > 10 && g.Writes >= writes
		}, mctest.Patience, mctest.Tick)
	}
}

// Both pools have the same gutter. It stands in for a server of the old pool before the keys migrate, and for one of
// the new pool afterwards. In between servers fail without one.
func TestNothingOldIsReadWhileAPoolWithAGutterMigratesToAnother(t *testing.T) {
	o, _ := gutteredPools(t, middleware.WritersSeveral)
	o = withGutter(withGutter(o, "a", "spare", 60), "b", "spare", 60)
	o.Routes.Default, o.Routes.Prefixes, o.ChangeStep, o.SweepRate = "a", nil, migrationStep, 1_000_000
	o.Timeout = 2 * time.Second
	var fleet []*mwtest.MW
	var options []middleware.Options
	var old, next []*mctest.Proxy // in front of the server that fails
	for range 2 {
		own, p := behindProxies(t, o, 0)
		own, q := behindProxies(t, own, 1)
		old, next, options = append(old, p[1]), append(next, q[1]), append(options, own)
		fleet = append(fleet, mwtest.Start(t, own))
	}
	load := (&traffic{t: t, fails: true}).start(t, fleet)
	load.more()
	fail := func(proxies []*mctest.Proxy) {
		t.Helper()
		failing(load, proxies...)
	}
	back := func(proxies []*mctest.Proxy, server string) {
		t.Helper()
		returned(t, fleet, server, proxies...)
	}
	diverted := func(pool int) {
		t.Helper()
		requireDiverted(t, fleet, pool, 10)
	}
	fail(old)
	diverted(0)
	g := migration("a", "b")
	for i, m := range fleet {
		options[i].Migrations = []middleware.Migration{g}
		require.NoError(t, m.Apply(context.Background(), options[i]))
		load.more()
	}
	advance(t, fleet, load, 2*migrationStep+migrationStep/2, "delete-new")
	for _, m := range fleet {
		m.AwaitCleaned()
	}
	back(old, "a-server-2")
	advance(t, fleet, load, migrationStep, "copy")
	advance(t, fleet, load, migrationStep, "copy")
	for _, m := range fleet {
		require.Eventually(t, func() bool { return of(m).Complete }, mctest.Patience, mctest.Tick)
	}
	fail(old)
	back(old, "a-server-2")
	advance(t, fleet, load, 4*migrationStep, "copy")
	advance(t, fleet, load, migrationStep, "both")
	fail(next)
	advance(t, fleet, load, migrationStep, "done")
	diverted(1)
	back(next, "b-server-2")
	load.more()
	load.stop()
	assert.Zero(t, load.stale.Load())
}

// Reads that show a cas go to the pool that migrates.
func TestAPoolWhoseOtherReadsGoElsewhereMigrates(t *testing.T) {
	o := newPools(t, middleware.WritersSeveral, 2, 1, "old", "new", "copies")
	o.ChangeStep, o.SweepRate, o.Routes.Reads = migrationStep, 1_000_000, "copies"
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	for _, s := range o.Pools[2].Servers {
		require.Equal(t, "STORED\r\n", mctest.MustDial(t, s.Addr).MustDo(t, "set 0-0-key 0 0 4\r\ncopy\r\n"))
	}
	load := (&traffic{t: t, gets: true}).start(t, fleet)
	o.Migrations = []middleware.Migration{migration("old", "new")}
	applyAll(t, fleet, o, load)
	migrateAll(t, fleet, load)
	load.stop()
	assert.Zero(t, load.stale.Load())
	assert.Zero(t, load.missed.Load())
	for _, m := range fleet {
		require.Equal(t, "VALUE 0-0-key 0 4\r\ncopy\r\nEND\r\n", m.Dial(t).MustDo(t, "get 0-0-key\r\n"))
	}
}

// Pool b is read and a is written. What stands in for a server of b has what was written last, or nothing.
func TestNothingOldIsReadFromTheGutterOfAPoolForReads(t *testing.T) {
	for _, gutter := range []string{"a", "spare"} {
		t.Run(gutter, func(t *testing.T) {
			t.Parallel()
			o, _ := gutteredPools(t, middleware.WritersSeveral)
			o = withGutter(withGutter(o, "a", "spare", 60), "b", gutter, 60)
			o.Routes, o.Timeout = route.Routes{Default: "a", Reads: "b"}, 2*time.Second
			var fleet []*mwtest.MW
			var written, read []*mctest.Proxy
			for range 2 {
				own, p := behindProxies(t, o, 0)
				own, q := behindProxies(t, own, 1)
				written, read = append(written, p[1]), append(read, q...)
				fleet = append(fleet, mwtest.Start(t, own))
			}
			load := (&traffic{t: t, fails: true}).start(t, fleet)
			load.more()
			failing(load, read[1], read[4])
			requireDiverted(t, fleet, 1, 0)
			failing(load, written...)
			load.more()
			returned(t, fleet, "a-server-2", written...)
			load.more()
			returned(t, fleet, "b-server-2", read...)
			load.stop()
			assert.Zero(t, load.stale.Load())
			assert.Less(t, load.missed.Load(), 2*load.rounds.Load(), "some were found")
		})
	}
}
