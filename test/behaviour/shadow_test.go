package behaviour_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/faulty"
	"mcmw/internal/follow"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/shadow"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// withShadow returns options with a pool live and its shadow test.
func withShadow(o shadow.Options, live, test []*mctest.Server) middleware.Options {
	return middleware.Options{
		Pools:  []middleware.PoolOptions{pooled("live", route.Options{}, live...)},
		Routes: route.Routes{Default: "live"},
		Shadows: []middleware.ShadowOptions{{
			Of: "live", To: pooled("test", route.Options{Replicas: 1}, test...),
			Options: o,
		}},
	}
}

// shadowCounts returns the counts of m's shadow.
func shadowCounts(m *mwtest.MW) stats.ShadowSnapshot { return m.Stats().Snapshot().Shadows[0] }

// awaitShadow waits until m's shadow has answered all copied requests, and returns its counts.
func awaitShadow(t *testing.T, m *mwtest.MW) (c stats.ShadowSnapshot) {
	t.Helper()
	require.Eventually(t, func() bool {
		c = shadowCounts(m)
		var answered uint64
		for _, n := range c.Answers {
			answered += n
		}
		return answered == c.Copied
	}, mctest.Patience, mctest.Tick)
	return c
}

func TestAShadowGetsTheEffectsOfTheWritesInItsShareAndNoOthers(t *testing.T) {
	for _, s := range []struct {
		pool middleware.WorkerPool
		live int
	}{{middleware.WorkersShared, 1}, {middleware.WorkersShared, 3}, {middleware.WorkersPerServer, 2}} {
		t.Run(fmt.Sprintf("%v, %d servers", s.pool, s.live), func(t *testing.T) {
			t.Parallel()
			live, test := mctest.StartNewMemcacheds(t, s.live), mctest.StartNewMemcacheds(t, 2)
			o := withShadow(shadow.Options{Share: 0.5, All: true, Compare: true}, live, test)
			o.WorkerPool = s.pool
			m := mwtest.Start(t, o)
			const clients, keys = 4, 40
			rounds := 30
			if mctest.Long() {
				rounds = 1000
			}
			pending := func() (n int) {
				counts := shadowCounts(m)
				n = int(counts.Copied)
				for _, answered := range counts.Answers {
					n -= int(answered)
				}
				return n
			}
			var wg sync.WaitGroup
			for n := range clients {
				c := m.Dial(t)
				wg.Go(func() {
					var pipeline strings.Builder
					for round := range rounds {
						pipeline.Reset()
						asked := 0
						add := func(format string, args ...any) {
							fmt.Fprintf(&pipeline, format, args...)
							asked++
						}
						for k := range keys {
							// a key of only this client, so that the order of its writes is known
							key := fmt.Sprintf("k%d-%d", n, k)
							switch (round + k) % 8 {
							case 0:
								add("set %s %d 0 %d\r\n%d\r\n", key, k, len(fmt.Sprint(round)), round)
							case 1:
								add("incr %s %d\r\n", key, k)
							case 2:
								add("append %s 0 0 1\r\nx\r\n", key)
							case 3:
								add("get %s %s\r\n", key, fmt.Sprintf("k%d-%d", n, (k+1)%keys))
							case 4:
								add("add %s 0 0 1\r\ny\r\n", key)
							case 5:
								add("ms %s 2 F3\r\nzz\r\n", key)
							case 6:
								add("mg %s v f\r\n", key)
							case 7:
								if k%3 == 0 {
									add("delete %s\r\n", key)
								} else {
									add("replace %s 0 0 1\r\nr\r\n", key)
								}
							}
						}
						if err := c.Send([]byte(pipeline.String())); err != nil {
							t.Error(err)
							return
						}
						if !assert.Eventually(t, func() bool { return pending() <= keys }, mctest.Patience, mctest.Tick,
							"none is to be dropped") {
							return
						}
						for range asked {
							if _, err := c.Reply(); err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			wg.Wait()
			counts := awaitShadow(t, m)
			require.Zero(t, counts.Dropped)
			require.Positive(t, counts.Answers[stats.ShadowSame])
			require.Equal(t, counts.Copied, counts.Answers[stats.ShadowSame]+counts.Answers[stats.ShadowIgnored], "%v",
				counts.Answers)
			in := 0
			for n := range clients {
				for k := range keys {
					key := fmt.Sprintf("k%d-%d", n, k)
					want := m.Dial(t).MustDo(t, "get "+key+"\r\n")
					var got string
					held := 0
					for _, server := range test {
						if answer := mctest.MustDial(t, server.Addr()).MustDo(t, "get "+key+"\r\n"); answer !=
							"END\r\n" {
							held, got = held+1, answer
						}
					}
					switch {
					case !shadow.In([]byte(key), 0.5):
						require.Zero(t, held, key)
					case want == "END\r\n":
						require.Zero(t, held, key)
					default:
						in++
						require.Equal(t, 1, held, key)
						require.Equal(t, want, got, key)
					}
				}
			}
			require.Positive(t, in)
		})
	}
}

func TestAShadowsAnswersAreComparedWithTheClients(t *testing.T) {
	live, test := mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 1)
	o := withShadow(shadow.Options{Share: 1, Compare: true}, live, test)
	o.Timeout = 2 * time.Second
	m := mwtest.Start(t, o)
	c, behind := m.Dial(t), mctest.MustDial(t, test[0].Addr())
	for _, key := range []string{"equal", "other", "gone"} {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\na\r\n"))
	}
	require.Zero(t, shadowCounts(m).Copied, "only reads are copied")
	behind.MustDo(t, "set equal 0 0 1\r\na\r\n")
	behind.MustDo(t, "set other 0 0 1\r\nb\r\n")
	behind.MustDo(t, "set extra 0 0 1\r\na\r\n")
	expect := func(request string, want map[stats.ShadowResult]uint64) {
		t.Helper()
		before := shadowCounts(m)
		c.MustDo(t, request)
		after := awaitShadow(t, m)
		for r := range stats.NumShadowResults {
			require.Equal(t, want[r], after.Answers[r]-before.Answers[r], "%s: %v", request, r)
		}
	}
	expect("get equal\r\n", map[stats.ShadowResult]uint64{stats.ShadowSame: 1})
	expect("get none\r\n", map[stats.ShadowResult]uint64{stats.ShadowSame: 1})
	expect("get gone\r\n", map[stats.ShadowResult]uint64{stats.ShadowMiss: 1})
	expect("get extra\r\n", map[stats.ShadowResult]uint64{stats.ShadowHit: 1})
	expect("get other\r\n", map[stats.ShadowResult]uint64{stats.ShadowUnknown: 1})
	require.Eventually(t, func() bool {
		c.MustDo(t, "get other\r\n")
		return awaitShadow(t, m).Answers[stats.ShadowDifferent] > 0
	}, mctest.Patience, 100*time.Millisecond)
	expect("get equal other none gone\r\n",
		map[stats.ShadowResult]uint64{stats.ShadowSame: 2, stats.ShadowDifferent: 1, stats.ShadowMiss: 1})
	expect("mg other v\r\n", map[stats.ShadowResult]uint64{stats.ShadowDifferent: 1})
	expect("gat 100 equal\r\n", nil)
	expect("touch equal 100\r\n", nil)
	s := m.Stats().Snapshot()
	require.Len(t, s.Servers, 2)
	require.Equal(t, []string{"test-server-1", "test", "live"},
		[]string{s.Servers[1].Name, s.Servers[1].Pool, s.Servers[1].ShadowOf})
	require.Positive(t, s.Servers[1].Times.Count())
	require.Contains(t, m.AskServers(context.Background()), "test-server-1")
}

func TestAMultiGetThatIsAnsweredInPortionsIsCopiedOncePerKey(t *testing.T) {
	live, test := mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 1)
	m := mwtest.Start(t, withShadow(shadow.Options{Share: 1, All: true, Compare: true}, live, test))
	c := m.Dial(t)
	const keys = 12
	value, get := strings.Repeat("x", 900_000), "get"
	for i := range keys {
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k%d %d 0 %d\r\n%s\r\n", i, i, len(value), value)))
		get += fmt.Sprintf(" k%d", i)
		awaitShadow(t, m)
	}
	before := shadowCounts(m)
	c.MustDo(t, get+"\r\n")
	after := awaitShadow(t, m)
	require.EqualValues(t, keys, after.Copied-before.Copied)
	require.EqualValues(t, keys, after.Answers[stats.ShadowSame]-before.Answers[stats.ShadowSame])
}

func TestAFlushReachesAShadowThatGetsAll(t *testing.T) {
	live, reads, all := mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 1)
	o := withShadow(shadow.Options{Share: 1, All: true}, live, all)
	o.Pools = append(o.Pools, pooled("other", route.Options{}, mctest.StartMemcached(t)))
	o.Routes.Prefixes = []route.Prefix{{Prefix: "o:", Pool: "other"}}
	o.Shadows = append(o.Shadows, middleware.ShadowOptions{
		Of: "other", To: pooled("reads", route.Options{}, reads...),
		Options: shadow.Options{Share: 1},
	})
	m := mwtest.Start(t, o)
	for _, s := range []*mctest.Server{reads[0], all[0]} {
		mctest.MustDial(t, s.Addr()).MustDo(t, "set k 0 0 1\r\na\r\n")
	}
	require.Equal(t, "OK\r\n", m.Dial(t).MustDo(t, "flush_all\r\n"))
	require.Eventually(t, func() bool { _, ok := all[0].Get("k"); return !ok }, mctest.Patience, mctest.Tick)
	value, ok := reads[0].Get("k")
	require.True(t, ok, value)
}

func TestAShadowNeitherDelaysNorChangesAnswersToClients(t *testing.T) {
	garbage := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(string) string { return "VALUE x 0 3\r\nabcdef\r\n" })
	})
	silent := mctest.StartScript(t, (*mctest.Peer).Stall)
	slow := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(line string) string {
			time.Sleep(time.Millisecond) // its service time
			if strings.HasPrefix(line, "get ") {
				return "END\r\n"
			}
			return ""
		})
	})
	frozen := mctest.StartMemcached(t)
	for name, addr := range map[string]string{
		"garbage": garbage.Addr(), "silent": silent.Addr(), "dead": mctest.Refusing(t), "slow": slow.Addr(),
		"frozen": frozen.Addr(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := mctest.StartMemcacheds(t, 1)
			o := withShadow(shadow.Options{Share: 1, All: name != "slow", Compare: true}, live, nil)
			o.Shadows[0].To.Servers = []route.Server{{Name: "test", Addr: addr}}
			o.Shadows[0].To.ServerOptions = backend.ServerOptions{ConnectTimeout: 3 * time.Second}
			o.RequestOptions = worker.RequestOptions{Timeout: 3 * time.Second}
			if name == "frozen" {
				frozen.Freeze()
				t.Cleanup(frozen.Thaw)
			}
			m := mwtest.Start(t, o)
			c := m.Dial(t)
			n := 500
			if mctest.Long() {
				n = 100_000
			}
			for i := range n {
				value := fmt.Sprint(i)
				require.Equal(t, "STORED\r\n",
					c.MustDo(t, fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", i%7, len(value), value)))
				require.Equal(t, fmt.Sprintf("VALUE k%d 0 %d\r\n%s\r\nEND\r\n", i%7, len(value), value),
					c.MustDo(t, fmt.Sprintf("get k%d none\r\n", i%7)))
			}
			require.True(t, m.IsReady())
			counts := shadowCounts(m)
			require.Positive(t, counts.Copied)
			require.Zero(t, counts.Answers[stats.ShadowDifferent])
			if name != "slow" {
				require.Zero(t, counts.Answers[stats.ShadowSame])
			}
		})
	}
}

