package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/refusal"
	"mcmw/internal/route"
)

// severalPools returns options with the pools a, b and c, whose servers several middlewares write.
func severalPools(t *testing.T, replicas int) middleware.Options {
	o := newPools(t, middleware.WritersSeveral, 2, replicas, "a", "b", "c")
	o.Routes = halves()
	return o
}

// routed returns o with other routes: pairs of a prefix and its pool, and the default pool.
func routed(o middleware.Options, otherwise string, prefixes ...string) middleware.Options {
	o.Routes = route.Routes{Default: otherwise}
	for p := range slices.Chunk(prefixes, 2) {
		o.Routes.Prefixes = append(o.Routes.Prefixes, route.Prefix{Prefix: p[0], Pool: p[1]})
	}
	return o
}

// rounds takes the middlewares through all phases of a change. In each phase another middleware enters it first, and
// load, which may be nil, runs while that one is a phase ahead.
func rounds(t *testing.T, load *traffic, fleet ...*mwtest.MW) {
	t.Helper()
	for phases, more := 0, true; more; phases++ {
		more = false
		for i := range fleet {
			more = fleet[(i+phases)%len(fleet)].EndPhase() || more
			if i == 0 {
				load.more()
			}
		}
		require.Less(t, phases, 8)
	}
	for _, m := range fleet {
		require.Equal(t, "settled", m.Phase())
	}
}

func TestSeveralMiddlewaresMovePrefixesToOtherPoolsAndBackWithoutAnErrorOrAnOldValue(t *testing.T) {
	arrangements := map[string]int{"each key on one": 1}
	if mctest.Long() {
		arrangements["all hold every key"] = 0
	}
	for name, replicas := range arrangements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := severalPools(t, replicas)
			fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
			load := startTraffic(t, fleet...)
			load.more()
			changes := []middleware.Options{
				routed(o, "c", "0-", "a"),            // another default pool, which also gets the keys of b
				routed(o, "a", "2-", "b", "3-", "b"), // all keys return
				routed(o, "b", "0-", "a"), routed(o, "a"),
			}
			if !mctest.Long() {
				changes = changes[:2]
			}
			for _, next := range changes {
				for _, m := range fleet {
					require.NoError(t, m.Apply(context.Background(), next))
					require.Equal(t, "delete-new", m.Phase())
					load.more()
				}
				for _, m := range fleet {
					require.NoError(t, m.Apply(context.Background(), next), "the same change is under way")
					require.ErrorAs(t, m.Apply(context.Background(), routed(o, "c")), new(middleware.NotYet))
				}
				rounds(t, load, fleet...)
			}
			load.stop()
			assert.Zero(t, load.stale.Load())
			assert.Equal(t, fleet[0].Stats().Snapshot().Placement, fleet[1].Stats().Snapshot().Placement)
			t.Logf("%d rounds, %d missed", load.rounds.Load(), load.missed.Load())
		})
	}
}

func TestOldValuesOfAPrefixAreNotReadWhenThePrefixReturnsToItsPool(t *testing.T) {
	o := severalPools(t, 1)
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	there := func(value string) (found int) {
		for n := range 40 {
			reply := fleet[n%2].Dial(t).MustDo(t, fmt.Sprintf("get 2-kept-%d\r\n", n))
			if reply != "END\r\n" {
				require.Equal(t, "VALUE 2-kept-"+fmt.Sprint(n)+" 0 1\r\n"+value+"\r\nEND\r\n", reply)
				found++
			}
		}
		return found
	}
	for value, otherwise := range []string{"b", "a", "b", "a"} {
		next := routed(o, "a", "2-", otherwise)
		applyAll(t, fleet, next, nil)
		rounds(t, nil, fleet...)
		if value > 0 {
			require.Zero(t, there("none"))
		}
		for n := range 40 {
			require.Equal(t, "STORED\r\n",
				fleet[n%2].Dial(t).MustDo(t, fmt.Sprintf("set 2-kept-%d 0 0 1\r\n%d\r\n", n, value)))
		}
		require.Equal(t, 40, there(fmt.Sprint(value)))
	}
}

