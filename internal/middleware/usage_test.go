package middleware_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// inBatches sends n requests, each made by text, and returns the replies.
func inBatches(t *testing.T, c *mctest.Client, n int, text func(i int) string) string {
	t.Helper()
	var replies strings.Builder
	for from := 0; from < n; from += 100 {
		var batch strings.Builder
		for i := from; i < min(from+100, n); i++ {
			batch.WriteString(text(i))
		}
		batch.WriteString("mn\r\n")
		require.NoError(t, c.Send([]byte(batch.String())))
		for {
			reply, err := c.Reply()
			require.NoError(t, err)
			if reply == "MN\r\n" {
				break
			}
			replies.WriteString(reply)
		}
	}
	return replies.String()
}

// near asserts that an estimate is within five standard errors of the true count.
func near(t *testing.T, want, got uint64, what string) {
	t.Helper()
	off := float64(want) - float64(got)
	assert.LessOrEqual(t, off*off, 25*hotkeys.SampleEvery*float64(want), "%s: %d, want about %d", what, got, want)
}

func TestTheUseOfTheCacheIsKnownByRouteUserAndPrefix(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 2)
	file := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(file, []byte("anna:secret\nbert:secret session:\n"), 0o600))
	pool := func(name string, server *mctest.Server) middleware.PoolOptions {
		list := []route.Server{{Name: name + "-server", Addr: server.Addr()}}
		return middleware.PoolOptions{Pool: route.Pool{Name: name, Servers: list}}
	}
	o := middleware.Options{
		Pools:    []middleware.PoolOptions{pool("main", servers[0]), pool("sessions", servers[1])},
		Routes:   route.Routes{Default: "main", Prefixes: []route.Prefix{{Prefix: "session:", Pool: "sessions"}}},
		Prefixes: ":", Workers: 2,
	}
	o.Security.AuthFile = file
	m := mwtest.Start(t, o)
	anna, bert := m.Dial(t), m.Dial(t)
	require.NoError(t, anna.Authenticate("anna", "secret"))
	require.NoError(t, bert.Authenticate("bert", "secret"))
	const n = 6400
	value := strings.Repeat("v", 1000)
	inBatches(t, bert, n, func(i int) string { return fmt.Sprintf("set session:%d 0 0 1000\r\n%s\r\n", i%50, value) })
	inBatches(t, bert, n, func(i int) string { return fmt.Sprintf("get session:%d\r\n", i%100) })
	inBatches(t, anna, n, func(i int) string { return fmt.Sprintf("mg cart:%d v\r\n", i%100) })
	inBatches(t, anna, n/4, func(int) string { return "get session:1 other cart:1 session:2\r\n" })

	m.Settled(t)
	s := m.Stats().Usage().Snapshot()
	session, others := s.Routes["session:"], s.Routes[stats.DefaultRoute]
	near(t, 2*n+n/2, session.Requests, "requests of the route")
	near(t, n, session.Hits, "hits: half of bert's gets, and all of anna's")
	near(t, n/2, session.Misses, "misses of the route")
	near(t, n+n/2, others.Requests, "requests of the other route")
	assert.Zero(t, others.Hits)
	near(t, n+n/2, others.Misses, "misses of the other route")
	assert.InEpsilon(t, (n+n)*1030, session.Bytes, 0.3)
	assert.Equal(t, session.Requests, session.Times.Count())
	assert.NotZero(t, session.Times.Mean())
	near(t, 2*n, s.Users["bert"].Requests, "bert's requests")
	near(t, 2*n, s.Users["anna"].Requests, "anna's requests")

	p := m.Stats().Usage().Recent(10, stats.Now())
	require.Len(t, p.Prefixes, 2)
	require.Equal(t, []string{"session:", "cart:"}, []string{p.Prefixes[0].Name, p.Prefixes[1].Name})
	assert.Equal(t, session.Use, p.Prefixes[0].Use, "this prefix is the route")
	near(t, n+n/4, p.Prefixes[1].Misses, "misses of the prefix")
	assert.ElementsMatch(t, p.Routes, []stats.NamedUse{
		{Name: "session:", Use: session.Use}, {Name: stats.DefaultRoute, Use: others.Use},
	}, "nothing has been halved yet")
	assert.ElementsMatch(t, p.Users, []stats.NamedUse{
		{Name: "anna", Use: s.Users["anna"].Use}, {Name: "bert", Use: s.Users["bert"].Use},
	})
	near(t, 4*n, p.All.Requests, "all requests")
	require.NoError(t, m.Stop())
}

func TestItemsThatAreGoneSoonAreCountedUnlessAClientRemovedThem(t *testing.T) {
	server := mctest.StartMemcached(t)
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(server), Prefixes: ":", Workers: 1})
	c := m.Dial(t)
	evicted := func() uint64 { return m.Stats().Usage().Recent(1, stats.Now()).All.EvictedSoon }
	const n = 6400
	store := func(exptime int) {
		inBatches(t, c, n, func(i int) string { return fmt.Sprintf("set k:%d 0 %d 1\r\nx\r\n", i, exptime) })
	}
	read := func() { inBatches(t, c, n, func(i int) string { return fmt.Sprintf("get k:%d\r\n", i) }) }
	lose := func() { require.Equal(t, "OK\r\n", mctest.MustDial(t, server.Addr()).MustDo(t, "flush_all\r\n")) }

	read()
	store(0)
	read()
	inBatches(t, c, n, func(i int) string { return fmt.Sprintf("delete k:%d\r\n", i) })
	read()
	store(0)
	inBatches(t, c, n, func(i int) string { return fmt.Sprintf("touch k:%d -1\r\n", i) })
	read()
	store(1)
	lose() // they may have expired
	read()
	store(0)
	require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
	read()
	assert.Zero(t, evicted(), "no item was evicted")

	store(0)
	lose()
	read()
	read() // each counts once
	lost := evicted()
	near(t, n, lost, "evicted soon")

	for round := range 8 { // in each about three others count: one key in 64 is tracked, one multi-get in 32 looked at
		store(100)
		lose()
		inBatches(t, c, n/10, func(i int) string {
			var keys strings.Builder
			for k := range 10 {
				fmt.Fprintf(&keys, " k:%d", (10*(i+round)+k)%n)
			}
			return "get" + keys.String() + "\r\n"
		})
	}
	assert.NotZero(t, evicted()-lost, "some multi-gets are looked at")
	require.NoError(t, m.Stop())
}
