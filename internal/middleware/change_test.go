package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/discover"
	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// traffic is the load of clients that store increasing numbers under keys of their own and read them back, each time
// through a random middleware.
type traffic struct {
	t                     *testing.T
	end                   atomic.Bool
	done                  sync.WaitGroup
	rounds, stale, missed atomic.Int64
	large                 atomic.Bool // many values are large; see valueOf
	fails                 bool        // servers may fail
	gets                  bool        // it reads with gets
}

// valueOf returns the i-th value that is stored. Each differs from all others.
func (l *traffic) valueOf(i int) string {
	if !l.large.Load() || i%4 > 0 {
		return strconv.Itoa(i)
	}
	return strings.Repeat(strconv.Itoa(i)+" ", 1+i*7919%10_000)
}

// changeOfServers returns options with three servers, and those with another one in place of the first.
func changeOfServers(replicas int) func(t *testing.T) (before, after middleware.Options) {
	return func(t *testing.T) (before, after middleware.Options) {
		servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 4)...)
		before, after = spread(servers[:3:3]), spread(servers[1:])
		before.Placement.Replicas, after.Placement.Replicas = replicas, replicas
		return before, after
	}
}

func startTraffic(t *testing.T, fleet ...*mwtest.MW) *traffic {
	return (&traffic{t: t}).start(t, fleet)
}

func (l *traffic) start(t *testing.T, fleet []*mwtest.MW, others ...string) *traffic {
	seed := mctest.Seed(t)
	for n := range 4 {
		var clients []*mctest.Client
		for _, m := range fleet {
			clients = append(clients, m.Dial(t))
		}
		for _, addr := range others {
			clients = append(clients, mctest.MustDial(t, addr))
		}
		l.done.Go(func() { l.run(clients, rand.New(rand.NewPCG(seed, uint64(n))), n) })
	}
	t.Cleanup(l.stop)
	return l
}

func (l *traffic) run(clients []*mctest.Client, random *rand.Rand, n int) {
	do := func(command string) string {
		reply, err := clients[random.IntN(len(clients))].Do(command)
		if !assert.NoError(l.t, err) {
			l.end.Store(true)
		}
		return reply
	}
	for i := 0; !l.end.Load(); i++ {
		key, value := fmt.Sprintf("%d-%d-key", n, i%50), l.valueOf(i)
		switch reply := do(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value)); {
		case l.fails && strings.HasPrefix(reply, "SERVER_ERROR "):
			continue
		case !assert.Equal(l.t, "STORED\r\n", reply):
			return
		}
		for range 2 {
			switch reply := do(map[bool]string{false: "get ", true: "gets "}[l.gets] + key + "\r\n"); {
			case reply == "END\r\n", l.fails && strings.HasPrefix(reply, "SERVER_ERROR "):
				l.missed.Add(1)
			case !strings.HasSuffix(reply, "\r\n"+value+"\r\nEND\r\n"):
				l.stale.Add(1)
			}
		}
		l.rounds.Add(1)
	}
}

// more waits until there was enough traffic to show a fault. It does nothing if l is nil.
func (l *traffic) more() {
	if l == nil {
		return
	}
	l.t.Helper()
	until := l.rounds.Load() + 80
	require.Eventually(l.t, func() bool { return l.rounds.Load() >= until || l.end.Load() }, mctest.Patience,
		mctest.Tick)
	require.False(l.t, l.end.Load())
}

func (l *traffic) stop() {
	l.end.Store(true)
	l.done.Wait()
}

