package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/plan"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// pooled returns a pool of servers that are named after it.
func pooled(name string, o route.Options, servers ...*mctest.Server) middleware.PoolOptions {
	p := middleware.PoolOptions{Pool: route.Pool{Name: name, Servers: mwtest.Servers(servers...), Options: o}}
	for i := range p.Servers {
		p.Servers[i].Name = name + "-" + p.Servers[i].Name
	}
	return p
}

// ofAnyPool reports whether memcached's reply to the step depends only on the items, and not on their cas, which each
// server counts, or on the server itself, or on the length of the key as the server knows it: a key without its prefix
// leaves more room for the value.
func ofAnyPool(s step) bool {
	w := words(strings.TrimRight(s.line, "\r\n"))
	const limit, item = 1 << 20, 400 // the servers' largest item, and more than an item has besides its value, bytes
	if len(w) == 0 || len(s.data) < limit && len(s.data) > limit-item {
		return false
	}
	switch w[0] {
	case "get", "gat", "set", "add", "replace", "append", "prepend", "incr", "decr", "delete", "touch", "mn":
		return true
	case "flush_all":
		return len(w) == 1
	case "mg", "ms", "md", "ma":
		return !slices.ContainsFunc(w[min(2, len(w)):],
			func(flag string) bool { return strings.ContainsRune("cCEthls", rune(flag[0])) })
	}
	return false
}

// stepsOfAnyPool returns the steps that ofAnyPool accepts. Barriers stay in place.
func stepsOfAnyPool(steps []step) (kept []step) {
	barrier := false
	for _, s := range steps {
		barrier = barrier || s.barrier
		if ofAnyPool(s) {
			s.barrier, barrier = barrier, false
			kept = append(kept, s)
		}
	}
	return kept
}

func TestRepliesForKeysOfSeveralPoolsEqualThoseOfOneMemcached(t *testing.T) {
	seed := mctest.Seed(t)
	for _, s := range []struct {
		pool  middleware.WorkerPool
		depth int
	}{{middleware.WorkersShared, 32}, {middleware.WorkersShared, 1}, {middleware.WorkersPerServer, 32}} {
		t.Run(fmt.Sprintf("%v, depth %d", s.pool, s.depth), func(t *testing.T) {
			t.Parallel()
			one, two := mctest.StartNewMemcacheds(t, 2, referenceArgs...),
				mctest.StartNewMemcacheds(t, 3, referenceArgs...)
			old := pooled("old", route.Options{}, mctest.StartNewMemcacheds(t, 2, referenceArgs...)...)
			old.Writers = middleware.WritersOne
			bare := pooled("bare", route.Options{Replicas: 1}, mctest.StartNewMemcacheds(t, 2, referenceArgs...)...)
			m := mwtest.Start(t, middleware.Options{
				WorkerPool: s.pool, RequestOptions: worker.RequestOptions{Depth: s.depth, Sharded: true},
				Pools: []middleware.PoolOptions{
					pooled("one", route.Options{Replicas: 1}, one...),
					pooled("two", route.Options{Replicas: 2}, two...), old, bare,
				},
				Routes: route.Routes{Default: "one", Prefixes: []route.Prefix{
					{Prefix: "k", Pool: "two", Strip: true},
					{Prefix: "key:", Pool: "one"},
					{Prefix: "n", Pool: "bare", Strip: true},
					{Prefix: "n2", Pool: "old"},
					{Prefix: "a", Pool: "old"},
				}},
			})
			p := &pair{
				direct: &target{addr: mctest.StartNewMemcached(t, referenceArgs...).Addr(), patience: patience},
				tcp:    &target{addr: m.Addr(), patience: patience},
			}
			compared, scripts := 0, 30
			if mctest.Long() {
				scripts = 600
			}
			for n := range scripts {
				steps := stepsOfAnyPool(newGenerator(seed, n, false).script(2 * scriptLength))
				diff, err := p.compare(steps, whole, uint64(n))
				require.NoError(t, err)
				if diff != nil {
					minimal, diff, d := p.minimise(steps, diff, whole, uint64(n))
					require.Fail(t, report(minimal, d, diff))
				}
				compared += len(steps)
			}
			t.Logf("%d commands compared", compared)
		})
	}
}

