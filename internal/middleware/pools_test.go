package middleware_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// named returns servers whose names begin with the name of a pool.
func named(pool string, servers ...*mctest.Server) []route.Server {
	list := mwtest.Servers(servers...)
	for i := range list {
		list[i].Name = pool + "-" + list[i].Name
	}
	return list
}

// poolOf returns the options of a pool.
func poolOf(name string, servers []route.Server, replicas int) middleware.PoolOptions {
	return middleware.PoolOptions{Pool: route.Pool{
		Name: name, Servers: servers,
		Options: route.Options{Replicas: replicas},
	}}
}

// newPools returns options with a pool of n servers, which are started, for each name; all keys are in the first pool.
func newPools(t *testing.T, w middleware.Writers, n, replicas int, names ...string) middleware.Options {
	start := mctest.StartNewMemcacheds
	if w == middleware.WritersOne {
		start = mctest.StartMemcacheds // this also works without versions
	}
	o := middleware.Options{
		ChangeStep: time.Hour,
		Routes:     route.Routes{Default: names[0]},
	}
	for _, name := range names {
		p := poolOf(name, named(name, start(t, n)...), replicas)
		p.Writers = w
		o.Pools = append(o.Pools, p)
	}
	return o
}

// halves returns routes by which the keys of startTraffic's clients 0 and 1 are in pool a, and those of clients 2 and 3
// in pool b.
func halves() route.Routes {
	return route.Routes{Prefixes: []route.Prefix{{Prefix: "2-", Pool: "b"}, {Prefix: "3-", Pool: "b"}}, Default: "a"}
}

func TestServersJoinAndLeaveOnePoolWhileAnotherLosesNothing(t *testing.T) {
	servers := named("a", mctest.StartNewMemcacheds(t, 4)...)
	other := mctest.StartNewMemcacheds(t, 2)
	o := middleware.Options{
		ChangeStep: time.Hour, Routes: halves(),
		Pools: []middleware.PoolOptions{poolOf("a", servers[:3:3], 2), poolOf("b", named("b", other...), 0)},
	}
	fleet := []*mwtest.MW{mwtest.Start(t, o)}
	for _, s := range other { // the second start would flush a server that has no record while another one has
		c := mctest.MustDial(t, s.Addr())
		require.Eventually(t, func() bool {
			return c.MustDo(t, "mg "+base64.StdEncoding.EncodeToString([]byte(marker.RecordKey))+" b\r\n") != "EN\r\n"
		}, mctest.Patience, mctest.Tick)
	}
	fleet = append(fleet, mwtest.Start(t, o))
	kept := fleet[0].Dial(t)
	require.Equal(t, "STORED\r\n", kept.MustDo(t, "set 2-kept 0 0 1\r\nx\r\n"))
	load := startTraffic(t, fleet...)
	for _, n := range []int{4, 3} {
		next := o
		next.Pools = []middleware.PoolOptions{poolOf("a", servers[:n:n], 2), o.Pools[1]}
		goThrough(t, fleet, next, load)
	}
	load.stop()
	assert.Zero(t, load.stale.Load())
	for _, m := range fleet {
		require.Equal(t, "VALUE 2-kept 0 1\r\nx\r\nEND\r\n", m.Dial(t).MustDo(t, "get 2-kept\r\n"))
		for _, s := range m.Stats().Snapshot().Servers {
			require.Equal(t, s.Name[:1], s.Pool)
			if s.Pool == "b" {
				assert.Zero(t, s.Health.Flushes, s.Name)
			}
		}
	}
}

