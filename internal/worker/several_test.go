package worker_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// fleet starts n middlewares with o in front of the same three servers.
func fleet(t *testing.T, n int, o middleware.Options) ([]*mwtest.MW, []*mctest.Server) {
	t.Helper()
	servers := mctest.StartNewMemcacheds(t, 3)
	o.Servers = mwtest.Servers(servers...)
	var list []*mwtest.MW
	for range n {
		list = append(list, mwtest.Start(t, o))
	}
	return list, servers
}

func TestACheckDeletesNothingWhileAnotherWorkerStoresTheKey(t *testing.T) {
	// The first worker's look is answered when the second worker's set has reached one server. The set reaches the
	// other server only after some more looks.
	looking, stored, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var cuts atomic.Int32
	serve := func(late bool) func(p *mctest.Peer) {
		var mu sync.Mutex // guards version and looks
		var version string
		looks := 0
		return func(p *mctest.Peer) {
			for text, ok := p.Line(); ok; text, ok = p.Line() {
				switch words := strings.Fields(text); {
				case strings.HasPrefix(text, "ms bWNtdyBwcm9iZQ=="): // the probe whether the server supports versions
					p.Line()
					p.Send("HD c4611686018427387904\r\n")
				case p.Known(text):
				case words[0] == "ms":
					value, _ := p.Line()
					if value == "2" && late {
						<-release
					}
					mu.Lock()
					version = strings.TrimPrefix(words[3], "E")
					mu.Unlock()
					if value == "2" && !late {
						close(stored)
					}
					p.Send("HD\r\n")
				case words[0] == "mg":
					mu.Lock()
					looks++
					n := looks
					mu.Unlock()
					if n == 1 {
						if late {
							close(looking)
						}
						<-stored
					}
					if n == 5 && late {
						close(release)
					}
					mu.Lock()
					p.Send("HD c" + version + " kk\r\n")
					mu.Unlock()
				case words[0] == "md":
					cuts.Add(1)
					p.Send("HD\r\n")
				default:
					p.Send("ERROR\r\n")
				}
			}
		}
	}
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Named(mctest.StartScript(t, serve(true)).Addr(), mctest.StartScript(t, serve(false)).Addr()),
		Writers: middleware.WritersSeveral,
		Workers: 2, RequestOptions: worker.RequestOptions{Timeout: mctest.Patience},
	})
	require.Equal(t, "STORED\r\n", dial(t, m.Addr()).ask("set k 0 0 1\r\n1\r\n", 1))
	<-looking
	require.Equal(t, "STORED\r\n", dial(t, m.Addr()).ask("set k 0 0 1\r\n2\r\n", 1))
	require.NoError(t, m.Stop()) // it waits for checks
	assert.Zero(t, cuts.Load())
}

// withoutVersions starts two servers, the second of which does not support versions.
func withoutVersions(t *testing.T) []*mctest.Server {
	return append(mctest.StartNewMemcacheds(t, 1), mctest.StartNewMemcached(t, "-C"))
}

func TestInFrontOfServersWithoutVersionsThereIsOneWriterUnlessSeveralAreConfigured(t *testing.T) {
	servers := withoutVersions(t)
	o := middleware.Options{Servers: mwtest.Servers(servers...)}
	m := mwtest.Start(t, o)
	assert.False(t, m.Stats().Snapshot().Several)
	c := dial(t, m.Addr())
	assert.Equal(t, "STORED\r\n", c.ask("set k 0 0 1\r\nx\r\n", 1))
	assert.Equal(t, "HD\r\n", c.ask("ms k 1 E5\r\nx\r\n", 1), "mcmw does not use versions, so clients may")

	o.Writers, o.Ready = middleware.WritersSeveral, middleware.ReadyAll
	m = mwtest.Begin(t, o)
	awaitState(t, m, 1, backend.Down)
	health := m.Stats().Snapshot().Servers[1].Health
	assert.Contains(t, health.Why, "accepted: memcached 1.6.27 or later, or --writers one")
	assert.False(t, m.IsReady())
	assert.Contains(t, dial(t, m.Addr()).ask("set k 0 0 1\r\nx\r\n", 1), "SERVER_ERROR server-2: ")
}

func TestAServerThatNoLongerSupportsVersionsIsNotUsed(t *testing.T) {
	good, bad := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcached(t, "-C")
	o := middleware.Options{Servers: mwtest.Servers(good...)}
	m := mwtest.Start(t, o)
	require.True(t, m.Stats().Snapshot().Several)
	o.Servers = mwtest.Servers(good[0], bad) // the same names: one server has moved
	require.NoError(t, m.Apply(t.Context(), o))
	c := dial(t, m.Addr())
	assert.Regexp(t, "^SERVER_ERROR server-2: .*1.6.27", c.ask("set k 0 0 1\r\nx\r\n", 1))
}