func TestTheQueueOfAShadowThatDoesNotAnswerIsBoundedAndOtherCopiesAreDropped(t *testing.T) {
	live, test := mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 1)
	o := withShadow(shadow.Options{Share: 1, All: true, Compare: true}, live, test)
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	c.MustDo(t, "set before 0 0 1\r\na\r\n")
	awaitShadow(t, m)
	test[0].Freeze()
	for i := 0; shadowCounts(m).Dropped[stats.ShadowQueueFull] < 10; i++ {
		require.Less(t, i, 5000)
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k%d 0 0 1\r\nb\r\n", i)))
	}
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set before 0 0 1\r\nb\r\n"))
	test[0].Thaw()
	awaitShadow(t, m)
	for range 3 {
		require.Equal(t, "VALUE before 0 1\r\nb\r\nEND\r\n", c.MustDo(t, "get before\r\n"))
		awaitShadow(t, m)
	}
	require.Zero(t, shadowCounts(m).Answers[stats.ShadowDifferent],
		"the write was dropped, so the answers must not count as different")
	require.Positive(t, shadowCounts(m).Answers[stats.ShadowUnknown])
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set before 0 0 1\r\nc\r\n"))
	awaitShadow(t, m)
	same := shadowCounts(m).Answers[stats.ShadowSame]
	c.MustDo(t, "get before\r\n")
	require.Equal(t, same+1, awaitShadow(t, m).Answers[stats.ShadowSame])
}