// A server moves from one pool to another and back. It then holds old values: of keys of either pool that were written
// while it was in the other one.
func TestAServerMovesBetweenPoolsInTwoReloadsWithoutAnErrorOrAnOldValue(t *testing.T) {
	arrangements := map[string]int{"each key on one": 1}
	if mctest.Long() {
		arrangements["each key on two"] = 2
	}
	for name, replicas := range arrangements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := named("a", mctest.StartNewMemcacheds(t, 3)...), named("b", mctest.StartNewMemcacheds(t, 2)...)
			moves := a[2]
			o := middleware.Options{ChangeStep: time.Hour, Routes: halves()}
			with := func(a, b []route.Server) middleware.Options {
				next := o
				next.Pools = []middleware.PoolOptions{poolOf("a", a, replicas), poolOf("b", b, replicas)}
				for i := range next.Pools {
					next.Pools[i].Writers = middleware.WritersSeveral
				}
				return next
			}
			inA, inNone, inB := with(a, b), with(a[:2:2], b), with(a[:2:2], append(b[:2:2], moves))
			fleet := []*mwtest.MW{mwtest.Start(t, inA), mwtest.Start(t, inA)}
			load := startTraffic(t, fleet...)
			written, found := 0, 0
			write := func() { // keys of both pools that the load does not write
				written++
				for n := range 40 {
					require.Equal(t, "STORED\r\n",
						fleet[n%2].Dial(t).MustDo(t, fmt.Sprintf("set %d-kept-%d 0 0 1\r\n%d\r\n", n%4, n, written)))
				}
			}
			fresh := func() {
				for n := range 40 {
					for _, m := range fleet {
						reply := m.Dial(t).MustDo(t, fmt.Sprintf("get %d-kept-%d\r\n", n%4, n))
						if reply != "END\r\n" {
							require.Equal(t, fmt.Sprintf("VALUE %d-kept-%d 0 1\r\n%d\r\nEND\r\n", n%4, n, written),
								reply)
							found++
						}
					}
				}
			}
			for _, then := range []middleware.Options{inB, inA} {
				write()
				applyAll(t, fleet, inNone, load)
				for _, m := range fleet {
					require.ErrorAs(t, m.Apply(context.Background(), then), new(middleware.NotYet),
						"the server is still read in its old pool")
				}
				fleet[0].EndPhase()
				load.more()
				fleet[1].EndPhase()
				load.more()
				fleet[0].EndPhase()
				write()
				require.NoError(t, fleet[0].Apply(context.Background(), then))
				load.more()
				require.ErrorAs(t, fleet[1].Apply(context.Background(), then), new(middleware.NotYet),
					"this middleware is a phase behind")
				fleet[1].EndPhase()
				require.NoError(t, fleet[1].Apply(context.Background(), then))
				load.more()
				for phases := 0; fleet[0].EndPhase(); phases++ {
					load.more()
					fleet[1].EndPhase()
					load.more()
					fresh()
					require.Less(t, phases, 6)
				}
			}
			load.stop()
			assert.NotZero(t, found)
			assert.Zero(t, load.stale.Load())
			for _, m := range fleet {
				assert.Equal(t, "settled", m.Phase())
			}
			t.Logf("%d rounds, %d missed", load.rounds.Load(), load.missed.Load())
		})
	}
}

func TestRoutesAndPoolsChangeUnderLoadWithoutAnErrorOrAnOldValue(t *testing.T) {
	a, b, c := mctest.StartMemcacheds(t, 2), mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 2)
	o := middleware.Options{ChangeStep: time.Hour, Routes: halves()}
	pool := func(name string, servers ...*mctest.Server) middleware.PoolOptions {
		p := poolOf(name, named(name, servers...), 0)
		p.Writers = middleware.WritersOne
		return p
	}
	o.Pools = []middleware.PoolOptions{pool("a", a...), pool("b", b...)}
	m := mwtest.Start(t, o)
	load := startTraffic(t, m)
	apply := func(routes route.Routes, pools ...middleware.PoolOptions) {
		t.Helper()
		load.more()
		o.Routes, o.Pools = routes, pools
		require.NoError(t, m.Apply(context.Background(), o))
		load.more()
	}
	apply(route.Routes{Default: "a"}, o.Pools...) // b has no keys
	apply(halves(), o.Pools...)                   // b gets its keys back from a
	three := halves()
	three.Prefixes = append(three.Prefixes, route.Prefix{Prefix: "0-", Pool: "c"})
	apply(three, o.Pools[0], o.Pools[1], pool("c", c...))
	apply(route.Routes{Prefixes: three.Prefixes[1:], Default: "a"}, o.Pools[2], o.Pools[1], o.Pools[0])
	apply(halves(), o.Pools[2], o.Pools[1]) // without c
	load.stop()
	assert.Zero(t, load.stale.Load())
	t.Logf("%d rounds, %d missed", load.rounds.Load(), load.missed.Load())
}