func TestOneReplicaNeedsNoVersions(t *testing.T) {
	for _, writers := range []middleware.Writers{middleware.WritersAuto, middleware.WritersSeveral} {
		m := mwtest.Start(t, middleware.Options{
			Servers: mwtest.Servers(withoutVersions(t)...), Writers: writers, Placement: route.Options{Replicas: 1},
			Ready: middleware.ReadyAll,
		})
		assert.False(t, m.Stats().Snapshot().Several)
		assert.Equal(t, "STORED\r\n", dial(t, m.Addr()).ask("set k 0 0 1\r\nx\r\n", 1))
	}
}

// The items that appends make are fetched to be copied. In a round the worker holds as many bytes of them as of values
// that cannot be read again. Items beyond that remain on their first server only.
func TestAppendsOfARoundHoldNoMoreThanReadsDo(t *testing.T) {
	for range 10 {
		if appendsOfARoundHoldNoMoreThanReadsDo(t) {
			return
		}
	}
	t.Fatal("the appends were never served in one round")
}

// appendsOfARoundHoldNoMoreThanReadsDo reports whether the appends were served in one round, as on a machine that is
// not busy.
func appendsOfARoundHoldNoMoreThanReadsDo(t *testing.T) bool {
	t.Helper()
	const clients, size, most = 18, 1_000_000, 16 << 20
	servers := mctest.StartNewMemcacheds(t, 3, "-I", "2m", "-m", "128")
	o := middleware.Options{Workers: 1, Writers: middleware.WritersSeveral}
	o.Depth, o.Timeout, o.StallAfter, o.Limits.MaxValue = 2*clients, mctest.Patience, mctest.Patience, 2*size
	var proxies []*mctest.Proxy
	var addrs []string
	for _, s := range servers {
		proxies = append(proxies, mctest.StartProxy(t, s.Addr()))
		addrs = append(addrs, proxies[len(proxies)-1].Addr())
	}
	o.Servers = mwtest.Named(addrs...)
	m := mwtest.Start(t, o)
	first := m.Dial(t)
	value := strings.Repeat("x", size)
	for k := range clients {
		require.Equal(t, "STORED\r\n", first.MustDo(t, fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", k, size, value)))
	}
	require.Equal(t, "STORED\r\n", first.MustDo(t, "set small 0 0 1\r\nx\r\n"))
	for range 100 { // small values, so that the worker does not expect large ones, of which a round has few
		first.MustDo(t, "get small\r\n")
	}
	// A check that a server has not answered would hold up the worker.
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Agreement.Checks == clients+1 }, mctest.Patience,
		mctest.Tick)
	for _, p := range proxies {
		p.Inject(mctest.Fault{Stall: true})
	}
	require.NoError(t, first.Send([]byte("get k0\r\n")))
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Serving() == 1 }, mctest.Patience, mctest.Tick)
	var list []*mctest.Client
	for k := range clients {
		c := m.Dial(t)
		require.NoError(t, c.Send([]byte(fmt.Sprintf("append k%d 0 0 1\r\ny\r\n", k))))
		list = append(list, c)
	}
	require.Eventually(t, func() bool { return m.Stats().Snapshot().QueueLength == clients }, mctest.Patience,
		mctest.Tick)
	before := m.Stats().Snapshot()
	for _, p := range proxies {
		p.Inject(mctest.Fault{})
	}
	for _, c := range list {
		require.Equal(t, "STORED\r\n", c.MustReply(t))
	}
	first.MustReply(t) // mcmw stops only when clients have their replies
	require.NoError(t, m.Stop())
	served := m.Stats().Snapshot().Sub(before)
	copied := 0
	for k := range clients {
		found := 0
		for _, s := range servers {
			if held, ok := s.Get(fmt.Sprintf("k%d", k)); ok {
				require.True(t, held == value+"y", "k%d", k)
				found++
			}
		}
		require.Contains(t, []int{1, len(servers)}, found, "k%d", k)
		if found > 1 {
			copied++
		}
	}
	assert.NotZero(t, copied)
	if served.Rounds != 2 { // first's and that of the appends
		return false
	}
	assert.LessOrEqual(t, copied, most/size)
	return true
}

// Where nobody else writes, every replica shows what one server would.
func TestWithOneWriterEveryReplicaHoldsWhatACommandMarksOrMakes(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 3)
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(servers...), Writers: middleware.WritersOne})
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set marked 0 0 1\r\nx\r\n"))
	require.Equal(t, "HD\r\n", c.MustDo(t, "md marked I T30\r\n"))
	require.Equal(t, "EN\r\n", c.MustDo(t, "mg missing f\r\n"))
	require.Equal(t, "HD W\r\n", c.MustDo(t, "mg made N30\r\n"))
	for i, s := range servers {
		for key, want := range map[string]string{"marked": "x", "made": ""} {
			value, has := s.Get(key)
			require.True(t, has, "server %d lacks %s", i+1, key)
			require.Equal(t, want, value)
		}
	}
}
