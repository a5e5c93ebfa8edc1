package behaviour_test

import (
	"fmt"
	"log/slog"
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

// awaitUp waits until every server of m is up.
func awaitUp(t *testing.T, m *mwtest.MW) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, s := range m.Stats().Snapshot().Servers {
			if s.Health.State != "up" {
				return false
			}
		}
		return true
	}, mctest.Patience, 5*time.Millisecond, "a server is still down")
}

func TestAStartWithAServerDownServesEveryKeyWithAReachableHolder(t *testing.T) {
	for _, away := range []struct {
		name        string
		leave, back func(s *mctest.Server)
	}{
		{"stopped", (*mctest.Server).Stop, (*mctest.Server).Start},
		{"frozen", (*mctest.Server).Freeze, (*mctest.Server).Thaw},
	} {
		for _, ack := range []replica.Ack{replica.AckAll, replica.AckQuorum, replica.AckAny} {
			t.Run(away.name+", ack "+ack.String(), func(t *testing.T) {
				t.Parallel()
				servers := mctest.StartMemcacheds(t, 3)
				away.leave(servers[1])
				m := mwtest.Start(t, middleware.Options{
					Servers:        mwtest.Servers(servers...),
					RequestOptions: worker.RequestOptions{Ack: ack},
					ServerOptions:  backend.ServerOptions{ConnectTimeout: 500 * time.Millisecond},
				})
				c := m.Dial(t)
				reply := c.MustDo(t, "set k 0 0 1\r\nv\r\n")
				if ack == replica.AckAll {
					require.Regexp(t, namesTheServer, reply)
				} else {
					require.Equal(t, "STORED\r\n", reply)
				}
				for range 6 {
					require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", c.MustDo(t, "get k\r\n"))
				}
				away.back(servers[1])
				awaitUp(t, m)
				require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nw\r\n"))
				for range 6 {
					require.Equal(t, "VALUE k 0 1\r\nw\r\nEND\r\n", c.MustDo(t, "get k\r\n"))
				}
			})
		}
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

func TestAServerThatRefusesToServeIsNotReached(t *testing.T) {
	ca := mctest.NewCA(t)
	for name, server := range map[string]string{
		"it speaks TLS and the middleware does not": mctest.StartMemcachedTLS(t, ca).Addr(),
		"it wants a password and is given none": mctest.StartMemcached(t, "-Y",
			passwordFile(t, "mcmw:secret\n")).Addr(),
	} {
		t.Run(name, func(t *testing.T) {
			m := mwtest.Begin(t, middleware.Options{Servers: mwtest.Named(server)})
			require.True(t, strings.HasPrefix(m.Dial(t).MustDo(t, "get k\r\n"), "SERVER_ERROR server-1: "))
			require.False(t, m.IsReady())
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
