package middleware_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// gutteredPools returns options with the pools a, b and spare, of three servers each. Pool spare is to be the gutter
// and has keys of its own.
func gutteredPools(t *testing.T, w middleware.Writers) (o middleware.Options, spare []*mctest.Server) {
	t.Helper()
	o = middleware.Options{ChangeStep: time.Hour}
	for _, name := range []string{"a", "b", "spare"} {
		servers := mctest.StartNewMemcacheds(t, 3)
		p := poolOf(name, named(name, servers...), 1)
		p.Writers, p.Ack, p.FailureLimit = w, replica.AckLive, 1
		o.Pools, spare = append(o.Pools, p), servers
	}
	return routed(o, "a", "2-", "b", "3-", "spare"), spare
}

// withGutter returns o with another gutter of a pool, "" for none, where items live for ttl seconds.
func withGutter(o middleware.Options, pool, gutter string, ttl int) middleware.Options {
	o.Pools = slices.Clone(o.Pools)
	for i := range o.Pools {
		if p := &o.Pools[i].Options; o.Pools[i].Name == pool {
			p.Gutter, p.GutterTTL = gutter, ttl
		}
	}
	return o
}

// gutterChanges are changes after which keys may go to a gutter that did not before, or may live there for longer.
var gutterChanges = map[string]func(o middleware.Options) (before, after middleware.Options){
	"the pool gets the gutter": func(o middleware.Options) (before, after middleware.Options) {
		return o, withGutter(o, "a", "spare", 60)
	},
	"a pool that is a gutter gets the gutter": func(o middleware.Options) (before, after middleware.Options) {
		before = withGutter(o, "b", "a", 60)
		return before, withGutter(before, "a", "spare", 60)
	},
	"the pool has it for longer": func(o middleware.Options) (before, after middleware.Options) {
		return withGutter(o, "a", "spare", 60), withGutter(o, "a", "spare", 90)
	},
	"the pool gets keys": func(o middleware.Options) (before, after middleware.Options) {
		after = withGutter(o, "a", "spare", 60)
		return routed(after, "b", "2-", "b", "3-", "spare"), after
	},
	"the pool gets keys from the gutter": func(o middleware.Options) (before, after middleware.Options) {
		after = withGutter(o, "a", "spare", 60)
		return routed(after, "spare", "2-", "b", "3-", "spare"), after
	},
}

func TestAGutterHoldsNoOldValuesWhenAPoolOrItsKeysReturnToIt(t *testing.T) {
	for name, change := range gutterChanges {
		for _, w := range []middleware.Writers{middleware.WritersSeveral, middleware.WritersOne} {
			for _, restart := range []bool{false, true} {
				if !mctest.Long() && (name != "the pool gets keys from the gutter" &&
					name != "the pool gets the gutter" && name != "a pool that is a gutter gets the gutter" ||
					restart != (w == middleware.WritersOne)) {
					continue
				}
				t.Run(fmt.Sprintf("%s, writers %s, restart %t", name, w, restart), func(t *testing.T) {
					t.Parallel()
					o, spare := gutteredPools(t, w)
					before, after := change(o)
					fleet := []*mwtest.MW{mwtest.Start(t, before)}
					if w == middleware.WritersSeveral {
						fleet = append(fleet, mwtest.Start(t, before))
					}
					rounds(t, nil, fleet...)
					gutter := func(do func(c *mctest.Client)) {
						for _, s := range spare {
							do(mctest.MustDial(t, s.Addr()))
						}
					}
					gutter(func(c *mctest.Client) { // left by earlier outages
						for _, key := range []string{"old", "2-kept", "3-kept"} {
							require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\nx\r\n"))
						}
					})
					for i := range fleet {
						if restart {
							require.NoError(t, fleet[i].Stop())
							fleet[i] = mwtest.Start(t, after)
						} else {
							require.NoError(t, fleet[i].Apply(context.Background(), after))
						}
					}
					rounds(t, nil, fleet...)
					gutter(func(c *mctest.Client) {
						assert.Equal(t, "END\r\n", c.MustDo(t, "get old\r\n"))
						// a restart deletes in a pool that has become a gutter all keys that are not the pool's own
						if !restart {
							assert.NotEqual(t, "END\r\n", c.MustDo(t, "get 2-kept\r\n"),
								"a key of a pool that does not have that gutter")
						}
						assert.NotEqual(t, "END\r\n", c.MustDo(t, "get 3-kept\r\n"), "the gutter's own key")
					})
				})
			}
		}
	}
}