func TestShadowsAreAddedAndRemovedWhileClientsAreServed(t *testing.T) {
	live, first, second := mctest.StartMemcacheds(t, 2), mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 1)
	with := withShadow(shadow.Options{Share: 1, All: true}, live, first)
	without := with
	without.Shadows = nil
	m := mwtest.Start(t, without)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for n := range 2 {
		c := m.Dial(t)
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				reply, err := c.Do(fmt.Sprintf("set k%d-%d 0 0 1\r\nx\r\n", n, i%50))
				if err != nil || reply != "STORED\r\n" {
					t.Errorf("%q, %v", reply, err)
					return
				}
			}
		})
	}
	try := func(o middleware.Options) error {
		o.Listen = []string{"127.0.0.1:0"}
		return m.Apply(context.Background(), o)
	}
	apply := func(o middleware.Options) { require.NoError(t, try(o)) }
	probe := m.Dial(t)
	probes := 0
	set := func() (key string) {
		probes++
		key = fmt.Sprint("probe", probes)
		require.Equal(t, "STORED\r\n", probe.MustDo(t, "set "+key+" 0 0 1\r\nx\r\n"))
		return key
	}
	awaitCopy := func(s *mctest.Server) {
		t.Helper()
		var recent []string
		for began := time.Now(); ; recent = recent[max(0, len(recent)-20):] {
			recent = append(recent, set())
			for _, key := range recent {
				if _, ok := s.Get(key); ok {
					return
				}
			}
			require.Less(t, time.Since(began), mctest.Patience)
		}
	}
	apply(with)
	awaitCopy(first[0])
	reads := with
	reads.Shadows = []middleware.ShadowOptions{with.Shadows[0]}
	reads.Shadows[0].All = false
	apply(reads)
	before := awaitShadow(t, m).Copied
	key := set()
	probe.MustDo(t, "get "+key+"\r\n")
	require.Equal(t, before+1, awaitShadow(t, m).Copied)
	_, ok := first[0].Get(key)
	require.False(t, ok)
	more := withShadow(shadow.Options{Share: 1, All: true}, live, append(first, second...))
	apply(more)
	awaitCopy(first[0])
	awaitCopy(second[0])
	moved := without
	moved.Pools = append(moved.Pools[:1:1], pooled("other", route.Options{}, first...))
	require.ErrorContains(t, try(moved), `cannot move from shadow "test" to pool "other" while clients are served`)
	apply(without)
	require.Empty(t, m.Stats().Snapshot().Shadows)
	require.Len(t, m.Stats().Snapshot().Servers, 2)
	apply(with)
	awaitCopy(first[0])
	close(stop)
	load.Wait()
}