func TestStatisticsHaveTheCurrentRoutes(t *testing.T) {
	o := newPools(t, middleware.WritersOne, 1, 0, "a", "b")
	o.Routes = route.Routes{
		Prefixes: []route.Prefix{{Prefix: "y", Pool: "b"}, {Prefix: "x", Pool: "a", Reads: "b"}},
		Default:  "a",
	}
	m := mwtest.Start(t, o)
	require.Equal(t, []stats.Route{
		{Prefix: "x", Pool: "a", Reads: "b", Accepts: "all"},
		{Prefix: "y", Pool: "b", Accepts: "all"},
		{Default: true, Pool: "a", Accepts: "all"},
	}, m.Stats().Snapshot().Routes)
	o.Routes = route.Routes{Prefixes: []route.Prefix{{Prefix: "x", Pool: "a"}}, Default: "a", Reads: "b"}
	require.NoError(t, m.Apply(context.Background(), o))
	for m.EndPhase() {
	}
	require.Equal(t, []stats.Route{
		{Prefix: "x", Pool: "a", Accepts: "all"},
		{Default: true, Pool: "a", Reads: "b", Accepts: "all"},
	}, m.Stats().Snapshot().Routes)
}

func TestAPoolWithoutReplicasDoesNotHideThatThoseOfAnotherAreCompared(t *testing.T) {
	o := newPools(t, middleware.WritersSeveral, 2, 0, "a", "b", "c")
	o.SweepEvery, o.Pools[1].Options.Replicas, o.Pools[2].Options.Replicas = time.Hour, 1, 1
	m := mwtest.Start(t, o)
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Sweep.Outcomes[stats.SweepComplete] == 1 },
		mctest.Patience, mctest.Tick)
	s := m.Stats().Snapshot().Sweep
	require.True(t, s.Replicated)
	require.Equal(t, int64(time.Hour), s.Every)
	require.NotZero(t, s.Last)
}

func TestAPoolThatAReloadAddsIsComparedAndRefilled(t *testing.T) {
	a, b := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcacheds(t, 3)
	o := middleware.Options{
		Routes:     route.Routes{Default: "a"},
		SweepEvery: time.Hour, RefillRate: 1_000_000,
		RequestOptions: worker.RequestOptions{Timeout: time.Second},
	}
	pool := func(name string, servers []*mctest.Server) middleware.PoolOptions {
		p := poolOf(name, named(name, servers...), 0)
		p.Writers, p.Ack, p.ConnectTimeout = middleware.WritersSeveral, replica.AckLive, time.Second
		return p
	}
	o.Pools = []middleware.PoolOptions{pool("a", a)}
	m := mwtest.Start(t, o)
	o.Pools, o.Routes = append(o.Pools, pool("b", b)), halves()
	a[0].Freeze() // so that the reload lasts until connections to this server have timed out
	require.NoError(t, m.Apply(context.Background(), o))
	a[0].Thaw()
	await := func(key string) {
		t.Helper()
		ask := "mg " + base64.StdEncoding.EncodeToString([]byte(key)) + " b\r\n"
		for _, s := range b {
			c := mctest.MustDial(t, s.Addr())
			require.Eventually(t, func() bool { return c.MustDo(t, ask) == "HD\r\n" }, mctest.Patience, mctest.Tick,
				s.Addr())
		}
	}
	await(marker.SweptKey)
	await(marker.RefilledKey)
	b[1].Restart()
	await(marker.RefilledKey)
}

