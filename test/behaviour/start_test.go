package behaviour_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// awaitReady waits until m is ready.
func awaitReady(t *testing.T, m *mwtest.MW) {
	t.Helper()
	select {
	case <-m.Ready():
	case <-time.After(mctest.Patience):
		require.FailNow(t, "never ready")
	}
}

func TestReadinessWaitsForTheServersOfItsPolicy(t *testing.T) {
	for _, tc := range []struct {
		name     string
		replicas int // 0: all
		ready    middleware.Ready
		away     []int
		want     bool
	}{
		{"every key has one holder, which is away", 1, middleware.ReadyKeys, []int{1}, false},
		{"every key has another holder", 2, middleware.ReadyKeys, []int{1}, true},
		{"some keys have no other holder", 2, middleware.ReadyKeys, []int{1, 2}, false},
		{"all servers hold all keys", 0, middleware.ReadyKeys, []int{0, 1}, true},
		{"all have to be there", 0, middleware.ReadyAll, []int{1}, false},
		{"one is enough", 1, middleware.ReadyAny, []int{0, 1}, true},
		{"one is enough, and there is none", 0, middleware.ReadyAny, []int{0, 1, 2}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			servers := mctest.StartMemcacheds(t, 3)
			for _, i := range tc.away {
				servers[i].Stop()
			}
			var log mctest.Output
			o := middleware.Options{
				Servers: mwtest.Servers(servers...), Placement: route.Options{Replicas: tc.replicas}, Ready: tc.ready,
				Log: slog.New(slog.NewTextHandler(&log, nil)),
			}
			m := mwtest.Begin(t, o)
			c := m.Dial(t)
			router, err := route.New(o.Servers, o.Placement)
			require.NoError(t, err)
			// Clients are served meanwhile: keys with a reachable holder are answered, others get an error that names a
			// server.
			served := 0
			for _, key := range numbered(60) {
				reachable := false
				for _, holder := range router.Replicas([]byte(key), nil) {
					reachable = reachable || !slices.Contains(tc.away, holder)
				}
				reply := c.MustDo(t, "get "+key+"\r\n")
				if reachable {
					require.Equal(t, "END\r\n", reply)
					served++
				} else {
					require.True(t, strings.HasPrefix(reply, "SERVER_ERROR server-"), reply)
				}
			}
			require.Equal(t, len(tc.away) < 3, served > 0)
			if tc.want {
				awaitReady(t, m)
				return
			}
			require.False(t, m.IsReady())
			for _, i := range tc.away {
				waits := fmt.Sprintf(`msg="waiting for a server" server=server-%d `, i+1)
				require.Eventually(t, func() bool { return strings.Contains(log.String(), waits) }, mctest.Patience,
					mctest.Tick)
				servers[i].Start()
			}
			awaitReady(t, m)
			require.True(t, m.IsReady())
		})
	}
}

func TestInstancesStartAtOneOfTwoServersAfterAnOrderlyEnd(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 2)
	o := liveOptions()
	o.Servers = mwtest.Servers(servers...)
	first := mwtest.Start(t, o)
	set := func(m *mwtest.MW) string { return m.Dial(t).MustDo(t, "set k 0 0 1\r\nv\r\n") }
	require.Equal(t, "STORED\r\n", set(first))
	servers[1].Stop()
	require.Eventually(t, func() bool { return set(first) == "STORED\r\n" }, mctest.Patience, pollPause)
	second := mwtest.Start(t, o) // it can't compare the replicas
	require.NoError(t, first.Stop())
	require.NoError(t, second.Stop())
	third := mwtest.Start(t, o)
	require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", third.Dial(t).MustDo(t, "get k\r\n"))
}

// kill ends the middleware like kill -9.
func (c *child) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Kill())
	_ = c.cmd.Wait()
}

// endings are the ways in which a middleware ends.
var endings = map[string]func(c *child, t *testing.T){
	"SIGTERM": func(c *child, t *testing.T) { c.stop(t) },
	"SIGKILL": func(c *child, t *testing.T) { c.kill(t) },
}

