package behaviour_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// guttered returns options with a pool "own" of servers, which has the gutter "spare".
func guttered(w middleware.Writers, own []route.Server, spare ...*mctest.Server) middleware.Options {
	pool := middleware.PoolOptions{
		Pool: route.Pool{
			Name: "own", Servers: own,
			Options: route.Options{Replicas: 1, Gutter: "spare", GutterTTL: 60},
		}, Writers: w, Ack: replica.AckLive,
		ServerOptions: backend.ServerOptions{FailureLimit: 1, ConnectTimeout: 500 * time.Millisecond},
	}
	gutter := pooled("spare", route.Options{Replicas: 1}, spare...)
	gutter.Writers, gutter.Ack, gutter.ServerOptions = w, replica.AckLive, pool.ServerOptions
	o := middleware.Options{Pools: []middleware.PoolOptions{pool, gutter}, Routes: route.Routes{Default: "own"}}
	o.Timeout = 2 * time.Second
	return o
}

// proxied starts a proxy for each server, and returns the proxies with the servers at the addresses of the proxies.
func proxied(t *testing.T, servers []*mctest.Server) (proxies []*mctest.Proxy, named []route.Server) {
	t.Helper()
	var addrs []string
	for _, s := range servers {
		p := mctest.StartProxy(t, s.Addr())
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	return proxies, mwtest.Named(addrs...)
}

// keyOn returns a key that only servers[i] holds, with the value "old".
func keyOn(t *testing.T, c *mctest.Client, servers []*mctest.Server, i int) string {
	t.Helper()
	for n := range 1000 {
		key := fmt.Sprint("key-", n)
		eventually(t, c, "set "+key+" 7 0 3\r\nold\r\n", "STORED\r\n")
		if _, there := servers[i].Get(key); there {
			return key
		}
	}
	t.Fatal("no key is on the server")
	return ""
}

// eventually repeats a command until it gets the wanted answer.
func eventually(t *testing.T, c *mctest.Client, command, answer string) {
	t.Helper()
	last := ""
	if !assert.Eventually(t, func() bool {
		last = c.MustDo(t, command)
		return last == answer
	}, mctest.Patience, pollPause, "%q", command) {
		t.Fatalf("%q is answered with %q, not %q", command, last, answer)
	}
}

func TestAGutterReplacesAServerAndItsValuesAreNotReadLater(t *testing.T) {
	servers, spare := mctest.StartMemcacheds(t, 3), mctest.StartMemcached(t)
	proxies, own := proxied(t, servers)
	m := mwtest.Start(t, guttered(middleware.WritersOne, own, spare))
	c := m.Dial(t)
	key := keyOn(t, c, servers, 1)
	set := func(value string) string { return fmt.Sprintf("set %s 7 0 %d\r\n%s\r\n", key, len(value), value) }
	get := fmt.Sprintf("get %s\r\n", key)
	holds := func(value string) string {
		return fmt.Sprintf("VALUE %s 7 %d\r\n%s\r\nEND\r\n", key, len(value), value)
	}
	require.Equal(t, holds("old"), c.MustDo(t, get))

	proxies[1].Inject(unreachable)
	eventually(t, c, set("new"), "STORED\r\n")
	require.Equal(t, holds("new"), c.MustDo(t, get))
	reply := mctest.MustDial(t, spare.Addr()).MustDo(t, fmt.Sprintf("mg %s t\r\n", key))
	var left int
	_, err := fmt.Sscanf(reply, "HD t%d", &left)
	require.NoError(t, err, reply)
	require.True(t, 0 < left && left <= 60, "it lives for %d s", left)
	require.Equal(t, "NOT_STORED\r\n", c.MustDo(t, fmt.Sprintf("add %s 0 0 1\r\nx\r\n", key)))
	require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("append %s 0 0 1\r\n!\r\n", key)))
	require.Equal(t, holds("new!"), c.MustDo(t, get))
	require.Equal(t, "DELETED\r\n", c.MustDo(t, fmt.Sprintf("delete %s\r\n", key)))
	require.Equal(t, "STORED\r\n", c.MustDo(t, set("1")))
	require.Equal(t, "2\r\n", c.MustDo(t, fmt.Sprintf("incr %s 1\r\n", key)))
	value, _ := servers[1].Get(key)
	require.Equal(t, "old", value, "the server was not reached")
	gutter := func() stats.GutterSnapshot { return m.Stats().Snapshot().Gutters[0] }
	require.Equal(t, "own to spare", gutter().Pool+" to "+gutter().Gutter)
	require.Equal(t, 1, gutter().Away)
	// A round is counted when it ends, after the answers.
	require.Eventually(t, func() bool { return gutter().Writes >= 6 && gutter().Reads >= 2 }, mctest.Patience,
		pollPause)

	proxies[1].Inject(mctest.Fault{})
	awaitState(t, c, "server-2", "up")
	require.Equal(t, "END\r\n", c.MustDo(t, get), "neither the old value nor the gutter's")
	value, _ = spare.Get(key)
	require.Equal(t, "2", value)
	require.Equal(t, "STORED\r\n", c.MustDo(t, set("newer")))
	_, there := spare.Get(key)
	require.False(t, there, "a write deletes the key in the gutter")

	proxies[1].Inject(unreachable)
	eventually(t, c, get, "END\r\n") // the key's server fails, and the gutter does not have the key
	require.Equal(t, "STORED\r\n", c.MustDo(t, set("newest")))
	require.Equal(t, holds("newest"), c.MustDo(t, get))
}

func TestARestartForgetsNothingOfAGutter(t *testing.T) {
	servers, spare := mctest.StartMemcacheds(t, 3), mctest.StartMemcached(t)
	proxies, own := proxied(t, servers)
	o := guttered(middleware.WritersOne, own, spare)
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	key := keyOn(t, c, servers, 2)
	proxies[2].Inject(unreachable)
	eventually(t, c, fmt.Sprintf("set %s 0 0 3\r\nnew\r\n", key), "STORED\r\n")
	require.NoError(t, m.Stop())
	proxies[2].Inject(mctest.Fault{})
	m = mwtest.Start(t, o)
	c = m.Dial(t)
	awaitState(t, c, "server-3", "up")
	require.Equal(t, "END\r\n", c.MustDo(t, fmt.Sprintf("get %s\r\n", key)), "the server has missed a write")
	require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %s 0 0 5\r\nnewer\r\n", key)))
	_, there := spare.Get(key)
	require.False(t, there, "the gutter may still hold keys")
}

func TestAGutterThatIsDownStopsWritesOnlyUntilAllMiddlewaresKnow(t *testing.T) {
	servers, spare := mctest.StartMemcacheds(t, 3), mctest.StartMemcacheds(t, 3)
	var fleet []*mwtest.MW
	for range 2 {
		fleet = append(fleet, mwtest.Start(t,
			guttered(middleware.WritersSeveral, mwtest.Servers(servers...), spare...)))
	}
	spare[0].Stop()
	for _, m := range fleet {
		c := m.Dial(t)
		for n := range 8 { // after a start the gutter may hold any key
			eventually(t, c, fmt.Sprintf("set key-%d 0 0 1\r\nx\r\n", n), "STORED\r\n")
		}
	}
}