// Each server counts its items, so the cas of an item may be that of another item on the server to which its key moves.
func TestATokenFromBeforeAChangeWinsOverNothingAfterIt(t *testing.T) {
	t.Parallel()
	servers := mctest.StartNewMemcacheds(t, 2)
	list := mwtest.Servers(servers...)
	o := spread(list[:1:1])
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	c := fleet[0].Dial(t)
	router, err := route.New(list, o.Placement)
	require.NoError(t, err)
	key := ""
	for n := 0; key == "" || router.Primary([]byte(key)) != 1; n++ {
		key = fmt.Sprintf("key-%d", n)
	}
	token := func(c *mctest.Client) uint64 {
		items, err := mctest.ParseValues(c.MustDo(t, "gets "+key+"\r\n"))
		require.NoError(t, err)
		require.Len(t, items, 1)
		cas, err := strconv.ParseUint(items[0].Cas, 10, 64)
		require.NoError(t, err)
		return cas
	}
	direct := mctest.MustDial(t, servers[1].Addr())
	set := "set " + key + " 0 0 1\r\n1\r\n"
	for range 1000 { // the count is beyond what the new server needs for its records
		require.Equal(t, "STORED\r\n", c.MustDo(t, set))
	}
	old := token(c)
	require.Less(t, old, uint64(1)<<62, "while keys stay where they are, items need no versions")
	after := o
	after.Servers = list
	goThrough(t, fleet, after, nil)
	for _, m := range append(fleet, mwtest.Start(t, after)) { // one that starts later knows that keys have moved
		c := m.Dial(t)
		for token := uint64(0); token < old-1; {
			require.Equal(t, "STORED\r\n", direct.MustDo(t, "set other 0 0 1\r\n1\r\n"))
			items, err := mctest.ParseValues(direct.MustDo(t, "gets other\r\n"))
			require.NoError(t, err)
			token, err = strconv.ParseUint(items[0].Cas, 10, 64)
			require.NoError(t, err)
			old = max(old, token+1)
		}
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\n2\r\n"))
		require.Equal(t, "EXISTS\r\n", c.MustDo(t, fmt.Sprintf("cas %s 0 0 1 %d\r\n3\r\n", key, old)))
		require.Greater(t, token(c), uint64(1)<<62)
	}
}

// spread returns options with servers, each key on one. A step of a change lasts until a test ends it.
func spread(servers []route.Server) middleware.Options {
	return middleware.Options{Servers: servers, Placement: route.Options{Replicas: 1}, ChangeStep: time.Hour}
}

// applyAll applies o to the middlewares of fleet, one after the other, with load, which may be nil, in between.
func applyAll(t *testing.T, fleet []*mwtest.MW, o middleware.Options, load *traffic) {
	t.Helper()
	for _, m := range fleet {
		require.NoError(t, m.Apply(context.Background(), o))
		load.more()
	}
}

// goThrough applies o to the two middlewares of fleet and takes them in turn through the phases of the change, under
// load.
func goThrough(t *testing.T, fleet []*mwtest.MW, o middleware.Options, load *traffic) {
	t.Helper()
	applyAll(t, fleet, o, load)
	for phases := 0; fleet[0].EndPhase(); phases++ {
		load.more()
		fleet[1].EndPhase()
		load.more()
		require.Less(t, phases, 3)
	}
	assert.Equal(t, "settled", fleet[0].Phase())
}

// startDuring starts a middleware with the options before, takes it through so many of the three steps to the options
// after, and then starts another middleware with the options own, which is then in the phase of that number. next makes
// the next step of the first.
func startDuring(t *testing.T, before, after, own middleware.Options, steps int, phases ...string) (first,
	late *mwtest.MW, next func(),
) {
	t.Helper()
	first = mwtest.Start(t, before)
	alone := startTraffic(t, first) // so that there are old values
	alone.more()
	alone.stop()
	next = func() {
		if first.Phase() == "settled" {
			require.NoError(t, first.Apply(context.Background(), after))
		} else {
			first.EndPhase()
		}
	}
	for range steps {
		next()
	}
	late = mwtest.Start(t, own)
	assert.Equal(t, phases[steps], late.Phase())
	return first, late, next
}

