package behaviour_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/shadow"
	"mcmw/internal/worker"
)

// oneFails is a middleware that reaches server 2 through a proxy that can inject faults.
type oneFails struct {
	*placed
	proxy *mctest.Proxy
}

// broken is the index of the server that fails in these tests.
const broken = 1

func startFaulty(t *testing.T, o middleware.Options) *oneFails {
	t.Helper()
	servers := mctest.StartMemcacheds(t, 3)
	proxy := mctest.StartProxy(t, servers[broken].Addr())
	o.Servers = mwtest.Named(servers[0].Addr(), proxy.Addr(), servers[2].Addr())
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	return &oneFails{placed: &placed{MW: mwtest.Start(t, o), servers: servers, router: router}, proxy: proxy}
}

// namesTheServer matches the error that a client gets for a request that the broken server did not answer.
var namesTheServer = regexp.MustCompile(`^SERVER_ERROR server-2: [^\r\n]+\r\n$`)

// fault is a way in which server 2 fails.
type fault struct {
	name   string
	begin  func(m *oneFails)
	repair func(m *oneFails)
	// readsOnly says that writes are left out: doubled bytes after a line such as STORED look like the reply to the
	// next request.
	readsOnly bool
	// harmless says that every reply must be as without the fault.
	harmless bool
	// timeout is that of the middleware, for faults that only a timeout ends: every request or two takes one.
	timeout time.Duration
}

func inject(f mctest.Fault) func(m *oneFails) { return func(m *oneFails) { m.proxy.Inject(f) } }

var faults = []fault{
	{name: "is gone", begin: func(m *oneFails) { m.servers[broken].Stop() }, repair: func(m *oneFails) {
		m.servers[broken].Start()
	}},
	{name: "refuses", begin: inject(mctest.Fault{Refuse: true, Cut: 1, Reset: true})},
	{name: "stalls", begin: inject(mctest.Fault{Stall: true}), timeout: 2 * time.Second},
	{name: "closes within a reply", begin: inject(mctest.Fault{Cut: 20})},
	{name: "resets within a reply", begin: inject(mctest.Fault{Cut: 33, Reset: true})},
	{name: "answers byte by byte", begin: inject(mctest.Fault{Bytewise: true}), harmless: true},
	{name: "answers twice", begin: inject(mctest.Fault{Double: true}), readsOnly: true},
}

// forEachFault runs test with every fault and each kind of pool, keys on one server each.
func forEachFault(t *testing.T, test func(t *testing.T, m *oneFails, f fault)) {
	t.Helper()
	for _, f := range faults {
		for name, pool := range map[string]middleware.WorkerPool{
			"shared":     middleware.WorkersShared,
			"per-server": middleware.WorkersPerServer,
		} {
			t.Run("server 2 "+f.name+", pool "+name, func(t *testing.T) {
				t.Parallel()
				f := f // two pools run concurrently
				if f.timeout == 0 {
					f.timeout = mctest.Patience
				}
				if f.repair == nil {
					f.repair = inject(mctest.Fault{})
				}
				test(t, startFaulty(t, middleware.Options{
					Workers: 2, WorkerPool: pool, RequestOptions: worker.RequestOptions{Timeout: f.timeout},
					Placement: route.Options{Replicas: 1},
				}), f)
			})
		}
	}
}