func TestAPoolWhoseKeysReturnReadsNothingThatItHeldBefore(t *testing.T) {
	elsewhere := []route.Prefix{{Prefix: "x", Pool: "b"}}
	routes := func(o middleware.Options) []middleware.Options {
		other := o
		other.Routes.Prefixes = elsewhere
		return []middleware.Options{o, other, o}
	}
	removed := func(both middleware.Options) []middleware.Options {
		alone := both
		alone.Pools = both.Pools[:1:1]
		both.Routes.Prefixes = elsewhere
		return []middleware.Options{both, alone, both}
	}
	for name, how := range map[string]struct {
		of      func(middleware.Options) []middleware.Options
		writers middleware.Writers
		restart bool
	}{
		"other routes, by restarts":                           {routes, middleware.WritersOne, true},
		"its pool removed, by reloads":                        {removed, middleware.WritersOne, false},
		"its pool removed, by restarts":                       {removed, middleware.WritersOne, true},
		"its pool removed, by restarts, with several writers": {removed, middleware.WritersSeveral, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := how.of(newPools(t, how.writers, 2, 0, "a", "b"))
			m := mwtest.Start(t, all[0])
			for i, o := range all {
				switch {
				case !how.restart:
					require.NoError(t, m.Apply(context.Background(), o))
				case i > 0:
					require.NoError(t, m.Stop())
					m = mwtest.Start(t, o)
				}
				c := m.Dial(t)
				require.Equal(t, "END\r\n", c.MustDo(t, "get x\r\n"), "options %d", i)
				if i > 0 {
					require.Equal(t, "VALUE y 0 1\r\n0\r\nEND\r\n", c.MustDo(t, "get y\r\n"), "y has not moved")
				}
				for _, key := range []string{"x", "y"} {
					require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %s 0 0 1\r\n0\r\n", key)))
				}
			}
		})
	}
}

// A pool keeps what it holds if only its name changes.
func TestARestartKeepsTheValuesOfAPoolThatGetsAnotherName(t *testing.T) {
	o := newPools(t, middleware.WritersSeveral, 2, 0, "a", "b")
	for i, name := range []string{"b", "c"} {
		o.Pools[1].Name, o.Routes.Prefixes = name, []route.Prefix{{Prefix: "x", Pool: name}}
		m := mwtest.Start(t, o)
		c := m.Dial(t)
		for _, key := range []string{"x", "y"} {
			if i == 0 {
				require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\n0\r\n"))
			}
			require.Equal(t, "VALUE "+key+" 0 1\r\n0\r\nEND\r\n", c.MustDo(t, "get "+key+"\r\n"), "start %d", i)
		}
		require.NoError(t, m.Stop())
	}
}

// The servers of a pool that strips store its keys under other names.
func TestARestartWithARouteThatStripsReadsNothingThatWasStoredUnderOtherNames(t *testing.T) {
	for _, w := range []middleware.Writers{middleware.WritersOne, middleware.WritersSeveral} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			o := newPools(t, w, 2, 0, "a", "b")
			for i, strip := range []bool{false, true, false} {
				o.Routes = route.Routes{
					Prefixes: []route.Prefix{{Prefix: "x:", Pool: "b", Strip: strip}}, Default: "a",
				}
				m := mwtest.Start(t, o)
				c := m.Dial(t)
				for _, key := range []string{"x:k", "x:x:k"} {
					require.Equal(t, "END\r\n", c.MustDo(t, "get "+key+"\r\n"), "start %d", i)
					require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\n0\r\n"))
				}
				require.NoError(t, m.Stop())
			}
		})
	}
}

// Keys that another pool has in the meantime are deleted. Reads that went to another pool in the meantime cause no
// deletion.
func TestARestartWithOtherPoolsForReadsReadsWhatThePoolWasSentAndNothingOlder(t *testing.T) {
	o := newPools(t, middleware.WritersOne, 2, 0, "a", "b")
	for i, s := range []struct {
		routes route.Routes
		reply  string
	}{
		{route.Routes{Default: "a"}, "END\r\n"},
		{route.Routes{Default: "b", Reads: "a"}, "VALUE x 0 1\r\n0\r\nEND\r\n"},
		{route.Routes{Default: "b"}, "VALUE x 0 1\r\n1\r\nEND\r\n"},
		{route.Routes{Default: "b", Reads: "a"}, "VALUE x 0 1\r\n0\r\nEND\r\n"},
		{route.Routes{Default: "a"}, "END\r\n"},
	} {
		o.Routes = s.routes
		m := mwtest.Start(t, o)
		c := m.Dial(t)
		require.Equal(t, s.reply, c.MustDo(t, "get x\r\n"), "start %d", i)
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set x 0 0 1\r\n%d\r\n", i)))
		require.NoError(t, m.Stop())
	}
}

