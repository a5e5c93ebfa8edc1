package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// liveOptions are the options of a fleet in which a dead server stops no writes.
func liveOptions() middleware.Options {
	return middleware.Options{
		Writers: middleware.WritersSeveral, Placement: route.Options{Read: route.ReadRoundRobin},
		RequestOptions: worker.RequestOptions{Ack: replica.AckLive},
		ServerOptions:  backend.ServerOptions{FailureLimit: 1, ConnectTimeout: time.Second},
	}
}

// behindProxies starts n middlewares with o in front of servers, which are those of the first pool if o has pools. Each
// reaches the servers through its own proxies.
func behindProxies(t *testing.T, n int, o middleware.Options, servers []*mctest.Server) (fleet []*mwtest.MW,
	proxies [][]*mctest.Proxy,
) {
	t.Helper()
	for range n {
		var addrs []string
		var own []*mctest.Proxy
		for _, s := range servers {
			proxy := mctest.StartProxy(t, s.Addr())
			own, addrs = append(own, proxy), append(addrs, proxy.Addr())
		}
		if len(o.Pools) == 0 {
			o.Servers = mwtest.Named(addrs...)
		} else {
			o.Pools = slices.Clone(o.Pools)
			o.Pools[0].Servers = mwtest.Named(addrs...)
		}
		fleet, proxies = append(fleet, mwtest.Start(t, o)), append(proxies, own)
	}
	return fleet, proxies
}

// For suspended servers, which refuse nothing, one server counts for a minute only, which a busy machine can take.
// The fault scenarios two-of-three-freeze and one-of-two-freeze ask for them, and the models.
func TestOneServerIsEnoughWhileTheOthersRefuseConnectionsAndKeepsItsValues(t *testing.T) {
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprintf("%d middlewares", n), func(t *testing.T) {
			servers := mctest.StartNewMemcacheds(t, 3)
			o := liveOptions()
			o.ConnectTimeout, o.Timeout, o.StallAfter = time.Second, time.Second, 100*time.Millisecond
			s := stage(t, n, o, servers)
			kept := numbered(50)
			insist(t, s.addrs[0], kept, "kept")
			s.legal(t, loadOf(t), func() {
				for _, server := range servers[:2] {
					server.Stop()
				}
				s.more(t, 200)
				for _, server := range servers[:2] {
					server.Start()
				}
				s.up(t)
			})
			for _, m := range s.fleet {
				require.Zero(t, m.Stats().Snapshot().Servers[2].Health.Flushes, "the one that was left")
			}
			for _, key := range kept {
				value, found := servers[2].Get(key)
				require.True(t, found, key)
				require.Equal(t, "kept", value)
			}
		})
	}
}

// upUnmarked reports whether a server may be read because no middleware marks it. On a busy machine it may be late, and
// be marked again, a moment after.
func upUnmarked(h stats.Health) bool { return h.State == "up" && !h.MarkedElsewhere }

// unreachable is the fault of a server that no bytes reach.
var unreachable = mctest.Fault{Lose: true, Refuse: true}

// insist stores value under keys through m, and repeats each write until it is acknowledged.
func insist(t *testing.T, addr string, keys []string, value string) {
	t.Helper()
	c := mctest.MustDial(t, addr)
	defer c.Close()
	for _, key := range keys {
		require.Eventually(t, func() bool {
			reply, err := c.Do(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value))
			return err == nil && reply == "STORED\r\n"
		}, mctest.Patience, pollPause)
	}
}

// neverOld reads keys through fleet, and requires that every value found is value.
func neverOld(t *testing.T, fleet []*mwtest.MW, keys []string, value string) {
	t.Helper()
	for i, m := range fleet {
		c := m.Dial(t)
		for range 3 { // each reads another replica
			for _, key := range keys {
				if items, err := mctest.ParseValues(c.MustDo(t, "get "+key+"\r\n")); err == nil && len(items) > 0 {
					require.Equal(t, value, items[0].Value, "%s through mcmw %d", key, i)
				}
			}
		}
		c.Close()
	}
}