func TestAFailingServerIsNamedAndFailsOnlyItsOwnRequests(t *testing.T) {
	forEachFault(t, func(t *testing.T, m *oneFails, f fault) {
		c := m.Dial(t)
		keys := numbered(40)
		if f.timeout < mctest.Patience {
			keys = numbered(8)
		}
		m.spread(t, keys)
		for i, key := range keys {
			require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %s 0 0 6\r\nold-%02d\r\n", key, i)))
		}
		f.begin(m)
		tryAll(t, m, c, keys, f)
		require.True(t, strings.HasPrefix(c.MustDo(t, "get "+strings.Repeat("k", 251)+"\r\n"), "CLIENT_ERROR"),
			"the connection is open")
		f.repair(m)
		// Each worker notices on its own, after its own pause, that the server is back.
		for i, key := range keys {
			// The prober, which deletes the keys that the server missed, may also delete a value written meanwhile.
			for got := "END\r\n"; got == "END\r\n"; {
				recovers(t, c, fmt.Sprintf("set %s 0 0 6\r\nnew-%02d\r\n", key, i), "STORED\r\n")
				got = recovers(t, c, "get "+key+"\r\n", fmt.Sprintf("VALUE %s 0 6\r\nnew-%02d\r\nEND\r\n", key, i),
					"END\r\n")
			}
		}
	})
}

// recovers repeats command until the reply is one of want, and returns it. Until then, it accepts only errors that name
// the server.
func recovers(t *testing.T, c *mctest.Client, command string, want ...string) string {
	t.Helper()
	deadline := time.Now().Add(mctest.Patience)
	for {
		got := c.MustDo(t, command)
		if slices.Contains(want, got) {
			return got
		}
		require.Regexp(t, namesTheServer, got, "%q: expected %q or", command, want)
		require.True(t, time.Now().Before(deadline), "%q: the server is not used again", command)
		time.Sleep(pollPause)
	}
}

// tryAll sends one pipeline that reads and writes all keys, and checks every reply. For keys of the broken server, an
// error that names it and a miss are also accepted: a key whose write got no answer may be deleted.
func tryAll(t *testing.T, m *oneFails, c *mctest.Client, keys []string, f fault) {
	t.Helper()
	type expected struct{ key, reply, miss string }
	var batch strings.Builder
	var replies []expected
	for i, key := range keys {
		get := expected{key, fmt.Sprintf("VALUE %s 0 6\r\nold-%02d\r\nEND\r\n", key, i), "END\r\n"}
		fmt.Fprintf(&batch, "get %s\r\n", key)
		replies = append(replies, get)
		if f.readsOnly {
			continue
		}
		fmt.Fprintf(&batch,
			"set %[1]s 0 0 6\r\nold-%02[2]d\r\nset %[1]s 0 0 6 noreply\r\nold-%02[2]d\r\nincr %[1]s 1\r\nget %[1]s\r\n",
			key, i)
		replies = append(replies,
			expected{key, "STORED\r\n", "STORED\r\n"},
			expected{key, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", "NOT_FOUND\r\n"},
			get)
	}
	require.NoError(t, c.Send([]byte(batch.String())))
	for n, want := range replies {
		got := c.MustReply(t)
		if got == want.reply {
			continue
		}
		require.False(t, f.harmless, "reply %d, %s: got %q, expected %q", n, want.key, got, want.reply)
		require.Equal(t, broken, m.router.Primary([]byte(want.key)), "reply %d, %s: got %q, expected %q", n, want.key,
			got, want.reply)
		if got != want.miss {
			require.Regexp(t, namesTheServer, got, "reply %d, %s: expected %q or", n, want.key, want.reply)
		}
	}
}

func TestAMultiGetFromAFailingServerIsNotAMiss(t *testing.T) {
	forEachFault(t, func(t *testing.T, m *oneFails, f fault) {
		c := m.Dial(t)
		keys := numbered(40)
		m.spread(t, keys)
		for i, key := range keys {
			require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %s 0 0 6\r\nval-%02d\r\n", key, i)))
		}
		all := func(skip bool) string {
			var b strings.Builder
			for i, key := range keys {
				if !skip || m.router.Primary([]byte(key)) != broken {
					fmt.Fprintf(&b, "VALUE %s 0 6\r\nval-%02d\r\n", key, i)
				}
			}
			return b.String()
		}
		f.begin(m)
		for range 3 {
			got := c.MustDo(t, "get "+strings.Join(keys, " ")+"\r\n")
			if got == all(false)+"END\r\n" {
				continue
			}
			rest, ok := strings.CutPrefix(got, all(true))
			require.True(t, ok, "%q", got)
			require.Regexp(t, namesTheServer, rest)
		}
		require.Equal(t, "END\r\n", c.MustDo(t, "get "+keyOf(m.router, 0)+"\r\n"))
		f.repair(m)
	})
}

// keyOf returns a key of server s that nobody has set.
func keyOf(router *route.Router, s int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("%d-unset", i); router.Primary([]byte(key)) == s {
			return key
		}
	}
}

