package worker_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
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

// crowd lets that many writers call do at the same time, each through one of the middlewares.
func crowd(t *testing.T, list []*mwtest.MW, writers int, do func(c *client, writer int)) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		c := dial(t, list[w%len(list)].Addr())
		wg.Go(func() { do(c, w) })
	}
	wg.Wait()
}

// differ returns the keys of which servers hold different values.
func differ(t *testing.T, servers []*mctest.Server, keys int) (differing []string) {
	held := make([]map[string]bool, keys)
	for _, s := range servers {
		c := dial(t, s.Addr())
		for k := range keys {
			reply := c.ask("mg k%d v f\r\n", 1, k)
			if strings.HasPrefix(reply, "VA ") {
				reply += c.ask("", 1)
				if held[k] == nil {
					held[k] = map[string]bool{}
				}
				held[k][reply] = true
			}
		}
	}
	for k, values := range held {
		if len(values) > 1 {
			differing = append(differing, fmt.Sprintf("k%d %v", k, values))
		}
	}
	return differing
}

// ended stops the middlewares, which waits until they have checked what they stored.
func ended(t *testing.T, list []*mwtest.MW) {
	t.Helper()
	for _, m := range list {
		require.NoError(t, m.Stop())
	}
}

func TestReplicasBehindThreeMiddlewaresAreAlike(t *testing.T) {
	const writers, keys = 16, 60
	kinds := map[string]func(r *rand.Rand) string{
		"sets": func(*rand.Rand) string { return "set k%d 0 0 %d\r\n%s\r\n" },
		"everything": func(r *rand.Rand) string {
			return []string{
				"set k%d 0 0 %d\r\n%s\r\n", "set k%d 7 0 %d\r\n%s\r\n", "add k%d 0 0 %d\r\n%s\r\n",
				"replace k%d 0 0 %d\r\n%s\r\n", "append k%d 0 0 %d\r\n%s\r\n",
				"ms k%d %d T3000\r\n%s\r\n", "ms k%d %d MP\r\n%s\r\n", "delete k%d\r\n", "incr k%d 7\r\n",
				"decr k%d 3\r\n", "touch k%d 3000\r\n", "md k%d I\r\n",
				"ma k%d N0 J9 v\r\n", "mg k%d N30 v\r\n",
			}[r.IntN(14)]
		},
	}
	for name, kind := range kinds {
		for _, o := range []middleware.Options{{}, {Pool: middleware.PoolPerServer}} {
			t.Run(fmt.Sprintf("%s %s", name, o.Pool), func(t *testing.T) {
				list, servers := fleet(t, 3, o)
				crowd(t, list, writers, func(c *client, w int) {
					r := rand.New(rand.NewPCG(1, uint64(w)))
					for range 3 {
						for k := range keys { // all writers at the same time
							command := kind(r)
							value := strconv.Itoa(w*1000 + k)
							if strings.Count(command, "%") == 1 {
								command = fmt.Sprintf(command, k)
							} else {
								command = fmt.Sprintf(command, k, len(value), value)
							}
							if reply := c.ask(command, 1); strings.HasPrefix(reply, "VA") {
								c.ask("", 1)
							} else {
								assert.NotContains(c.t, reply, "SERVER_ERROR")
							}
						}
					}
				})
				ended(t, list)
				assert.Empty(t, differ(t, servers, keys))
				var found uint64
				for _, m := range list {
					assert.NotZero(t, m.Stats().Snapshot().Agreement.Checks)
					found += m.Stats().Snapshot().Agreement.Disagreements
				}
				t.Log(found, "disagreements were found and repaired")
			})
		}
	}
}

func TestNoIncrementIsLostAndNoAddSucceedsTwiceBehindThreeMiddlewares(t *testing.T) {
	const writers, times = 12, 100
	list, _ := fleet(t, 3, middleware.Options{Placement: route.Options{Read: route.ReadPrimary}})
	dial(t, list[0].Addr()).ask("set n 0 0 1\r\n0\r\n", 1)
	dial(t, list[0].Addr()).ask("set m 0 0 1\r\n0\r\n", 1)
	var mu sync.Mutex // guards won
	won := map[int]int{}
	crowd(t, list, writers, func(c *client, w int) {
		for n := range times {
			assert.Regexp(c.t, `^\d+\r\n$`, c.ask("incr n 1\r\n", 1))
			for swapped := false; !swapped; {
				words := strings.Fields(c.ask("gets m\r\n", 3))
				before, err := strconv.Atoi(words[5])
				require.NoError(c.t, err)
				value := strconv.Itoa(before + 1)
				swapped = c.ask("cas m 0 0 %d %s\r\n%s\r\n", 1, len(value), words[4], value) == "STORED\r\n"
			}
			if c.ask("add a%d 0 0 1\r\nx\r\n", 1, n) == "STORED\r\n" {
				mu.Lock()
				won[n]++
				mu.Unlock()
			}
		}
	})
	c := dial(t, list[0].Addr())
	for _, key := range []string{"n", "m"} {
		assert.Equal(t, fmt.Sprintf("VALUE %s 0 4\r\n%d\r\nEND\r\n", key, writers*times), c.ask("get "+key+"\r\n", 3))
	}
	for n := range times {
		assert.Equal(t, 1, won[n], "add %d", n)
	}
}

func TestAnItemOfAnotherKeyIsNotCopied(t *testing.T) {
	for _, line := range []string{"incr n 1\r\n", "ma bg== b v\r\n"} {
		copied := make(chan string, 100)
		serve := func(p *mctest.Peer) {
			for text, ok := p.Line(); ok; text, ok = p.Line() {
				switch words := strings.Fields(text); {
				case strings.HasPrefix(text, "ms bWNtdyBwcm9iZQ=="): // the probe whether the server supports versions
					p.Line()
					p.Send("HD c4611686018427387904\r\n")
				case p.Known(text):
				case words[0] == "ma":
					p.Send("VA 1" + strings.Repeat(" kn", strings.Count(text, " k ")) + "\r\n6\r\n")
				case words[0] == "mg":
					p.Send("VA 4 f0 t-1 c9 kt O9\r\nword\r\n")
				case words[0] == "ms":
					value, _ := p.Line()
					copied <- text + " " + value
					p.Send("HD\r\n")
				case words[0] == "md":
					p.Send("HD\r\n")
				default:
					p.Send("ERROR\r\n")
				}
			}
		}
		var servers []route.Server
		for k := range 3 {
			servers = append(servers, route.Server{
				Name: fmt.Sprintf("server-%d", k+1),
				Addr: mctest.StartScript(t, serve).Addr(), Weight: 1,
			})
		}
		m := mwtest.Start(t, middleware.Options{Servers: servers, Writers: middleware.WritersSeveral})
		c := dial(t, m.Addr())
		assert.Contains(t, c.ask(line, 1), "a reply that does not fit the request")
		assert.Empty(t, copied)
	}
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
	ended(t, []*mwtest.MW{m})
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
	o := middleware.Options{Listen: []string{"127.0.0.1:0"}, Servers: mwtest.Servers(good...)}
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