// With several writers a prefix moves to another pool when all middlewares are restarted at once. When it moves back,
// old values there are not read.
func TestAPrefixMovesToAnotherPoolAndBackWithARestartOfAllMiddlewaresAtOnce(t *testing.T) {
	for name, replicas := range map[string]int{"each key on one": 1, "all hold every key": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newPools(t, middleware.WritersSeveral, 2, replicas, "a", "b")
			elsewhere := route.Routes{Prefixes: []route.Prefix{{Prefix: "2-", Pool: "b"}}, Default: "a"}
			for i, routes := range []route.Routes{{Default: "a"}, elsewhere, {Default: "a"}, elsewhere} {
				o.Routes = routes
				fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
				for _, m := range fleet {
					c := m.Dial(t)
					for n := range 50 { // the values of startTraffic's clients
						require.Equal(t, "END\r\n", c.MustDo(t, fmt.Sprintf("get 2-%d-key\r\n", n)), "start %d", i)
					}
				}
				load := startTraffic(t, fleet...)
				load.more()
				load.stop()
				assert.Zero(t, load.stale.Load())
				for _, m := range fleet {
					require.NoError(t, m.Stop())
				}
			}
		})
	}
}

// refuses asserts that m refuses the options o after change, with an error that contains text.
func refuses(t *testing.T, m *mwtest.MW, o middleware.Options, text string, change func(o *middleware.Options)) {
	t.Helper()
	o.Pools = slices.Clone(o.Pools)
	change(&o)
	require.ErrorContains(t, m.Apply(context.Background(), o), text)
}

func TestAnImpossibleChangeOfPoolsIsRefusedWithTheReason(t *testing.T) {
	a, b := named("a", mctest.StartNewMemcacheds(t, 2)...), named("b", mctest.StartNewMemcacheds(t, 2)...)
	o := middleware.Options{
		Pools: []middleware.PoolOptions{poolOf("a", a, 0), poolOf("b", b, 0)}, Routes: halves(), ChangeStep: time.Hour,
	}
	m := mwtest.Start(t, o)
	refuses(t, m, o, `pool "b" is removed as well; remove only the routes to it`, func(o *middleware.Options) {
		o.Routes, o.Pools = route.Routes{Default: "a"}, o.Pools[:1]
	})
	refuses(t, m, o, `address `+b[0].Addr+` is used by server`, func(o *middleware.Options) {
		o.Pools[0].Servers = []route.Server{a[0], {Name: "again", Addr: b[0].Addr}}
	})
	refuses(t, m, o, `cannot move from pool "b" to pool "a"`, func(o *middleware.Options) {
		o.Pools[0].Servers, o.Pools[1].Servers = []route.Server{a[0], a[1], b[0]}, b[1:]
	})
	refuses(t, m, o, "both servers and pools are set", func(o *middleware.Options) { o.Servers = a })
	refuses(t, m, o, `pool "b": ack: "quorum" needs two replicas or more`, func(o *middleware.Options) {
		o.Pools[1].Ack, o.Pools[1].Options.Replicas = replica.AckQuorum, 1
	})
}

func TestRejoinChangesByAReloadExceptFromTrustAtTheStart(t *testing.T) {
	o := newPools(t, middleware.WritersSeveral, 2, 0, "a")
	with := func(rejoin backend.Rejoin) middleware.Options {
		next := o
		next.Pools = slices.Clone(o.Pools)
		next.Pools[0].Rejoin, next.Pools[0].Ack = rejoin, replica.AckLive
		return next
	}
	trusting := mwtest.Start(t, with(backend.RejoinTrust))
	for _, rejoin := range []backend.Rejoin{backend.RejoinInvalidate, backend.RejoinFlush} {
		require.ErrorContains(t, trusting.Apply(context.Background(), with(rejoin)),
			`pool "a": rejoin cannot change from trust while clients are served`)
	}
	m := mwtest.Start(t, with(backend.RejoinInvalidate))
	for _, rejoin := range []backend.Rejoin{backend.RejoinTrust, backend.RejoinFlush, backend.RejoinInvalidate} {
		require.NoError(t, m.Apply(context.Background(), with(rejoin)))
		require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 1\r\nx\r\n"))
	}
}