func TestTheMarksOfAKilledMiddlewareHoldUntilAnotherHasCleanedTheServer(t *testing.T) {
	t.Parallel()
	servers := mctest.StartNewMemcacheds(t, 3)
	o := liveOptions()
	o.Timeout = 500 * time.Millisecond
	fleet := fleetOf(t, 2, o, false, servers)
	path := mctest.StartProxy(t, servers[1].Addr())
	o.Servers = mwtest.Named(servers[0].Addr(), path.Addr(), servers[2].Addr())
	killed := startChild(t, o)
	keys := numbered(20)
	insist(t, fleet[0].Addr(), keys, "old")
	path.Inject(unreachable)
	insist(t, killed.addrs[0], keys, "new")
	health := func(m *mwtest.MW) stats.Health { return m.Stats().Snapshot().Servers[1].Health }
	for _, m := range fleet {
		require.True(t, health(m).MarkedElsewhere, "all must have barred the server before the write is acknowledged")
		poll(t, "the reason is not shown",
			func() bool { return strings.HasPrefix(health(m).Why, "it missed writes of ") })
	}
	killed.kill(t)
	value, _ := servers[1].Get(keys[0])
	require.Equal(t, "old", value)
	for _, m := range fleet {
		require.Eventually(t, func() bool {
			neverOld(t, fleet, keys[:1], "new")
			return upUnmarked(health(m))
		}, mctest.Patience, 20*pollPause)
	}
	neverOld(t, fleet, keys, "new")
	value, _ = servers[1].Get(keys[0])
	require.NotEqual(t, "old", value)
	require.NotZero(t, health(fleet[0]).Flushes+health(fleet[1]).Flushes)
}

func TestAMiddlewareThatReachesOnlyAMinorityOfTheServersNeitherReadsNorAcknowledges(t *testing.T) {
	for _, ack := range []replica.Ack{replica.AckLive, replica.AckQuorum, replica.AckAny} {
		t.Run(ack.String(), func(t *testing.T) {
			t.Parallel()
			servers := mctest.StartNewMemcacheds(t, 3)
			o := liveOptions()
			o.Ack, o.Timeout = ack, 500*time.Millisecond
			fleet, proxies := behindProxies(t, 2, o, servers)
			keys := numbered(4)
			insist(t, fleet[0].Addr(), keys, "old")
			// The first one reaches the first server, the second one the others.
			proxies[0][1].Inject(unreachable)
			proxies[0][2].Inject(unreachable)
			proxies[1][0].Inject(unreachable)
			insist(t, fleet[1].Addr(), keys, "new")
			value, _ := servers[0].Get(keys[0])
			require.Equal(t, "old", value)
			c := fleet[0].Dial(t)
			for _, key := range keys {
				require.Regexp(t, "^SERVER_ERROR ", c.MustDo(t, "get "+key+"\r\n"))
				require.Regexp(t, "^SERVER_ERROR ", c.MustDo(t, "set "+key+" 0 0 4\r\nlost\r\n"))
			}
			require.True(t, fleet[0].Stats().Snapshot().MarksUnknown)
			require.Eventually(t, func() bool { return !fleet[1].Stats().Snapshot().MarksUnknown }, mctest.Patience,
				pollPause, "it reaches a majority")
			if ack == replica.AckAny {
				require.Eventually(t, func() bool { // on a busy machine the first server may also be late
					require.Regexp(t, "^SERVER_ERROR ", c.MustDo(t, "set "+keys[0]+" 0 0 4\r\nlost\r\n"))
					s := fleet[0].Stats().Snapshot()
					return s.Servers[1].Health.Withheld+s.Servers[2].Health.Withheld > 0
				}, mctest.Patience, pollPause, "one server has acknowledged, which ack any would accept")
			}
			for _, p := range []*mctest.Proxy{proxies[0][1], proxies[0][2], proxies[1][0]} {
				p.Inject(mctest.Fault{})
			}
			for _, m := range fleet {
				for _, name := range []string{"server-1", "server-2", "server-3"} {
					awaitState(t, m.Dial(t), name, "up")
				}
			}
			insist(t, fleet[0].Addr(), keys, "last")
			neverOld(t, fleet, keys, "last")
		})
	}
}