func TestServersStoreAKeyWithoutTheStrippedPrefixAndClientsSeeItWithThePrefix(t *testing.T) {
	a, b := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcacheds(t, 2)
	o := middleware.Options{
		Listen: []string{"127.0.0.1:0"},
		Pools: []middleware.PoolOptions{
			pooled("a", route.Options{}, a...),
			pooled("b", route.Options{Replicas: 1}, b...),
		},
		Routes:  route.Routes{Prefixes: []route.Prefix{{Prefix: "a:", Pool: "a", Strip: true}}, Default: "b"},
		HotKeys: hotkeys.Serve,
	}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	for _, s := range []struct{ request, reply string }{
		{"set a:k 0 0 1\r\nx\r\n", "STORED\r\n"},
		{"set k 0 0 1\r\ny\r\n", "STORED\r\n"},
		{"get a:k\r\n", "VALUE a:k 0 1\r\nx\r\nEND\r\n"},
		{"get k a:k a:none\r\n", "VALUE k 0 1\r\ny\r\nVALUE a:k 0 1\r\nx\r\nEND\r\n"},
		{"mg a:k k v\r\n", "VA 1 ka:k\r\nx\r\n"},
		{"mg YTpr k b v\r\n", "VA 1 ka:k\r\nx\r\n"},
		{"ms YTpi 1 b k\r\nz\r\n", "HD kYTpi b\r\n"},
		{"ms a:m 1 k\r\n1\r\n", "HD ka:m\r\n"},
		{"incr a:m 4\r\n", "5\r\n"},
		{"gat 0 a:m k\r\n", "VALUE a:m 0 1\r\n5\r\nVALUE k 0 1\r\ny\r\nEND\r\n"},
		{"md a:none k\r\n", "NF ka:none\r\n"},
		{"get a:\r\n", "CLIENT_ERROR bad command line format\r\n"},
		{"get k a:\r\n", "CLIENT_ERROR bad command line format\r\n"},
		{"set a: 0 0 1\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n"},
		{"delete k\r\n", "DELETED\r\n"},
		{"get a:k k\r\n", "VALUE a:k 0 1\r\nx\r\nEND\r\n"},
	} {
		require.Equal(t, s.reply, c.MustDo(t, s.request), "%q", s.request)
	}
	require.Regexp(t, "^ME a:k ", c.MustDo(t, "me a:k\r\n"))
	for _, server := range a {
		for key, want := range map[string]string{"k": "x", "m": "5"} {
			value, there := server.Get(key)
			require.True(t, there, key)
			require.Equal(t, want, value)
		}
		_, there := server.Get("a:k")
		require.False(t, there)
	}

	// Two keys with the same name on the servers of two pools, in one round.
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\ny\r\n"))
	require.NoError(t, c.Send([]byte("get a:k\r\nget k\r\nget a:k\r\n")))
	for _, reply := range []string{
		"VALUE a:k 0 1\r\nx\r\nEND\r\n", "VALUE k 0 1\r\ny\r\nEND\r\n",
		"VALUE a:k 0 1\r\nx\r\nEND\r\n",
	} {
		require.Equal(t, reply, c.MustReply(t))
	}

	next := o
	next.Routes.Prefixes = []route.Prefix{{Prefix: "a:", Pool: "a"}}
	require.ErrorContains(t, m.Apply(t.Context(), next),
		"routes that strip a prefix, and routes with a longer prefix, cannot change")
}