func TestAWriteWithOneOfThreeReplicasGoneIsAnsweredByTheAckMode(t *testing.T) {
	for _, tc := range []struct {
		ack    replica.Ack
		stored bool
	}{{replica.AckAll, false}, {replica.AckQuorum, true}, {replica.AckAny, true}} {
		t.Run("ack "+tc.ack.String(), func(t *testing.T) {
			t.Parallel()
			m := startFaulty(t, middleware.Options{Workers: 2, RequestOptions: worker.RequestOptions{Ack: tc.ack}})
			c := m.Dial(t)
			m.servers[broken].Stop()
			keys := numbered(20)
			for _, key := range keys {
				got := c.MustDo(t, "set "+key+" 3 0 1\r\nv\r\n")
				if tc.stored {
					require.Equal(t, "STORED\r\n", got)
				} else {
					require.Regexp(t, namesTheServer, got)
				}
			}
			for _, s := range []int{0, 2} {
				copies := holds(t, m.servers[s], keys)
				require.Equal(t, slices.Repeat([]copyOf{{"v", "3", -1}}, len(keys)), copies, "server %d", s+1)
			}
			got := c.MustDo(t, "flush_all\r\n")
			require.Regexp(t, namesTheServer, got)
			for _, s := range []int{0, 2} {
				require.Equal(t, make([]copyOf, len(keys)), holds(t, m.servers[s], keys), "server %d", s+1)
			}
			lines := ask(t, c, "stats servers settings")
			require.Equal(t, "END", lines[len(lines)-1])
			text := strings.Join(lines, "\n")
			require.Contains(t, text, "STAT server-1:maxbytes ")
			require.Contains(t, text, "STAT server-3:maxbytes ")
			require.Regexp(t, `(?m)^STAT server-2:error SERVER_ERROR server-2: `, text)
		})
	}
}

// splitting returns options with a pool main whose keys are read in the pool copy, except for keys that begin with m:.
func splitting(main, copies []*mctest.Server) middleware.Options {
	return middleware.Options{
		Listen: []string{"127.0.0.1:0"},
		Pools: []middleware.PoolOptions{
			pooled("main", route.Options{}, main...),
			pooled("copy", route.Options{}, copies...),
		},
		Routes: route.Routes{Default: "main", Reads: "copy", Prefixes: []route.Prefix{{Prefix: "m:", Pool: "main"}}},
	}
}

// put stores value under key directly on servers.
func put(t *testing.T, key, value string, servers ...*mctest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Equal(t, "STORED\r\n", mctest.MustDial(t, s.Addr()).MustDo(t, setOf("set", key, value)))
	}
}

