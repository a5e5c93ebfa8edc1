package middleware_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// lookedUp returns n real servers as if a lookup had found them, and options for the first of them.
func lookedUp(t *testing.T, n, first int) ([]route.Server, middleware.Options) {
	servers := mwtest.Servers(mctest.StartNewMemcacheds(t, n)...)
	for i := range servers {
		servers[i].Weight, servers[i].Entry = 1, "dns+cache:11211"
	}
	return servers, spread(servers[:first:first])
}

// recorded waits until each server has a record: a start waits for most of them.
func recorded(t *testing.T, o middleware.Options) {
	t.Helper()
	o.ConnectTimeout = mctest.Patience
	for _, s := range o.Servers {
		s.Entry = "dns+cache:11211"
		o.Servers = []route.Server{s}
		require.Eventually(t, func() bool {
			found, _ := middleware.InForce(t.Context(), o)
			return len(found) > 0
		}, mctest.Patience, mctest.Tick)
	}
}

// inForce returns the list in force for a middleware whose lookups find servers, by the numbers in the servers' names.
func inForce(t *testing.T, o middleware.Options, servers []route.Server) (numbers string) {
	t.Helper()
	o.Servers, o.ConnectTimeout = servers, mctest.Patience
	found, unread := middleware.InForce(t.Context(), o)
	require.False(t, unread)
	for _, s := range found {
		assert.Equal(t, "dns+cache:11211", s.Entry)
		assert.NotEmpty(t, s.Addr)
		numbers += strings.TrimPrefix(s.Name, "server-")
	}
	return numbers
}

func TestAMiddlewareWhoseLookupsLackAServerAtItsStartJoinsThePlacementInForceAndReadsNoOldValues(t *testing.T) {
	for name, joins := range map[string]bool{"it joins": true, "it takes what it finds, as control": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, o := lookedUp(t, 3, 3)
			one := mwtest.Start(t, o)
			alone := startTraffic(t, one)
			alone.more()
			alone.stop()

			other := o
			other.Servers = servers[:2:2] // the third is not found
			if joins {
				other.ConnectTimeout = mctest.Patience
				other.Servers, _ = middleware.InForce(t.Context(), other)
			}
			late := mwtest.Start(t, other)
			load := startTraffic(t, one, late)
			for late.EndPhase() {
				load.more()
			}
			load.more()
			load.stop()
			if joins {
				assert.Zero(t, load.stale.Load())
				assert.Equal(t, one.Stats().Snapshot().Placement, late.Stats().Snapshot().Placement)
			} else {
				assert.NotZero(t, load.stale.Load())
			}
		})
	}
}

func TestTheListInForceDuringAChangeIsTheOneToWhichItLeads(t *testing.T) {
	servers, o := lookedUp(t, 4, 3)
	m := mwtest.Start(t, o)
	recorded(t, o)
	require.Equal(t, "123", inForce(t, o, servers[:1]))
	// Apply waits until most servers have the records.
	during := func(to []route.Server, want string) {
		next := o
		next.Servers = to
		require.NoError(t, m.Apply(context.Background(), next))
		for more := true; more; more = m.EndPhase() {
			require.Equal(t, want, inForce(t, o, servers), m.Phase())
		}
	}
	during(servers, "1234")
	during(servers[:2:2], "12")
}

func TestTheListInForceHasOnlyServersThatLookupsFoundAndIsUnknownWhileNoneAnswers(t *testing.T) {
	servers, o := lookedUp(t, 3, 3)
	servers[2].Entry = ""
	mwtest.Start(t, o)
	recorded(t, o)
	require.Equal(t, "12", inForce(t, o, servers[:1]))
	none := o
	none.Servers = []route.Server{{Name: "server-1", Addr: "127.0.0.1:1", Entry: "dns+cache:11211"}}
	_, unread := middleware.InForce(t.Context(), none)
	require.True(t, unread)
	none.Servers[0].Entry = ""
	_, unread = middleware.InForce(t.Context(), none)
	require.False(t, unread, "a server that the list names needs no record")
}

func TestAMiddlewareFollowsAnotherThatChangesTheListOfOneOfItsPools(t *testing.T) {
	servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 4)...)
	of := func(b ...route.Server) middleware.Options {
		return middleware.Options{
			ChangeStep: time.Hour,
			Pools:      []middleware.PoolOptions{poolOf("a", servers[:1], 1), poolOf("b", b, 1)},
			Routes:     route.Routes{Default: "a", Prefixes: []route.Prefix{{Prefix: "b", Pool: "b"}}},
		}
	}
	one, other := mwtest.Start(t, of(servers[1:]...)), mwtest.Start(t, of(servers[1:]...))
	require.Empty(t, other.Elsewhere(t.Context()))
	require.NoError(t, one.Apply(context.Background(), of(servers[1:3]...)))
	var names []string
	for _, s := range other.Elsewhere(t.Context()) {
		names = append(names, s.Pool+"/"+s.Name)
	}
	require.Equal(t, []string{"b/server-2", "b/server-3"}, names)
}

func TestEachPoolHasAListInForce(t *testing.T) {
	servers, _ := lookedUp(t, 4, 4)
	o := middleware.Options{
		Pools:  []middleware.PoolOptions{poolOf("a", servers[:2], 1), poolOf("b", servers[2:], 1)},
		Routes: route.Routes{Default: "a", Prefixes: []route.Prefix{{Prefix: "b", Pool: "b"}}},
	}
	mwtest.Start(t, o)
	recorded(t, middleware.Options{Servers: servers, Placement: route.Options{Replicas: 1}})
	o.Pools = []middleware.PoolOptions{poolOf("a", servers[1:2], 1), poolOf("b", servers[2:3], 1)}
	found, unread := middleware.InForce(t.Context(), o)
	require.False(t, unread)
	for i := range servers {
		servers[i].Pool = []string{"a", "a", "b", "b"}[i]
	}
	require.Equal(t, servers, found)
}