func TestARouteThatStripsReadsFromAPoolThatHasItsKeysWithoutThePrefix(t *testing.T) {
	main, copies := mctest.StartNewMemcached(t), mctest.StartNewMemcacheds(t, 2)
	c := mwtest.Start(t, middleware.Options{
		Pools: []middleware.PoolOptions{
			pooled("main", route.Options{}, main), pooled("copy", route.Options{Replicas: 1}, copies...),
			pooled("rest", route.Options{}, mctest.StartNewMemcached(t)),
		},
		Routes: route.Routes{Default: "rest", Prefixes: []route.Prefix{
			{Prefix: "s:", Pool: "main", Reads: "copy", Strip: true},
		}},
	}).Dial(t)
	for i := range 10 {
		key := fmt.Sprint("s:", i)
		require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", key, "main")))
		value, _ := main.Get(key[2:])
		require.Equal(t, "main", value)
		require.Equal(t, "END\r\n", c.MustDo(t, "get "+key+"\r\n"))
		put(t, key[2:], "copy", copies...)
		require.Equal(t, valueOf(key, "copy")+"END\r\n", c.MustDo(t, "get "+key+"\r\n"))
		require.Equal(t, "VA 4 k"+key+"\r\ncopy\r\n", c.MustDo(t, "mg "+key+" v k\r\n"))
		require.Regexp(t, "^VALUE "+key+" 7 4 \\d+\r\nmain\r\nEND\r\n$", c.MustDo(t, "gets "+key+"\r\n"))
		require.Equal(t, valueOf(key, "copy")+"END\r\n", c.MustDo(t, "get "+key+" "+key[2:]+" s:none\r\n"))
	}
}

func TestOneGetReadsStrippedKeysAndLargeValues(t *testing.T) {
	bare, big := pooled("bare", route.Options{}, mctest.StartNewMemcached(t)),
		pooled("big", route.Options{Replicas: 1}, chunkedServers(t, 2)...)
	o := chunking(nil)
	big.Large, o.Large = o.Large, plan.Large{}
	o.Pools, o.Routes = []middleware.PoolOptions{bare, big},
		route.Routes{Prefixes: []route.Prefix{{Prefix: "s:", Pool: "bare", Strip: true}}, Default: "big"}
	c := mwtest.Start(t, o).Dial(t)
	want := ""
	for i, key := range []string{"s:1", "large", "s:2", "plain"} {
		value := filler(i, 10)
		if key == "large" {
			value = filler(i, smallLimit)
		}
		require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", key, value)))
		want += valueOf(key, value)
	}
	require.Equal(t, want+"END\r\n", c.MustDo(t, "get s:1 large s:none s:2 plain\r\n"))
}

func TestAServerThatComesBackHasNoStrippedKeyThatItMissed(t *testing.T) {
	a, b := mctest.StartNewMemcacheds(t, 3), mctest.StartNewMemcached(t)
	proxies, named := proxied(t, a)
	o := middleware.Options{
		Pools:  []middleware.PoolOptions{pooled("a", route.Options{}), pooled("b", route.Options{}, b)},
		Routes: route.Routes{Prefixes: []route.Prefix{{Prefix: "a:", Pool: "a", Strip: true}}, Default: "b"},
	}
	p := &o.Pools[0]
	p.Servers, p.Writers, p.Ack, p.Timeout = named, middleware.WritersOne, replica.AckAny, 100*time.Millisecond
	p.ServerOptions = backend.ServerOptions{FailureLimit: 1, ConnectTimeout: 200e6}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set a:k 0 0 3\r\nold\r\n"))
	holds := func(want string) bool {
		value, _ := a[1].Get("k")
		return value == want
	}
	// with ack any the answer does not wait for this server
	require.Eventually(t, func() bool { return holds("old") }, mctest.Patience, pollPause)

	proxies[1].Inject(unreachable)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set a:k 0 0 3\r\nnew\r\n"))
	require.True(t, holds("old"), "the write has not reached the server")
	awaitState(t, c, p.Servers[1].Name, "down")

	proxies[1].Inject(mctest.Fault{})
	awaitState(t, c, p.Servers[1].Name, "up")
	require.True(t, holds(""), "it has no key that it missed when it is read again")
	require.Contains(t, []string{"VALUE a:k 0 3\r\nnew\r\nEND\r\n", "END\r\n"}, c.MustDo(t, "get a:k\r\n"),
		"from another server, or a miss from this one")
}