func TestAPoolIsAddedWithItsRouteAndRemovedAfterItUnderLoad(t *testing.T) {
	o := severalPools(t, 0)
	without := o
	without.Pools = o.Pools[:2:2]
	fleet := []*mwtest.MW{mwtest.Start(t, without), mwtest.Start(t, without)}
	load := startTraffic(t, fleet...)
	dirty := mctest.MustDial(t, o.Pools[2].Servers[0].Addr)
	for n := range 50 {
		require.Equal(t, "STORED\r\n", dirty.MustDo(t, fmt.Sprintf("set 0-%d-key 0 0 3\r\nold\r\n", n)))
	}
	times := 1
	if mctest.Long() {
		times = 2
	}
	for range times {
		for _, m := range fleet {
			require.NoError(t, m.Apply(context.Background(), routed(o, "a", "2-", "b", "3-", "b", "0-", "c")))
			load.more()
		}
		rounds(t, load, fleet...)
		for _, m := range fleet {
			require.ErrorContains(t, m.Apply(context.Background(), without),
				`pool "c" is removed as well; remove only the routes to it`)
		}
		for _, m := range fleet {
			require.NoError(t, m.Apply(context.Background(), o))
			require.ErrorAs(t, m.Apply(context.Background(), without), new(middleware.NotYet))
			load.more()
		}
		rounds(t, load, fleet...)
		applyAll(t, fleet, without, load)
	}
	load.stop()
	assert.Zero(t, load.stale.Load())
}

func TestAMiddlewareThatStartsWhileRoutesChangeReadsNoOldValuesWhateverThePhaseOfTheOthers(t *testing.T) {
	for _, phase := range []int{0, 1, 2, 3} { // how many steps the other middleware has made
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			t.Parallel()
			o := severalPools(t, 1)
			first, late, next := startDuring(t, o, routed(o, "b", "3-", "a"), routed(o, "b", "3-", "a"), phase, "late",
				"delete-new", "read-new", "read-new")
			load := startTraffic(t, first, late)
			load.more()
			if phase == 0 { // nothing was announced
				require.Equal(t, "SERVER_ERROR the key is moving to other servers; try again later\r\n",
					late.Dial(t).MustDo(t, "add 0-x 0 0 1\r\nx\r\n"))
			}
			for range 3 - phase {
				next()
				load.more()
				if phase > 0 {
					late.EndPhase()
					load.more()
				}
			}
			rounds(t, load, late)
			load.stop()
			assert.Zero(t, load.stale.Load())
			t.Logf("%d rounds, %d missed", load.rounds.Load(), load.missed.Load())
		})
	}
}

func TestReadNewOfAChangeOfRoutesLastsAsLongAsAnotherMiddlewareIsInDeleteNew(t *testing.T) {
	o := severalPools(t, 1)
	next := routed(o, "b", "3-", "a")
	a, b := mwtest.Start(t, o), mwtest.Start(t, o)
	late := mwtest.Start(t, next) // nobody has announced anything
	require.Equal(t, "late", late.Phase())
	require.NoError(t, a.Apply(context.Background(), next))
	require.NoError(t, b.Apply(context.Background(), next))
	assert.True(t, late.AwaitsOthers(), "its next phase does not agree with delete-new, either")
	require.True(t, a.EndPhase())
	require.Equal(t, []string{"read-new", "delete-new"}, []string{a.Phase(), b.Phase()})
	assert.True(t, a.AwaitsOthers())
	assert.False(t, b.AwaitsOthers(), "the other one is in read-new already")
}

func TestAPoolForReadsIsNotRemovedWhileOtherMiddlewaresMayUseTheRouteToIt(t *testing.T) {
	o := severalPools(t, 1)
	o.Routes = route.Routes{Default: "a", Reads: "c"}
	m := mwtest.Start(t, o)
	next := routed(o, "b")
	require.NoError(t, m.Apply(context.Background(), next))
	without := next
	without.Pools = next.Pools[:2:2]
	require.ErrorAs(t, m.Apply(context.Background(), without), new(middleware.NotYet))
	rounds(t, nil, m)
	require.NoError(t, m.Apply(context.Background(), without))
}

func TestServersOfAPoolChangeWhileItsRoutesDo(t *testing.T) {
	o := severalPools(t, 1)
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	load := startTraffic(t, fleet...)
	more := routed(o, "b", "3-", "a", "2-", "a")
	more.Pools = slices.Clone(o.Pools)
	more.Pools[1].Servers = append(o.Pools[1].Servers[:1:1], named("b-more", mctest.StartNewMemcacheds(t, 2)...)...)
	changes := []middleware.Options{more, o}
	if !mctest.Long() {
		changes = changes[:1]
	}
	for _, next := range changes {
		applyAll(t, fleet, next, load)
		rounds(t, load, fleet...)
	}
	load.stop()
	assert.Zero(t, load.stale.Load())
}