func TestReadsGoToThePoolForReadsAndOtherCommandsToTheOther(t *testing.T) {
	for _, s := range []struct {
		pool    middleware.WorkerPool
		depth   int
		writers middleware.Writers
	}{
		{middleware.WorkersShared, 32, middleware.WritersSeveral},
		{middleware.WorkersShared, 1, middleware.WritersOne},
		{middleware.WorkersPerServer, 32, middleware.WritersOne},
	} {
		t.Run(fmt.Sprintf("%v, depth %d, writers %v", s.pool, s.depth, s.writers), func(t *testing.T) {
			main, copies := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcacheds(t, 2)
			o := splitting(main, copies)
			o.WorkerPool, o.RequestOptions = s.pool, worker.RequestOptions{Depth: s.depth, Sharded: true}
			for i := range o.Pools {
				o.Pools[i].Writers = s.writers
			}
			m := mwtest.Start(t, o)
			c := m.Dial(t)
			for _, key := range []string{"k", "l"} {
				put(t, key, "copy", copies...)
			}
			for _, s := range []struct{ request, reply string }{
				{"get k\r\n", "VALUE k 7 4\r\ncopy\r\nEND\r\n"},
				{"gets k\r\n", "END\r\n"},
				{"set k 0 0 4\r\nmain\r\n", "STORED\r\n"},
				{"get k\r\n", "VALUE k 7 4\r\ncopy\r\nEND\r\n"},
				{"set m:k 0 0 4\r\nmain\r\n", "STORED\r\n"},
				{
					"get l m:k k none m:none\r\n",
					"VALUE l 7 4\r\ncopy\r\nVALUE m:k 0 4\r\nmain\r\nVALUE k 7 4\r\ncopy\r\nEND\r\n",
				},
				{"mg k v\r\n", "VA 4\r\ncopy\r\n"},
				{"mg aw== b v k\r\n", "VA 4 kk\r\ncopy\r\n"},
				{"mg k v q\r\nmn\r\n", "VA 4\r\ncopy\r\n"},
				{"", "MN\r\n"},
				{"mg k v T0\r\n", "VA 4\r\nmain\r\n"},
				{"gat 0 k l m:k\r\n", "VALUE k 0 4\r\nmain\r\nVALUE m:k 0 4\r\nmain\r\nEND\r\n"},
				{"append k 0 0 1\r\n!\r\n", "STORED\r\n"},
				{"mg k v N0\r\n", "VA 5\r\nmain!\r\n"},
				{"get k\r\n", "VALUE k 7 4\r\ncopy\r\nEND\r\n"},
				{"touch l 0\r\n", "NOT_FOUND\r\n"},
				{"delete l\r\n", "NOT_FOUND\r\n"},
				{"add l 0 0 1\r\n5\r\n", "STORED\r\n"},
				{"incr l 2\r\n", "7\r\n"},
				{"ma l v\r\n", "VA 1\r\n8\r\n"},
				{"set l 0 0 1 noreply\r\n9\r\nget l\r\n", "VALUE l 7 4\r\ncopy\r\nEND\r\n"},
				{"md k q\r\nmn\r\n", "MN\r\n"},
				{"get k\r\n", "VALUE k 7 4\r\ncopy\r\nEND\r\n"},
				{"gats 0 k l\r\n", "VALUE l 0 1 "},
			} {
				reply := ""
				if s.request == "" {
					reply = c.MustReply(t)
				} else {
					reply = c.MustDo(t, s.request)
				}
				require.True(t, reply == s.reply || strings.HasSuffix(s.reply, " ") &&
					strings.HasPrefix(reply, s.reply), "%q: %q", s.request, reply)
			}
			items, err := mctest.ParseValues(c.MustDo(t, "gets l\r\n"))
			require.NoError(t, err)
			require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("cas l 0 0 1 %s\r\n1\r\n", items[0].Cas)),
				"gets and cas agree")
			for i, s := range append(main, copies...) {
				value, _ := s.Get("l")
				require.Equal(t, []string{"1", "1", "copy", "copy"}[i], value)
			}

			// In one round equal reads are sent once, even with a write to the other pool between them.
			before := m.Settled(t)
			require.NoError(t, c.Send([]byte("get k\r\nget k\r\nset k 0 0 1\r\nx\r\nget k\r\n")))
			for _, want := range []string{
				"VALUE k 7 4\r\ncopy\r\nEND\r\n", "VALUE k 7 4\r\ncopy\r\nEND\r\n",
				"STORED\r\n", "VALUE k 7 4\r\ncopy\r\nEND\r\n",
			} {
				require.Equal(t, want, c.MustReply(t))
			}
			reads, writes := uint64(0), uint64(0)
			after := m.Settled(t)
			for i := range after.Servers {
				n := after.Servers[i].Times.Count() - before.Servers[i].Times.Count()
				if after.Servers[i].Pool == "main" {
					writes += n
				} else {
					reads += n
				}
			}
			if s.writers == middleware.WritersOne { // with several writers there are also requests for versions
				require.EqualValues(t, 2, writes, "a set to each of main's servers, and no read")
			}
			require.Contains(t, []uint64{1, 2, 3}, reads, "no write")

			require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
			require.Equal(t, "END\r\n", c.MustDo(t, "get k l m:k\r\n"))
			require.Equal(t, "END\r\n", c.MustDo(t, "gets k l m:k\r\n"))
		})
	}
}