func TestEachPoolHasItsKeysAndACommandWithoutAKeyReachesAllOrTheDefault(t *testing.T) {
	a, b := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcacheds(t, 3)
	m := mwtest.Start(t, middleware.Options{
		Pools: []middleware.PoolOptions{
			pooled("a", route.Options{}, a...),
			pooled("b", route.Options{Replicas: 2}, b...),
		},
		Routes: route.Routes{Prefixes: []route.Prefix{{Prefix: "a:", Pool: "a"}}, Default: "b"},
	})
	c := m.Dial(t)
	holders := func(key string) (counts [2]int) {
		for i, servers := range [][]*mctest.Server{a, b} {
			for _, s := range servers {
				if _, ok := s.Get(key); ok {
					counts[i]++
				}
			}
		}
		return counts
	}
	for i := range 20 {
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set a:%d 0 0 1\r\nx\r\n", i)))
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set b:%d 0 0 1\r\ny\r\n", i)))
		require.Equal(t, [2]int{2, 0}, holders(fmt.Sprintf("a:%d", i)))
		require.Equal(t, [2]int{0, 2}, holders(fmt.Sprintf("b:%d", i)))
	}
	require.Equal(t, "VALUE b:1 0 1\r\ny\r\nVALUE a:1 0 1\r\nx\r\nVALUE b:2 0 1\r\ny\r\nVALUE a:2 0 1\r\nx\r\nEND\r\n",
		c.MustDo(t, "get b:1 a:none a:1 b:2 b:none a:2\r\n"))
	// The first server decides, with the token of gets.
	for _, key := range []string{"a:1", "b:1"} {
		items, err := mctest.ParseValues(c.MustDo(t, "gets "+key+"\r\n"))
		require.NoError(t, err)
		cas := fmt.Sprintf("cas %s 0 0 1 %s\r\nz\r\n", key, items[0].Cas)
		require.Equal(t, "STORED\r\n", c.MustDo(t, cas))
		require.Equal(t, "EXISTS\r\n", c.MustDo(t, cas))
	}
	list := c.MustDo(t, "stats servers settings\r\n")
	for _, name := range []string{"a-server-1", "a-server-2", "b-server-1", "b-server-3"} {
		require.Contains(t, list, "STAT "+name+":maxbytes ")
	}
	require.True(t, strings.HasPrefix(c.MustDo(t, "version\r\n"), "VERSION 1."))
	require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
	require.Equal(t, "END\r\n", c.MustDo(t, "get a:1 b:1 a:2 b:2\r\n"))
}