func TestAReloadThatOneRecipientRefusesChangesNoOther(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 4)
	o := withShadow(shadow.Options{Share: 1, All: true}, servers[:1], servers[1:2])
	o.Listen = []string{"127.0.0.1:0"}
	o.Follows = followed(follow.Options{}, servers[:1], servers[3:]).Follows
	o.Follows[0].Of = "live"
	m := mwtest.Start(t, o)
	next := o
	next.EachPool(func(p *middleware.PoolOptions) {
		switch p.Name {
		case "test":
			p.Servers = mwtest.Servers(servers[1:3]...)
		case "other":
			p.ServerAuthFile = filepath.Join(t.TempDir(), "missing")
		}
	})
	require.ErrorContains(t, m.Apply(context.Background(), next), "missing")
	require.Len(t, m.Stats().Snapshot().Servers, 2, "live and test have one each")
}

func TestAShadowThatTakesOverReadsNothingThatWasCopied(t *testing.T) {
	for _, writers := range []middleware.Writers{middleware.WritersOne, middleware.WritersSeveral} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("writers %s, restart %t", writers, restart), func(t *testing.T) {
				t.Parallel()
				before := withShadow(shadow.Options{Share: 1, All: true}, mctest.StartNewMemcacheds(t, 1),
					mctest.StartNewMemcacheds(t, 2))
				before.Listen = []string{"127.0.0.1:0"}
				before.Pools[0].Writers, before.Shadows[0].To.Writers = writers, writers
				after := before
				after.Pools, after.Shadows = append(slices.Clone(before.Pools), before.Shadows[0].To), nil
				after.Routes.Prefixes = []route.Prefix{{Prefix: "t", Pool: "test"}}
				m := mwtest.Start(t, before)
				c := m.Dial(t)
				for _, key := range []string{"t", "l"} {
					require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\nx\r\n"))
				}
				awaitShadow(t, m)
				if restart {
					require.NoError(t, m.Stop())
					m = mwtest.Start(t, after)
				} else {
					require.NoError(t, m.Apply(t.Context(), after))
				}
				require.Equal(t, "VALUE l 0 1\r\nx\r\nEND\r\n", m.Dial(t).MustDo(t, "get t l\r\n"))
			})
		}
	}
}