func TestAReloadSendsReadsToAnotherPoolEvenThoseServedFromMemory(t *testing.T) {
	main, copies := mctest.StartNewMemcacheds(t, 1), mctest.StartNewMemcacheds(t, 1)
	o := splitting(main, copies)
	o.HotKeys, o.ChangeStep = hotkeys.Serve, time.Hour
	for i := range o.Pools {
		o.Pools[i].Writers = middleware.WritersOne // values stay in memory for long
	}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	put(t, "k", "copy", copies...)
	require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", "k", "main")))

	var over atomic.Bool
	var clients sync.WaitGroup
	defer clients.Wait()
	defer over.Store(true)
	for range 2 {
		other := m.Dial(t)
		clients.Go(func() {
			for !over.Load() {
				for _, command := range []string{"get k\r\n", "get k m:none\r\n", setOf("set", "other", "main")} {
					reply, err := other.Do(command)
					if !assert.NoError(t, err) || !assert.Contains(t,
						[]string{valueOf("k", "main") + "END\r\n", valueOf("k", "copy") + "END\r\n", "STORED\r\n"},
						reply) {
						return
					}
				}
			}
		})
	}
	for round, reads := range []string{"copy", "main", "copy", "", "copy"} {
		o.Routes.Reads = reads
		require.NoError(t, m.Apply(t.Context(), o))
		want := valueOf("k", map[bool]string{true: "copy", false: "main"}[reads == "copy"]) + "END\r\n"
		require.Equal(t, want, c.MustDo(t, "get k\r\n"), "round %d", round)
		heat(t, m, "k")
		for range 50 {
			require.Equal(t, want, c.MustDo(t, "get k\r\n"), "round %d", round)
			require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", "k", "main")))
		}
	}
	for _, s := range m.Stats().Snapshot().Servers {
		assert.Zero(t, s.Health.Flushes, "nothing has to be flushed: each pool holds what was sent to it")
	}
	for range 20 { // enough for the sample
		require.NoError(t, c.Send([]byte(strings.Repeat("get k\r\n", 500))))
		for range 500 {
			c.MustReply(t)
		}
	}
	hot := m.HotKeys(1, true).Keys
	require.Len(t, hot, 1)
	require.Equal(t, "k", hot[0].Name)
	require.Equal(t, []string{"copy-server-1"}, hot[0].Servers, "the servers to which its reads go")
}

// The pool for reads changes at once, even with several writers.
func TestAFleetsPoolForReadsIsChangedOneMiddlewareAtATime(t *testing.T) {
	main, copies := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcacheds(t, 2)
	o := splitting(main, copies)
	o.ChangeStep, o.Routes.Reads = time.Hour, ""
	for i := range o.Pools {
		o.Pools[i].Writers = middleware.WritersSeveral
	}
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	put(t, "k", "copy", copies...)
	require.Equal(t, "STORED\r\n", fleet[0].Dial(t).MustDo(t, setOf("set", "k", "main")))
	o.Routes.Reads = "copy"
	for i, m := range fleet {
		require.NoError(t, m.Apply(t.Context(), o))
		for k, n := range fleet {
			require.Equal(t, valueOf("k", map[bool]string{true: "copy", false: "main"}[k <= i])+"END\r\n",
				n.Dial(t).MustDo(t, "get k\r\n"))
		}
	}
}