// store sets keys to value at addr, and requires success. It closes its connection, because a stop would wait for it.
func store(t *testing.T, addr string, keys []string, value string) {
	t.Helper()
	c := mctest.MustDial(t, addr)
	defer c.Close()
	for _, key := range keys {
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value)), key)
	}
}

// reads counts the values of keys, each read as often as there are servers.
func reads(t *testing.T, c *mctest.Client, keys []string, times int) map[string]int {
	t.Helper()
	found := map[string]int{}
	for range times {
		for _, key := range keys {
			items, err := mctest.ParseValues(c.MustDo(t, "get "+key+"\r\n"))
			require.NoError(t, err)
			if len(items) == 0 {
				found["miss"]++
			} else {
				found[string(items[0].Value)]++
			}
		}
	}
	return found
}

func TestAfterARestartNoWriteThatAServerMissedIsForgotten(t *testing.T) {
	keys := numbered(100)
	for _, placed := range []struct{ servers, replicas int }{{3, 3}, {2, 2}, {3, 2}, {4, 3}} {
		for how, end := range endings {
			for back, during := range map[string]bool{
				"comes back before the start": true,
				"comes back after the start":  false,
			} {
				t.Run(fmt.Sprintf("%d servers, %d replicas, %s, the server %s", placed.servers, placed.replicas, how,
					back), func(t *testing.T) {
					t.Parallel()
					servers := mctest.StartMemcacheds(t, placed.servers)
					o := middleware.Options{
						Servers:        mwtest.Servers(servers...),
						Placement:      route.Options{Replicas: placed.replicas, Read: route.ReadRoundRobin},
						RequestOptions: worker.RequestOptions{Ack: replica.AckAny},
						ServerOptions:  backend.ServerOptions{FailureLimit: 1},
					}
					m := startChild(t, o)
					store(t, m.addrs[0], keys, "old")
					// The server keeps its items, but is unreachable: no new connections, and none of the old ones.
					servers[1].Freeze()
					m.kill(t)
					o.ConnectTimeout = 200e6
					m = startChild(t, o)
					store(t, m.addrs[0], keys, "new")
					end(m, t)
					if during {
						servers[1].Thaw()
					}
					m = startChild(t, o)
					c := mctest.MustDial(t, m.addrs[0])
					require.Zero(t, reads(t, c, keys, 3)["old"])
					servers[1].Thaw()
					for _, s := range o.Servers {
						awaitState(t, c, s.Name, "up")
					}
					found := reads(t, c, keys, 6)
					require.Zero(t, found["old"], found)
					require.Contains(t, m.log.String(),
						`msg="a server may hold old values, and is flushed" server=server-2 `)
					if placed.servers > 2 {
						require.NotZero(t, found["new"], "what the others hold is served on: %v", found)
					}
				})
			}
		}
	}
}

// awaitState waits until the middleware at c reports a state of a server.
func awaitState(t *testing.T, c *mctest.Client, server, state string) {
	t.Helper()
	require.Eventually(t, func() bool {
		reply, err := c.Do("stats\r\n")
		return err == nil && strings.Contains(reply, "STAT mcmw_server:"+server+":state "+state+"\r\n")
	}, mctest.Patience, pollPause, "%s is never %s", server, state)
}

func TestAfterARestartNoChangeOfTheServersIsForgotten(t *testing.T) {
	keys := numbered(100)
	changes := [][3]int{{3, 4, 3}, {2, 3, 1}}
	if mctest.Long() {
		changes = append(changes, [][3]int{{4, 3, 4}, {1, 2, 1}}...)
	}
	for how, end := range endings {
		for _, lists := range changes {
			for _, replicas := range []int{1, 2, 0} {
				if replicas == 2 && (lists[0] < 2 || lists[2] < 2) {
					continue
				}
				t.Run(fmt.Sprintf("%v servers, %d replicas, %s", lists, replicas, how), func(t *testing.T) {
					t.Parallel()
					servers := mwtest.Servers(mctest.StartMemcacheds(t, 4)...)
					o := middleware.Options{Placement: route.Options{Replicas: replicas}}
					for step, value := range []string{"old", "new", "last"} {
						o.Servers = servers[:lists[step]]
						m := startChild(t, o)
						c := mctest.MustDial(t, m.addrs[0])
						for _, s := range o.Servers {
							awaitState(t, c, s.Name, "up")
						}
						if step == 2 {
							found := reads(t, c, keys, 4)
							require.Zero(t, found["old"], found)
							return
						}
						require.NoError(t, c.Close())
						store(t, m.addrs[0], keys, value)
						end(m, t)
					}
				})
			}
		}
	}
}