func TestAServerHasTheMarksOfAllChangesForWhichItWasCleaned(t *testing.T) {
	o := severalPools(t, 1)
	m := mwtest.Start(t, o)
	joined := mctest.StartNewMemcached(t)
	c := mctest.MustDial(t, joined.Addr())
	mark := func(key string) string { return c.MustDo(t, "mg "+string(link.Key(key).Text)+" b v\r\n") }
	await := func(key string) (text string) {
		t.Helper()
		require.Eventually(t, func() bool { text = mark(key); return text != "EN\r\n" }, mctest.Patience, mctest.Tick)
		return text
	}
	more := o
	more.Pools = slices.Clone(o.Pools)
	more.Pools[1].Servers = append(slices.Clone(o.Pools[1].Servers), named("b-more", joined)...)
	require.NoError(t, m.Apply(context.Background(), more))
	ofServers := await(marker.CleanKey)
	loses := routed(more, "a", "2-", "b")
	require.NoError(t, m.Apply(context.Background(), loses))
	require.Equal(t, ofServers, mark(marker.CleanKey))
	rounds(t, nil, m)

	gains := withGutter(routed(loses, "a", "2-", "b", "4-", "b"), "a", "b", 60)
	require.NoError(t, m.Apply(context.Background(), gains))
	ofRoutes := await(marker.CleanRoutesKey)
	rounds(t, nil, m)
	await(marker.CleanGutterKey)
	require.Equal(t, ofServers, mark(marker.CleanKey))
	require.Equal(t, ofRoutes, mark(marker.CleanRoutesKey))
}

func TestAMiddlewareThatJoinsAChangeOfRoutesCleansNothingAgainWhileServersChangeToo(t *testing.T) {
	o := severalPools(t, 1)
	m := mwtest.Start(t, o)
	o = routed(o, "a", "2-", "b", "4-", "b")
	require.NoError(t, m.Apply(context.Background(), o))
	require.True(t, m.EndPhase())
	require.Equal(t, "read-new", m.Phase())
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set 4-k 0 0 1\r\nx\r\n"))
	o.Pools = slices.Clone(o.Pools)
	o.Pools[1].Options.Replicas = 2
	require.NoError(t, m.Apply(context.Background(), o))
	mwtest.Start(t, o)
	require.Equal(t, "VALUE 4-k 0 1\r\nx\r\nEND\r\n", c.MustDo(t, "get 4-k\r\n"))
}

func TestAnImpossibleChangeOfRoutesIsRefusedWithTheReason(t *testing.T) {
	o := severalPools(t, 0)
	o.Routes.Prefixes = append(o.Routes.Prefixes, route.Prefix{Prefix: "9-", Pool: "c"})
	start := time.Now().Add(10 * time.Hour)
	m := mwtest.Start(t, o)
	refused := func(text string, next middleware.Options) {
		t.Helper()
		err := m.Apply(context.Background(), next)
		require.ErrorContains(t, err, text)
		require.Equal(t, "settled", m.Phase())
		var wrong *refusal.Error
		if errors.As(err, &wrong) {
			require.Equal(t, "routes[default]", wrong.Path)
		}
	}
	beside := routed(o, "c")
	beside.Migrations = []middleware.Migration{{From: "a", To: "b", Start: start, End: start.Add(100 * time.Hour)}}
	refused(`the routes move keys from pool "a" to pool "c" while other mcmw may write their servers, but the migration from pool "a" to pool "b" has not ended; change the routes after it`, beside)
	stands := routed(severalPools(t, 0), "a", "2-", "b")
	stands.Pools[1].Options.Gutter, stands.Pools[1].Options.GutterTTL = "c", 60
	m = mwtest.Start(t, stands)
	without := stands
	without.Pools = slices.Clone(stands.Pools[:2])
	without.Pools[1].Options.Gutter, without.Pools[1].Options.GutterTTL = "", 0
	wrong := new(refusal.Error)
	require.ErrorAs(t, m.Apply(context.Background(), without), &wrong)
	require.Equal(t, "pools.b.gutter", wrong.Path)
	require.EqualError(t, wrong,
		`pools.b.gutter: pool "b" had the gutter "c" until now, which other mcmw may still use; keep pool "c", reload, and remove it when the change has ended`)
	require.Equal(t, "settled", m.Phase())
}

func TestPoolsReplaceAListOfServersOnlyWithOneWriter(t *testing.T) {
	list := middleware.Options{
		ChangeStep: time.Hour,
		Servers:    mwtest.Servers(mctest.StartNewMemcacheds(t, 1)...), Writers: middleware.WritersSeveral,
	}
	pools := severalPools(t, 1)
	m := mwtest.Start(t, list)
	require.ErrorContains(t, m.Apply(context.Background(), pools),
		"a list of servers cannot be replaced by pools, or pools by a list, while clients are served and other mcmw "+
			"may write the servers; stop all mcmw")
	require.ErrorContains(t, mwtest.Start(t, pools).Apply(context.Background(), list), "or pools by a list")
	list.Writers = middleware.WritersOne
	for i := range pools.Pools {
		pools.Pools[i].Writers = middleware.WritersOne
	}
	m = mwtest.Start(t, list)
	require.NoError(t, m.Apply(context.Background(), pools))
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set 2-x 0 0 1\r\nx\r\n"))
}