func TestAMiddlewareThatStartsDuringAChangeReadsNoOldValuesWhateverThePhaseOfTheOthers(t *testing.T) {
	for _, phase := range []int{0, 1, 2, 3} { // how many steps the other middleware has made
		for _, knows := range []bool{true, false} { // the list that the others are changing to
			if phase == 0 && !knows {
				continue
			}
			t.Run(fmt.Sprint(phase, knows), func(t *testing.T) {
				t.Parallel()
				o, after := changeOfServers(1)(t)
				own := o
				if knows {
					own = after
				}
				// Without an announcement, and with another list in the records, it has learned of its own list first.
				first, late, next := startDuring(t, o, after, own, phase, "delete-new", "delete-new", "read-new",
					"read-new")
				load := startTraffic(t, first, late)
				load.more()
				for range 3 - phase {
					next()
					load.more()
					late.EndPhase()
					load.more()
				}
				if !knows { // it learns of the list during the change
					require.NoError(t, late.Apply(context.Background(), after))
				}
				for late.EndPhase() {
					load.more()
				}
				load.stop()
				assert.Zero(t, load.stale.Load())
				assert.Equal(t, "settled", late.Phase())
				assert.Equal(t, first.Stats().Snapshot().Placement, late.Stats().Snapshot().Placement)
				t.Logf("%d rounds, %d missed", load.rounds.Load(), load.missed.Load())
			})
		}
	}
}

func TestAMiddlewareThatStartsDuringAChangeDeletesNothingThatIsRead(t *testing.T) {
	changes := map[string]func(t *testing.T) (before, after middleware.Options){
		"of servers": changeOfServers(1),
		"of routes": func(t *testing.T) (before, after middleware.Options) {
			before = severalPools(t, 1)
			return before, routed(before, "b", "key-1", "a")
		},
	}
	for name, change := range changes {
		for steps := 1; steps <= 2; steps++ {
			t.Run(fmt.Sprint(name, steps), func(t *testing.T) {
				t.Parallel()
				o, after := change(t)
				first := mwtest.Start(t, o)
				require.NoError(t, first.Apply(context.Background(), after))
				for range steps - 1 {
					first.EndPhase()
				}
				client := first.Dial(t)
				for i := range 200 {
					client.MustDo(t, fmt.Sprintf("set key-%d 0 0 1\r\nx\r\n", i))
				}
				late := mwtest.Start(t, after)
				require.Equal(t, first.Phase(), late.Phase())
				other := late.Dial(t)
				for i := range 200 {
					for _, c := range []*mctest.Client{client, other} {
						require.Equal(t, fmt.Sprintf("VALUE key-%d 0 1\r\nx\r\nEND\r\n", i),
							c.MustDo(t, fmt.Sprintf("get key-%d\r\n", i)))
					}
				}
			})
		}
	}
}

func TestAMiddlewareBeginsTheChangeThatAnotherHasBegun(t *testing.T) {
	servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 5)...)
	o := spread(servers[:3:3])
	a, b := mwtest.Start(t, o), mwtest.Start(t, o)
	b.FollowOthers()
	require.Equal(t, "settled", b.Phase(), "nobody has announced anything")
	apply := func(n int, fleet ...*mwtest.MW) {
		o.Servers = servers[:n:n]
		for _, m := range fleet {
			require.NoError(t, m.Apply(context.Background(), o))
		}
	}
	apply(4, a)
	b.FollowOthers() // it has just started, and has not looked its servers up again
	require.Equal(t, []string{"delete-new", "delete-new"}, []string{a.Phase(), b.Phase()})
	apply(4, b)
	for range 3 {
		a.EndPhase()
	}
	b.EndPhase()
	apply(5, a, b)
	require.Equal(t, "delete-new", a.Phase())
	require.NotEqual(t, "delete-new", b.Phase(), "it is in a later phase of the previous change")
	b.AwaitsOthers()
	require.Equal(t, "delete-new", b.Phase())
	assert.Equal(t, a.Stats().Snapshot().Placement, b.Stats().Snapshot().Placement)
}

func TestTheMarkOfACleanServerLastsAsLongAsAMiddlewareIsInAPhase(t *testing.T) {
	memcacheds := mctest.StartNewMemcacheds(t, 3)
	servers := mwtest.Servers(memcacheds...)
	o := spread(servers[:2:2])
	m := mwtest.Start(t, o)
	o.Servers = servers
	require.NoError(t, m.Apply(context.Background(), o))
	joined, err := mctest.Dial(memcacheds[2].Addr())
	require.NoError(t, err)
	key := string(link.Key(marker.CleanKey).Text)
	text := strings.Split(joined.MustDo(t, "mg "+key+" b v\r\n"), "\r\n")[1]
	for _, phase := range []string{"delete-new", "read-new"} {
		require.Equal(t, phase, m.Phase())
		require.Equal(t, "HD\r\n", joined.MustDo(t, fmt.Sprintf("ms %s %d b T60\r\n%s\r\n", key, len(text), text)))
		m.AwaitsOthers()
		var left int
		_, err := fmt.Sscanf(joined.MustDo(t, "mg "+key+" b t\r\n"), "HD t%d", &left)
		require.NoError(t, err)
		assert.Greater(t, left, 3600, phase)
		m.EndPhase()
	}
}

