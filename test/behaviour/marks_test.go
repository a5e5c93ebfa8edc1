package behaviour_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
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
		own, named := proxied(t, servers)
		if len(o.Pools) == 0 {
			o.Servers = named
		} else {
			o.Pools = slices.Clone(o.Pools)
			o.Pools[0].Servers = named
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
				m.AwaitUp(t)
			}
			insist(t, fleet[0].Addr(), keys, "last")
			neverOld(t, fleet, keys, "last")
		})
	}
}

var (
	dumpedItem = regexp.MustCompile(`key=(\S+) .*cas=(\d+)`)
	longNumber = regexp.MustCompile(`\d{9,}`)
)

// Middlewares communicate only through the servers. They store no times of their clocks there, so clocks may differ by
// hours.
func TestMiddlewaresStoreNoTimesOfTheirClocks(t *testing.T) {
	t.Parallel()
	require.True(t, isTimeOfDay(strconv.FormatInt(time.Now().UnixMilli(), 10)))
	servers := mctest.StartNewMemcacheds(t, 3)
	o := liveOptions()
	o.SweepEvery, o.Timeout = 100*time.Millisecond, 500*time.Millisecond
	fleet, proxies := behindProxies(t, 2, o, servers)
	keys := numbered(10)
	insist(t, fleet[0].Addr(), keys, "1")
	awaitSweeps(t, fleet...)
	proxies[0][1].Inject(unreachable)
	insist(t, fleet[0].Addr(), keys, "2") // now there are marks
	seen := map[string]bool{}
	for _, s := range servers {
		for key, text := range dumped(t, s) {
			seen[key] = true
			for _, number := range longNumber.FindAllString(text, -1) {
				require.False(t, isTimeOfDay(number), "%q holds %q, in which %s is a time", key, text, number)
			}
		}
	}
	for _, key := range append(keys, marker.RecordKey, marker.MarksKey, marker.RunningKey) {
		require.True(t, seen[key], "%q was not seen", key)
	}
}

// dumped returns the value and the cas of each item on s by key, except for the server's own time that a sweep notes,
// and the start time of a middleware, which is for people.
func dumped(t *testing.T, s *mctest.Server) map[string]string {
	t.Helper()
	c := mctest.MustDial(t, s.Addr())
	defer c.Close()
	list := func() { require.NoError(t, c.Send([]byte("lru_crawler metadump all\r\n"))) }
	list()
	items := map[string]string{}
	for {
		line, err := c.Line()
		require.NoError(t, err)
		if strings.HasPrefix(line, "END") {
			break
		}
		if strings.HasPrefix(line, "BUSY") { // a sweep is listing the items
			list()
			continue
		}
		parts := dumpedItem.FindStringSubmatch(line)
		require.NotNil(t, parts, "%q", line)
		key, err := url.QueryUnescape(parts[1])
		require.NoError(t, err)
		items[key] = "cas " + parts[2]
	}
	for key := range items {
		if strings.HasPrefix(key, marker.Prefix) && key != marker.SweptKey && key != marker.RunningKey {
			items[key] += ", " + c.MustDo(t, "mg "+base64.StdEncoding.EncodeToString([]byte(key))+" b v\r\n")
		}
	}
	return items
}

// isTimeOfDay reports whether number is a time near today, in any unit from seconds to nanoseconds since 1970.
func isTimeOfDay(number string) bool {
	n, err := strconv.ParseFloat(number, 64)
	now := float64(time.Now().Unix())
	for _, unit := range []float64{1, 1e3, 1e6, 1e9} {
		if days := (n/unit - now) / (24 * 3600); err == nil && -2 < days && days < 2 {
			return true
		}
	}
	return false
}

// A flush_all removes the marks of all servers. A delayed one takes effect at one of the servers' seconds, and what
// they store in that second is lost.
func TestAFlushLeavesAFleetReadable(t *testing.T) {
	delayed := "flush_all 2\r\n" // the servers need it before a tick, and the second after that tick is whole
	for name, flush := range map[string]func(t *testing.T, servers []*mctest.Server, m *mwtest.MW){
		"delayed, through a middleware": func(t *testing.T, _ []*mctest.Server, m *mwtest.MW) {
			require.Equal(t, "OK\r\n", m.Dial(t).MustDo(t, delayed))
		},
		"delayed, on the servers themselves": func(t *testing.T, servers []*mctest.Server, _ *mwtest.MW) {
			flushEach(t, servers, delayed)
		},
		"immediate, on the servers themselves": func(t *testing.T, servers []*mctest.Server, _ *mwtest.MW) {
			flushEach(t, servers, "flush_all\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			servers := mctest.StartNewMemcacheds(t, 3)
			var log mctest.Output
			o := liveOptions()
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			fleet := fleetOf(t, 2, o, false, servers)
			const lapsed = "no server is read"
			// On a busy machine a middleware may be too late to look at the marks, and reads nothing for a moment.
			// Without that the flush does not show.
			for try := 1; ; try++ {
				insist(t, fleet[0].Addr(), []string{"old"}, "old")
				before := strings.Count(log.String(), lapsed)
				flush(t, servers, fleet[1])
				for _, s := range servers {
					require.Eventually(t, func() bool { _, has := s.Get("old"); return !has }, mctest.Patience,
						mctest.Tick)
				}
				for _, s := range servers {
					require.Eventually(t, func() bool { return holdsMarks(t, s) }, mctest.Patience, mctest.Tick)
				}
				insist(t, fleet[0].Addr(), []string{"new"}, "new")
				if strings.Count(log.String(), lapsed) == before {
					break
				}
				require.Less(t, try, 5, log.String())
				for _, m := range fleet {
					m.AwaitUp(t)
				}
			}
			for _, m := range fleet {
				require.Equal(t, "VALUE new 0 3\r\nnew\r\nEND\r\n", m.Dial(t).MustDo(t, "get new\r\n"))
			}
		})
	}
}

// flushEach sends flush, a flush_all, to each of servers.
func flushEach(t *testing.T, servers []*mctest.Server, flush string) {
	t.Helper()
	for _, s := range servers {
		c := mctest.MustDial(t, s.Addr())
		require.Equal(t, "OK\r\n", c.MustDo(t, flush))
		c.Close()
	}
}

// holdsMarks reports whether s holds marks, and keeps what it is told to store.
func holdsMarks(t *testing.T, s *mctest.Server) bool {
	t.Helper()
	c := mctest.MustDial(t, s.Addr())
	defer c.Close()
	return c.MustDo(t, fmt.Sprintf("mg %s b\r\n", link.Key(marker.MarksKey).Text)) == "HD\r\n"
}