func TestARouteRefusesWhatItDoesNotAccept(t *testing.T) {
	o := middleware.Options{
		Listen: []string{"127.0.0.1:0"},
		Pools:  []middleware.PoolOptions{pooled("a", route.Options{}, mctest.StartNewMemcacheds(t, 2)...)},
		Routes: route.Routes{Default: "a", Prefixes: []route.Prefix{
			{Prefix: "r:", Pool: "a"}, {Prefix: "n:", Pool: "a"}, {Prefix: "r:w:", Pool: "a"},
		}},
	}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	const reads, nothing = "CLIENT_ERROR the route of this key accepts only reads\r\n",
		"CLIENT_ERROR the route of this key accepts nothing\r\n"
	for _, key := range []string{"r:k", "n:k", "r:w:k", "k"} {
		require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", key, "1")))
	}
	o.Routes.Prefixes = slices.Clone(o.Routes.Prefixes)
	o.Routes.Prefixes[0].Accepts, o.Routes.Prefixes[1].Accepts = route.AcceptsReads, route.AcceptsNothing
	require.NoError(t, m.Apply(t.Context(), o))
	for request, reply := range map[string]string{
		"get r:k\r\n": valueOf("r:k", "1") + "END\r\n", "mg r:k v\r\n": "VA 1\r\n1\r\n", "get k r:k\r\n": "VALUE k",
		"set r:k 0 0 1\r\n2\r\n": reads, "delete r:k\r\n": reads, "touch r:k 9\r\n": reads, "incr r:k 1\r\n": reads,
		"gat 9 k r:k\r\n": reads, "mg r:k v T9\r\n": reads, "mg cjpr b v T9\r\n": reads, "md r:k q\r\n": reads,
		"set r:w:k 0 0 1\r\n2\r\n": "STORED\r\n", "set k 0 0 1\r\n2\r\n": "STORED\r\n",
		"get n:k\r\n": nothing, "get k n:k\r\n": nothing, "set n:k 0 0 1\r\n2\r\n": nothing, "mg n:k v q\r\n": nothing,
		"set n:k 0 0 2000000\r\n" + strings.Repeat("x", 2_000_000) + "\r\n": "",
	} {
		if got := c.MustDo(t, request); reply != "" {
			require.Contains(t, got, reply, request)
		}
	}
	require.Equal(t, valueOf("r:k", "1")+"END\r\n", c.MustDo(t, "set r:k 0 0 1 noreply\r\n2\r\nget r:k\r\n"))
	o.Routes.Prefixes, o.Routes.Accepts = nil, route.AcceptsReads
	require.NoError(t, m.Apply(t.Context(), o))
	require.Equal(t, valueOf("n:k", "1")+"END\r\n", c.MustDo(t, "get n:k\r\n"))
	require.Equal(t, reads, c.MustDo(t, "delete n:k\r\n"))
	require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
}

func TestAPoolWithoutServersDelaysNoOther(t *testing.T) {
	a, b := mctest.StartNewMemcacheds(t, 3), mctest.StartNewMemcacheds(t, 3)
	o := middleware.Options{Routes: route.Routes{Prefixes: []route.Prefix{{Prefix: "a", Pool: "a"}}, Default: "b"}}
	for name, servers := range map[string][]*mctest.Server{"a": a, "b": b} {
		p := pooled(name, route.Options{}, servers...)
		p.Writers, p.Ack, p.ServerOptions = middleware.WritersSeveral, replica.AckQuorum,
			backend.ServerOptions{FailureLimit: 1, ConnectTimeout: 4 * time.Second}
		o.Pools = append(o.Pools, p)
	}
	o.Timeout = 4 * time.Second
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	set := func(m *mwtest.MW, key, value string) string {
		return m.Dial(t).MustDo(t, fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value))
	}
	for _, m := range fleet {
		require.Equal(t, "STORED\r\n", set(m, "a", "1"))
		require.Equal(t, "STORED\r\n", set(m, "b", "1"))
	}
	for _, s := range a { // one alone would do: all middlewares reach it
		s.Stop()
	}
	require.Eventually(t, func() bool { return strings.HasPrefix(set(fleet[0], "a", "2"), "SERVER_ERROR") },
		mctest.Patience, mctest.Tick)
	for i := range 50 {
		value := fmt.Sprintf("%d", i)
		require.Equal(t, "STORED\r\n", set(fleet[i%2], "b", value))
		for _, m := range fleet {
			require.Equal(t, fmt.Sprintf("VALUE b 0 %d\r\n%s\r\nEND\r\n", len(value), value),
				m.Dial(t).MustDo(t, "get b\r\n"))
		}
	}
	require.Contains(t, fleet[1].Dial(t).MustDo(t, "get b a\r\n"), "SERVER_ERROR", "a must not be a miss")
	for _, s := range a {
		s.Start()
	}
	for _, m := range fleet {
		assert.Eventually(t, func() bool { return set(m, "a", "3") == "STORED\r\n" }, mctest.Patience,
			10*time.Millisecond)
	}
}

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