func TestAServerThatDoesNotAnswerIsDownDuringAChangeEvenIfNoClientNeedsIt(t *testing.T) {
	memcacheds := mctest.StartNewMemcacheds(t, 3)
	servers := mwtest.Servers(memcacheds...)
	o := middleware.Options{
		Servers: servers[:2:2], ChangeStep: time.Hour,
		Writers:       middleware.WritersSeveral,
		ServerOptions: backend.ServerOptions{ConnectTimeout: 100 * time.Millisecond},
	}
	m := mwtest.Start(t, o)
	o.Servers = servers
	require.NoError(t, m.Apply(context.Background(), o))
	memcacheds[0].Freeze()
	defer memcacheds[0].Thaw()
	require.Eventually(t, func() bool {
		m.AwaitsOthers()
		return m.Stats().Snapshot().Servers[0].Health.State == "down"
	}, mctest.Patience, mctest.Tick)
}

func TestAMiddlewareThatFlushesAServerWhenItJoinsAChangeIsAnnouncedThereAfterwards(t *testing.T) {
	memcacheds := mctest.StartNewMemcacheds(t, 2)
	servers := mwtest.Servers(memcacheds...)
	o := spread(servers[:1:1])
	o.Writers = middleware.WritersSeveral
	m := mwtest.Start(t, o)
	o.Servers = servers
	require.NoError(t, m.Apply(context.Background(), o))
	require.True(t, m.EndPhase())
	require.Equal(t, "read-new", m.Phase())
	c := mctest.MustDial(t, memcacheds[1].Addr())
	ask := func(key string) string { return c.MustDo(t, "mg "+string(link.Key(key).Text)+" b\r\n") }
	require.Equal(t, "HD\r\n", c.MustDo(t, "md "+string(link.Key(marker.CleanKey).Text)+" b\r\n"))
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nx\r\n"))
	others := string(link.Key(marker.RoutesDeletingKey).Text)
	require.Equal(t, "HD\r\n", c.MustDo(t, "ms "+others+" 2 b T3600\r\n{}\r\n"))
	late := mwtest.Start(t, o)
	require.Equal(t, "read-new", late.Phase())
	require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"), "the server was not flushed")
	require.Equal(t, "HD\r\n", ask(marker.ReadingKey))
	require.Equal(t, "HD\r\n", ask(marker.RoutesDeletingKey), "what others announce")
}

func TestReadNewLastsAsLongAsAnotherMiddlewareIsInDeleteNew(t *testing.T) {
	servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 3)...)
	o := spread(servers[:2:2])
	a, b := mwtest.Start(t, o), mwtest.Start(t, o)
	o.Servers = servers
	require.NoError(t, a.Apply(context.Background(), o))
	require.NoError(t, b.Apply(context.Background(), o))
	assert.False(t, a.AwaitsOthers(), "others in delete-new do not matter in delete-new")
	require.True(t, a.EndPhase())
	require.Equal(t, []string{"read-new", "delete-new"}, []string{a.Phase(), b.Phase()})
	assert.True(t, a.AwaitsOthers())
	assert.False(t, b.AwaitsOthers(), "the other one is in read-new already")
}