func TestAReadHasTheTimeoutOfThePoolForReads(t *testing.T) {
	main, copies := mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 1)
	o := splitting(main, copies)
	o.Pools[1].Timeout, o.Pools[1].FailureLimit = 100*time.Millisecond, 1
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	is := func(state backend.State) func() bool {
		return func() bool { return m.Stats().Snapshot().Servers[1].Health.State == state.String() }
	}
	copies[0].Freeze()
	main[0].Freeze()
	require.NoError(t, c.Send([]byte("get k\r\nset k 0 0 1\r\nx\r\n")))
	// The worker gives up the one, and waits for the other.
	require.Eventually(t, is(backend.Down), mctest.Patience, pollPause)
	copies[0].Thaw()
	require.Eventually(t, is(backend.Up), mctest.Patience, pollPause)
	// meanwhile; on a busy machine the pool for reads may be late again
	eventually(t, m.Dial(t), "get l\r\n", "END\r\n")
	main[0].Thaw()
	require.Equal(t, "SERVER_ERROR copy-server-1: no reply in time\r\n", c.MustReply(t))
	require.Equal(t, "STORED\r\n", c.MustReply(t))
}

func TestWithAPoolForReadsShadowsAndLargeValuesFollowTheirOwnPools(t *testing.T) {
	main, copies, ofMain, ofCopy := mctest.StartNewMemcached(t), mctest.StartNewMemcached(t),
		mctest.StartNewMemcached(t), mctest.StartNewMemcached(t)
	o := splitting([]*mctest.Server{main}, []*mctest.Server{copies})
	o.Shadows = []middleware.ShadowOptions{
		{Of: "main", To: pooled("of-main", route.Options{}, ofMain), Options: shadow.Options{Share: 1, All: true}},
		{Of: "copy", To: pooled("of-copy", route.Options{}, ofCopy), Options: shadow.Options{Share: 1, All: true}},
	}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	for i := range 20 {
		require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", fmt.Sprintf("k%d", i), "x")))
		require.Equal(t, "END\r\n", c.MustDo(t, fmt.Sprintf("get k%d\r\n", i)))
	}
	require.Eventually(t, func() bool {
		var copied [2]uint64
		for i, s := range m.Stats().Snapshot().Shadows {
			copied[i] = s.Copied
		}
		return copied == [2]uint64{20, 20}
	}, mctest.Patience, mctest.Tick)
	require.Eventually(t, func() bool {
		value, _ := ofMain.Get("k19")
		return value == "x"
	}, mctest.Patience, mctest.Tick)
	_, there := ofCopy.Get("k19")
	require.False(t, there, "the shadow receives no writes")

	large := chunkedServers(t, 2)
	chunks := chunking(nil)
	o = splitting([]*mctest.Server{main}, large)
	o.Pools[1].Large, o.Limits = chunks.Large, chunks.Limits
	c = mwtest.Start(t, o).Dial(t)
	filler := chunking(large)
	filler.Servers = o.Pools[1].Servers
	value := strings.Repeat("0123456789", smallLimit/10)
	require.Equal(t, "STORED\r\n", mwtest.Start(t, filler).Dial(t).MustDo(t, setOf("set", "big", value)))
	require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", "big", "small")))
	require.Equal(t, valueOf("big", value)+"END\r\n", c.MustDo(t, "get big\r\n"))
	require.Equal(t, "SERVER_ERROR object too large for cache\r\n",
		c.MustDo(t, setOf("set", "big", strings.Repeat("x", 1<<20+1))), "main has no large values")
}
