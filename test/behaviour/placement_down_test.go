package behaviour_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
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