func TestAChangeBackAfterARestartReadsNothingThatWasWrittenBeforeTheChange(t *testing.T) {
	keys := numbered(100)
	servers := mwtest.Servers(mctest.StartMemcacheds(t, 2)...)
	before := middleware.Options{
		Listen: []string{"127.0.0.1:0"}, Servers: servers, Placement: route.Options{Replicas: 1},
		Writers: middleware.WritersOne,
	}
	after := before
	after.Servers = slices.Clone(servers)
	after.Servers[1].Weight = 4
	m := mwtest.Start(t, before)
	store(t, m.Addr(), keys, "old")
	require.NoError(t, m.Apply(t.Context(), after))
	store(t, m.Addr(), keys, "new")
	require.NoError(t, m.Stop())
	m = mwtest.Start(t, after)
	require.NoError(t, m.Apply(t.Context(), before))
	found := reads(t, m.Dial(t), keys, 1)
	require.Zero(t, found["old"], found)
	require.NotZero(t, found["new"], "keys that did not move are still served")

	store(t, m.Addr(), keys, "last")
	require.NoError(t, m.Apply(t.Context(), after))
	require.NoError(t, m.Apply(t.Context(), before))
	require.Equal(t, map[string]int{"last": len(keys)}, reads(t, m.Dial(t), keys, 1),
		"within one run it is known which keys were written")
}

func TestTheFirstStartFlushesNothing(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 3)
	keys := numbered(30)
	for _, s := range servers {
		store(t, s.Addr(), keys, "warm")
	}
	servers[2].Freeze()
	o := middleware.Options{
		Servers:       mwtest.Servers(servers...),
		ServerOptions: backend.ServerOptions{ConnectTimeout: 200e6},
	}
	m := startChild(t, o)
	c := mctest.MustDial(t, m.addrs[0])
	require.Equal(t, map[string]int{"warm": 90}, reads(t, c, keys, 3))
	servers[2].Thaw()
	awaitState(t, c, "server-3", "up")
	require.NoError(t, c.Close())
	m.stop(t)
	m = startChild(t, o)
	require.Equal(t, map[string]int{"warm": 90}, reads(t, mctest.MustDial(t, m.addrs[0]), keys, 3),
		"a second start flushes nothing either")
}

func TestAClientsFlushDoesNotRemoveTheRecordsForARestart(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 3)
	keys := numbered(50)
	o := middleware.Options{
		Servers:        mwtest.Servers(servers...),
		RequestOptions: worker.RequestOptions{Ack: replica.AckAny},
		ServerOptions:  backend.ServerOptions{FailureLimit: 1, ConnectTimeout: 200e6},
	}
	m := startChild(t, o)
	store(t, m.addrs[0], keys, "old")
	servers[1].Freeze()
	m.kill(t)
	m = startChild(t, o)
	store(t, m.addrs[0], keys, "new")
	mctest.MustDial(t, m.addrs[0]).MustDo(t, "flush_all\r\n")
	m.kill(t)
	servers[1].Thaw()
	m = startChild(t, o)
	c := mctest.MustDial(t, m.addrs[0])
	require.Equal(t, map[string]int{"miss": 300}, reads(t, c, keys, 6))
}