func TestMiddlewaresWhoseListsChangeAgainInDifferentPhasesAgreeOnOneChangeAtATime(t *testing.T) {
	for name, ahead := range map[string]bool{
		"one is a phase ahead":                 true,
		"one is about to enter the next phase": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 5)...)
			o := spread(servers[:3:3])
			a, b := mwtest.Start(t, o), mwtest.Start(t, o)
			load := startTraffic(t, a, b)
			apply := func(m *mwtest.MW, n int) {
				o.Servers = servers[:n:n]
				require.NoError(t, m.Apply(context.Background(), o))
				load.more()
			}
			apply(a, 4)
			apply(b, 4)
			if ahead {
				a.EndPhase()
				load.more()
			}
			apply(b, 5)
			if ahead {
				require.Eventually(t, func() bool { return b.Phase() == "read-new" }, mctest.Patience, mctest.Tick)
			} else {
				a.EndPhase()
				assert.Equal(t, "delete-new", a.Phase())
				load.more()
			}
			assert.Equal(t, a.Stats().Snapshot().Placement, b.Stats().Snapshot().Placement)
			apply(a, 5)
			for range 8 { // each list has three phases
				a.EndPhase()
				load.more()
				b.EndPhase()
				load.more()
			}
			load.stop()
			assert.Zero(t, load.stale.Load())
			for _, m := range []*mwtest.MW{a, b} {
				assert.Equal(t, "settled", m.Phase())
				assert.Len(t, m.Stats().Snapshot().Servers, 5)
			}
		})
	}
}

func TestAMiddlewareThatCannotLookUpItsServersFollowsAnAnnouncementAndReadsNoOldValues(t *testing.T) {
	for name, follows := range map[string]bool{"it follows": true, "it does not, as control": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 4)...)
			o := spread(servers[:3:3])
			knows, cut := mwtest.Start(t, o), mwtest.Start(t, o)
			require.Nil(t, cut.Elsewhere(t.Context()))
			load := startTraffic(t, knows, cut)
			after := o
			after.Servers = servers
			require.NoError(t, knows.Apply(context.Background(), after))
			load.more()
			require.Nil(t, knows.Elsewhere(t.Context()), "its own announcement does not count")
			elsewhere := cut.Elsewhere(t.Context())
			require.False(t, discover.Compare(servers, elsewhere).Any())
			if follows {
				next := o
				next.Servers = elsewhere
				require.NoError(t, cut.Apply(context.Background(), next))
			}
			for knows.EndPhase() {
				load.more()
				cut.EndPhase()
				load.more()
			}
			load.stop()
			if follows {
				assert.Zero(t, load.stale.Load())
				assert.Equal(t, knows.Stats().Snapshot().Placement, cut.Stats().Snapshot().Placement)
			} else {
				assert.NotZero(t, load.stale.Load())
			}
		})
	}
}

func TestAMiddlewareDoesNotFollowToAPlacementWithOtherOptions(t *testing.T) {
	servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 3)...)
	o := spread(servers[:2:2])
	one, other := mwtest.Start(t, o), mwtest.Start(t, o)
	o.Placement.Replicas, o.Servers = 2, servers
	require.NoError(t, one.Apply(context.Background(), o))
	require.Nil(t, other.Elsewhere(t.Context()))
}

// A batch waits for a server, and then has to go to another queue. That queue must not be closed before.
func TestAChangeOfServersWaitsForABatchThatPassesFromQueueToQueue(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	silent := answersUntil(t, "get ", func(p *mctest.Peer) {
		asked <- struct{}{}
		p.Stall()
	})
	o := middleware.Options{
		Servers:   mwtest.Named(silent.Addr(), mctest.StartMemcached(t).Addr()),
		Placement: route.Options{Replicas: 1}, Writers: middleware.WritersOne,
	}
	o.Timeout, o.WorkerPool = time.Second, middleware.WorkersPerServer
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	var keys [2]string // by server
	for n := 0; keys[0] == "" || keys[1] == ""; n++ {
		key := fmt.Sprintf("key-%d", n)
		keys[router.Primary([]byte(key))] = key
	}
	m := mwtest.Start(t, o)
	client := m.Dial(t)
	require.NoError(t, client.Send([]byte("get "+keys[0]+"\r\nget "+keys[1]+"\r\n")))
	<-asked
	o.Servers = append(o.Servers, mwtest.Named(mctest.StartMemcached(t).Addr())...)
	o.Servers[2].Name = "server-3"
	require.NoError(t, m.Apply(t.Context(), o))
	require.Contains(t, client.MustReply(t), "SERVER_ERROR ", "its server has not replied within the timeout")
	require.Equal(t, "END\r\n", client.MustReply(t))
}