// A server that missed writes because they went to the gutter is not read even if the pool has no gutter any more.
func TestAPoolThatLosesItsGutterReadsNoServerThatMissedWrites(t *testing.T) {
	o, _ := gutteredPools(t, middleware.WritersSeveral)
	o.Timeout, o.StallAfter = 500*time.Millisecond, 100*time.Millisecond
	o = withGutter(o, "a", "spare", 60)
	proxy := mctest.StartProxy(t, o.Pools[0].Servers[1].Addr)
	losing := o
	losing.Pools = slices.Clone(o.Pools)
	losing.Pools[0].Servers = slices.Clone(o.Pools[0].Servers)
	losing.Pools[0].Servers[1].Addr = proxy.Addr()
	fleet := []*mwtest.MW{mwtest.Start(t, losing), mwtest.Start(t, o)}
	var clients []*mctest.Client
	for _, m := range fleet {
		clients = append(clients, m.Dial(t))
	}
	there := mctest.MustDial(t, o.Pools[0].Servers[1].Addr)
	key := ""
	for n := 0; key == ""; n++ {
		name := fmt.Sprint("key-", n)
		require.Equal(t, "STORED\r\n", clients[0].MustDo(t, "set "+name+" 0 0 3\r\nold\r\n"))
		if there.MustDo(t, "get "+name+"\r\n") != "END\r\n" {
			key = name
		}
	}
	proxy.Inject(mctest.Fault{Lose: true, Refuse: true})
	require.Eventually(t, func() bool { return clients[0].MustDo(t, "set "+key+" 0 0 3\r\nnew\r\n") == "STORED\r\n" },
		mctest.Patience, mctest.Tick)
	require.Eventually(t, func() bool { // a read that waits too long for the gutter fails
		reply := clients[1].MustDo(t, "get "+key+"\r\n")
		require.NotContains(t, reply, "old")
		return reply == "VALUE "+key+" 0 3\r\nnew\r\nEND\r\n"
	}, mctest.Patience, mctest.Tick)
	for i, next := range []middleware.Options{losing, o} {
		require.NoError(t, fleet[i].Apply(context.Background(), withGutter(next, "a", "", 0)))
	}
	rounds(t, nil, fleet...)
	for range 20 {
		require.Contains(t, clients[1].MustDo(t, "get "+key+"\r\n"), "SERVER_ERROR ")
	}
	proxy.Inject(mctest.Fault{})
	require.Eventually(t, func() bool { return clients[1].MustDo(t, "get "+key+"\r\n") == "END\r\n" }, mctest.Patience,
		mctest.Tick)
	for _, m := range fleet {
		require.Eventually(t, func() bool { return !m.RespectsMarks("a") }, mctest.Patience, mctest.Tick)
	}
}

// In all phases of two middlewares, no old value is read after one or both of them lose a server.
func TestGuttersChangeUnderLoadWhileAServerFailsAndReturns(t *testing.T) {
	o, _ := gutteredPools(t, middleware.WritersSeveral)
	o.Timeout, o.StallAfter = 500*time.Millisecond, 100*time.Millisecond
	for i := range o.Pools { // what a proxy has lost is never answered
		o.Pools[i].ConnectTimeout = time.Second
	}
	var fleet []*mwtest.MW
	var lists [][]route.Server
	var proxies []*mctest.Proxy
	of := func(i int, o middleware.Options) middleware.Options {
		o.Pools = slices.Clone(o.Pools)
		o.Pools[0].Servers = lists[i]
		return o
	}
	o = withGutter(o, "a", "spare", 60)
	for i := range 2 {
		servers := slices.Clone(o.Pools[0].Servers)
		proxies = append(proxies, mctest.StartProxy(t, servers[1].Addr))
		servers[1].Addr = proxies[i].Addr()
		lists = append(lists, servers)
		fleet = append(fleet, mwtest.Start(t, of(i, o)))
	}
	load := (&traffic{t: t, fails: true}).start(t, fleet)
	// lose makes n of the middlewares lose the server, and waits until all of them know.
	lose := func(n int) {
		t.Helper()
		for i, p := range proxies {
			p.Inject(map[bool]mctest.Fault{true: {Lose: true, Refuse: true}}[i < n])
		}
		for _, m := range fleet {
			require.Eventually(t, func() bool {
				s := m.Stats().Snapshot()
				h := s.Servers[slices.IndexFunc(s.Servers, func(s stats.ServerSnapshot) bool {
					return s.Name == "a-server-2"
				})].Health
				return h.MarkedHere || h.MarkedElsewhere == (n > 0)
			}, mctest.Patience, mctest.Tick)
		}
		load.more()
	}
	lost := []int{1, 0}
	for _, next := range []middleware.Options{routed(withGutter(o, "a", "b", 60), "a", "3-", "spare"), o} {
		lose(2)
		for i, m := range fleet {
			require.NoError(t, m.Apply(context.Background(), of(i, next)))
			load.more()
		}
		for n, more := 0, true; more; n++ {
			lose(lost[n%2])
			more = false
			for _, m := range fleet {
				more = m.EndPhase() || more
				load.more()
			}
		}
		lose(2)
		require.Eventually(t, func() bool {
			return !slices.ContainsFunc(fleet, func(m *mwtest.MW) bool {
				return m.Stats().Snapshot().Gutters[0].Reads == 0
			})
		}, mctest.Patience, mctest.Tick)
		lose(0)
	}
	load.stop()
	assert.Zero(t, load.stale.Load())
	t.Logf("%d rounds, %d missed or failed", load.rounds.Load(), load.missed.Load())
}