func TestARestartDetectsAChangeOfTheServersUnderLoad(t *testing.T) {
	keys := numbered(100)
	for _, tc := range []struct{ from, to, replicas int }{{3, 4, 1}, {3, 4, 2}, {1, 2, 1}} {
		servers := mwtest.Servers(mctest.StartMemcacheds(t, tc.to)...)
		o := middleware.Options{Servers: servers[:tc.from], Placement: route.Options{Replicas: tc.replicas}}
		m := startChild(t, o)
		store(t, m.addrs[0], keys, "old")
		m.kill(t)
		listening := o
		listening.Listen = []string{"127.0.0.1:0"}
		changing := mwtest.Start(t, listening)
		listening.Servers = servers
		require.NoError(t, changing.Apply(t.Context(), listening))
		store(t, changing.Addr(), keys, "new")
		require.NoError(t, changing.Stop())
		m = startChild(t, o)
		c := mctest.MustDial(t, m.addrs[0])
		for _, s := range o.Servers {
			awaitState(t, c, s.Name, "up")
		}
		found := reads(t, c, keys, 2)
		require.Zero(t, found["old"], found)
		require.NotZero(t, found["new"], "keys that did not move are still served")
	}
}

func TestDifferencesAfterAKillDuringWritesAreSweptUp(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 3)
	keys := numbered(400)
	o := middleware.Options{Servers: mwtest.Servers(servers...)}
	most := 0
	for round := range 20 {
		m := startChild(t, o)
		awaitStat(t, mctest.MustDial(t, m.addrs[0]), "mcmw_sweep_running", 0)
		lines, _ := disagreeing(t, servers, keys)
		require.Empty(t, lines, "after round %d", round)
		var ended sync.WaitGroup
		var written atomic.Int64
		for n := range 16 {
			c := mctest.MustDial(t, m.addrs[0])
			ended.Go(func() {
				for i := n; ; i += 16 {
					if _, err := c.Do(fmt.Sprintf("set %s %d 0 12\r\n%04d-%02d-%04d\r\n", keys[i*7%len(keys)], n, round,
						n, i%10000)); err != nil {
						return
					}
					written.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool { return written.Load() > 500 }, mctest.Patience, mctest.Tick)
		m.kill(t)
		ended.Wait()
		lines, _ = disagreeing(t, servers, keys)
		most = max(most, len(lines))
	}
	require.NotZero(t, most, "no kill left a difference: the test shows nothing")
	m := startChild(t, o)
	awaitStat(t, mctest.MustDial(t, m.addrs[0]), "mcmw_sweep_running", 0)
	lines, _ := disagreeing(t, servers, keys)
	require.Empty(t, lines)
	m.stop(t)
	m = startChild(t, o)
	c := mctest.MustDial(t, m.addrs[0])
	require.Zero(t, stat(t, c, "mcmw_sweep_keys"), "after an orderly end there is nothing to compare")
}

func TestAStartComparesTheReplicasIfTheLastEndLeftAWriteInFlight(t *testing.T) {
	over := make(chan struct{})
	var written atomic.Bool // from then on the server neither answers nor closes connections
	silent := mctest.StartScript(t, func(p *mctest.Peer) {
		for {
			line, ok := p.Line()
			if !ok {
				return
			}
			if strings.HasPrefix(line, "set ") {
				written.Store(true)
			}
			if written.Load() || !p.Known(line) {
				<-over
				return
			}
		}
	})
	defer close(over)
	server := mctest.StartMemcached(t)
	m := mwtest.Start(t, middleware.Options{
		Workers: 1, Servers: mwtest.Named(server.Addr(), silent.Addr()),
		ServerOptions:  backend.ServerOptions{ConnectTimeout: time.Second},
		RequestOptions: worker.RequestOptions{Ack: replica.AckAny, Timeout: time.Second},
	})
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 1\r\nx\r\n"))
	require.NoError(t, m.Stop())
	c := mctest.MustDial(t, server.Addr())
	require.Contains(t, c.MustDo(t, "mg "+base64.StdEncoding.EncodeToString([]byte(marker.RunningKey))+" b v\r\n"),
		"VA ")
}