func TestAShadowTakesCopiesThatAreSentBeforeItHasJoinedAChangeOfItsServers(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 3)
	o := withShadow(shadow.Options{Share: 1, All: true}, servers[:1], servers[1:])
	o.Listen, o.ChangeStep, o.Timeout = []string{"127.0.0.1:0"}, time.Millisecond, mctest.Patience
	to := &o.Shadows[0].To
	to.Writers = middleware.WritersSeveral
	both := to.Servers
	to.Servers = both[:1]
	copies := func(m *mwtest.MW) {
		require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 1\r\nx\r\n"))
	}
	m := mwtest.Start(t, o)
	copies(m)
	awaitShadow(t, m)
	require.NoError(t, m.Stop())

	slow := mctest.StartProxy(t, both[0].Addr)
	slow.Inject(faulty.Fault{Stall: true})
	to.Servers = slices.Clone(both)
	to.Servers[0].Addr = slow.Addr()
	m = mwtest.Start(t, o)
	for range 20 {
		copies(m)
	}
	slow.Inject(faulty.Fault{})
	require.NotZero(t, awaitShadow(t, m).Copied)
}

func TestAPoolWithoutARouteBecomesAShadowAndAPoolAgainWhileClientsAreServed(t *testing.T) {
	for _, writers := range []middleware.Writers{middleware.WritersOne, middleware.WritersSeveral} {
		t.Run(writers.String(), func(t *testing.T) {
			t.Parallel()
			shadowing := withShadow(shadow.Options{Share: 1, All: true, Compare: true}, mctest.StartNewMemcacheds(t, 1),
				mctest.StartNewMemcacheds(t, 2))
			shadowing.Listen = []string{"127.0.0.1:0"}
			shadowing.Pools[0].Writers, shadowing.Shadows[0].To.Writers = writers, writers
			idle := shadowing
			idle.Pools, idle.Shadows = append(slices.Clone(shadowing.Pools), shadowing.Shadows[0].To), nil
			routed := idle
			routed.Routes = route.Routes{Prefixes: []route.Prefix{{Prefix: "t", Pool: "test"}}, Default: "live"}
			m := mwtest.Start(t, idle)
			c := m.Dial(t)
			for round := range 3 {
				require.NoError(t, m.Apply(t.Context(), shadowing))
				before := shadowCounts(m).Answers[stats.ShadowSame]
				require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set t 0 0 1\r\n%d\r\n", round)))
				want := fmt.Sprintf("VALUE t 0 1\r\n%d\r\nEND\r\n", round)
				require.Equal(t, want, c.MustDo(t, "get t\r\n"))
				require.Equal(t, before+1, awaitShadow(t, m).Answers[stats.ShadowSame])
				require.NoError(t, m.Apply(t.Context(), idle))
				require.Empty(t, m.Stats().Snapshot().Shadows)
				require.Equal(t, want, c.MustDo(t, "get t\r\n"))
			}
			require.NoError(t, m.Apply(t.Context(), shadowing))
			require.NoError(t, m.Apply(t.Context(), routed), "a shadow takes over")
			require.Equal(t, "END\r\n", c.MustDo(t, "get t\r\n"), "what was copied is not read")
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set t 0 0 1\r\nx\r\n"))
			require.Equal(t, "VALUE t 0 1\r\nx\r\nEND\r\n", c.MustDo(t, "get t\r\n"))
			require.ErrorContains(t, m.Apply(t.Context(), shadowing),
				`pool "test" cannot become a shadow while it has a route`)
		})
	}
}
