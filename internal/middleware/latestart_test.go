package middleware_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

func TestAMiddlewareThatReachesServersOnlyAfterItsStartJoinsTheChangeUnderWay(t *testing.T) {
	listOf := func(replicas int) func(t *testing.T) (before, after middleware.Options) {
		return func(t *testing.T) (before, after middleware.Options) {
			servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 4)...)
			before = middleware.Options{
				Servers: servers[:3:3], Placement: route.Options{Replicas: replicas},
				Listen: []string{"127.0.0.1:0"}, ChangeStep: time.Hour,
			}
			after = before
			after.Servers = servers[1:]
			return before, after
		}
	}
	for name, options := range map[string]func(t *testing.T) (before, after middleware.Options){
		"servers with one copy":   listOf(1),
		"servers with two copies": listOf(2),
		"routes": func(t *testing.T) (before, after middleware.Options) {
			before = severalPools(t, 1)
			return before, routed(before, "a", "2-", "b", "3-", "c")
		},
	} {
		for phases := range 2 {
			t.Run(fmt.Sprintf("%s, phase %d", name, phases+1), func(t *testing.T) {
				t.Parallel()
				before, after := options(t)
				first := mwtest.Start(t, before)
				require.NoError(t, first.Apply(t.Context(), after))
				for range phases {
					first.EndPhase()
				}
				late, open := startCutOff(t, after)
				open()
				<-late.Ready()
				require.Equal(t, first.Phase(), late.Phase())
				require.Eventually(t, func() bool {
					return !slices.ContainsFunc(late.Stats().Snapshot().Servers, func(s stats.ServerSnapshot) bool {
						return s.Health.State != "up"
					})
				}, mctest.Patience, mctest.Tick)
				load := startTraffic(t, first, late)
				rounds(t, load, first, late)
				load.stop()
				require.Zero(t, load.stale.Load())
			})
		}
	}
}

// startCutOff starts a middleware that reaches no server until open is called, and waits until it has noticed that.
func startCutOff(t *testing.T, o middleware.Options) (m *mwtest.MW, open func()) {
	t.Helper()
	isOpen := new(atomic.Bool)
	cutOff := func(servers []route.Server) []route.Server {
		servers = slices.Clone(servers)
		for i, s := range servers {
			servers[i].Addr = passesOn(t, s.Addr, "", isOpen)
		}
		return servers
	}
	o.Servers, o.Pools = cutOff(o.Servers), slices.Clone(o.Pools)
	for i := range o.Pools {
		o.Pools[i].Servers = cutOff(o.Pools[i].Servers)
	}
	log := &mctest.Output{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	waiting := log.Written("waiting for a server")
	m = mwtest.Begin(t, o)
	<-waiting
	return m, func() { isOpen.Store(true) }
}
