package behaviour_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// counting has clients that each write increasing numbers to their own keys and read them, without a pause, until they
// are told to end. A read of a number below the last one stored is an error.
type counting struct {
	t        *testing.T
	end      atomic.Bool
	done     sync.WaitGroup
	rounds   atomic.Int64
	misses   atomic.Int64
	requests atomic.Int64
}

func startCounting(t *testing.T, m *mwtest.MW, clients int) *counting {
	l := &counting{t: t}
	for n := range clients {
		c := m.Dial(t)
		l.done.Go(func() { l.count(c, n) })
	}
	t.Cleanup(func() { l.end.Store(true) })
	return l
}

func (l *counting) count(c *mctest.Client, n int) {
	defer c.Close()
	const keys = 20
	for i := 1; !l.end.Load(); i++ {
		key := fmt.Sprintf("%d-%d-key", i%keys, n)
		if i > keys {
			l.check(c, key, i-keys)
		}
		reply, err := l.do(c, fmt.Sprintf("set %s 0 0 %d\r\n%d\r\n", key, len(strconv.Itoa(i)), i))
		if !assert.NoError(l.t, err) || !assert.Equal(l.t, "STORED\r\n", reply) {
			return
		}
		l.check(c, key, i)
		l.rounds.Add(1)
	}
}

func (l *counting) do(c *mctest.Client, request string) (string, error) {
	l.requests.Add(1)
	return c.Do(request)
}

func (l *counting) check(c *mctest.Client, key string, want int) {
	reply, err := l.do(c, "get "+key+"\r\n")
	if !assert.NoError(l.t, err) {
		l.end.Store(true)
		return
	}
	if reply == "END\r\n" {
		l.misses.Add(1)
		return
	}
	_, value, _ := strings.Cut(reply, "\r\n")
	if !assert.Equal(l.t, fmt.Sprintf("%d\r\nEND\r\n", want), value, "the value of %s", key) {
		l.end.Store(true)
	}
}

// more waits until the clients have done n rounds more.
func (l *counting) more(n int64) {
	l.t.Helper()
	until := l.rounds.Load() + n
	require.Eventually(l.t, func() bool { return l.rounds.Load() >= until || l.end.Load() }, mctest.Patience,
		mctest.Tick)
	require.False(l.t, l.end.Load())
}

func (l *counting) stop() {
	l.end.Store(true)
	l.done.Wait()
}

func TestServersAreAddedRemovedRenamedAndReweightedUnderLoadWithoutAnError(t *testing.T) {
	for name, start := range map[string]middleware.Options{
		"all hold every key":  {},
		"each key on one":     {Placement: route.Options{Replicas: 1}},
		"each key on two":     {Placement: route.Options{Replicas: 2}},
		"a pool for each":     {Placement: route.Options{Replicas: 2}, WorkerPool: middleware.WorkersPerServer},
		"synchronous workers": {RequestOptions: worker.RequestOptions{Depth: 1}, Workers: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := mwtest.Servers(mctest.StartMemcacheds(t, 5)...)
			o := start
			o.Listen, o.Servers = []string{"127.0.0.1:0"}, servers[:3:3]
			m := mwtest.Start(t, o)
			load := startCounting(t, m, 8)
			rounds, times := int64(25), 1
			if mctest.Long() {
				rounds, times = 200, 2
			}
			change := func(what string, to func(o *middleware.Options)) {
				load.more(rounds)
				next := o
				next.Servers = append([]route.Server(nil), o.Servers...)
				to(&next)
				require.NoError(t, m.Apply(context.Background(), next), what)
				o = next
				load.more(rounds)
			}
			for range times {
				change("add two", func(o *middleware.Options) { o.Servers = servers })
				change("weights", func(o *middleware.Options) { o.Servers[0].Weight = 3 })
				change("rename", func(o *middleware.Options) { o.Servers[1].Name = "other" })
				change("name it back", func(o *middleware.Options) { o.Servers[1].Name = servers[1].Name })
				change("the order", func(o *middleware.Options) {
					o.Servers[0], o.Servers[2] = o.Servers[2], o.Servers[0]
				})
				change("remove", func(o *middleware.Options) { o.Servers = o.Servers[2:] })
				change("tunables", func(o *middleware.Options) {
					o.Workers, o.Depth, o.Queue, o.Sharded = 5, 4, 17, true
					o.Timeout = mctest.Patience
				})
				change("the pool", func(o *middleware.Options) { o.WorkerPool = 1 - o.WorkerPool })
				change("as it was", func(o *middleware.Options) {
					*o = start
					o.Listen, o.Servers = []string{"127.0.0.1:0"}, servers[:3:3]
				})
			}
			load.stop()
			require.NoError(t, m.Stop())
			s := m.Stats().Snapshot()
			assert.EqualValues(t, load.requests.Load(), s.Total(), "requests counted")
			assert.Len(t, s.Servers, 3)
			t.Logf("%d rounds, %d misses", load.rounds.Load(), load.misses.Load())
		})
	}
}

func TestAServerWithANewAddressServesNoItemsThatWereThere(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 3)
	o := middleware.Options{
		Listen: []string{"127.0.0.1:0"}, Servers: mwtest.Servers(servers[:2]...), Placement: route.Options{Replicas: 1},
		RequestOptions: worker.RequestOptions{StallAfter: -1},
	}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	keys := numbered(40)
	elsewhere := mctest.MustDial(t, servers[2].Addr())
	for _, key := range keys {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 3\r\nnew\r\n"))
		require.Equal(t, "STORED\r\n", elsewhere.MustDo(t, "set "+key+" 0 0 3\r\nold\r\n"))
	}
	o.Servers = append([]route.Server(nil), o.Servers...)
	o.Servers[1].Addr = servers[2].Addr()
	require.NoError(t, m.Apply(context.Background(), o))
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	moved := 0
	for _, key := range keys {
		want := "VALUE " + key + " 0 3\r\nnew\r\nEND\r\n"
		if router.Primary([]byte(key)) == 1 {
			want = "END\r\n"
			moved++
		}
		require.Equal(t, want, c.MustDo(t, "get "+key+"\r\n"))
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 3\r\nnew\r\n"))
	}
	require.NotZero(t, moved)
	before := servers[1].Stat("cmd_set")
	c.MustDo(t, "set "+keys[0]+" 0 0 3\r\nnew\r\n")
	assert.Equal(t, before, servers[1].Stat("cmd_set"))
	for _, key := range keys {
		if router.Primary([]byte(key)) != 1 {
			assert.Equal(t, "END\r\n", elsewhere.MustDo(t, "get "+key+"\r\n"), "%s lives elsewhere", key)
		}
	}
}

func TestARefusedChangeChangesNothing(t *testing.T) {
	o := middleware.Options{Listen: []string{"127.0.0.1:0"}, Servers: mwtest.Servers(mctest.StartMemcacheds(t, 2)...)}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	for _, tc := range []struct {
		change func(o *middleware.Options)
		want   string
	}{
		{func(o *middleware.Options) { o.Listen = []string{"127.0.0.1:1"} }, "the listen addresses cannot change"},
		{func(o *middleware.Options) { o.Servers = nil }, "servers: none given"},
		{func(o *middleware.Options) { o.Placement.Replicas = 3 }, "more than there are servers (2)"},
	} {
		next := o
		tc.change(&next)
		require.ErrorContains(t, m.Apply(context.Background(), next), tc.want)
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nx\r\n"))
	}
	require.NoError(t, c.Close())
	require.NoError(t, m.Stop())
	require.ErrorContains(t, m.Apply(context.Background(), o), "stopping")
}

func TestServersCanChangeBeforeTheyAreReached(t *testing.T) {
	server := mctest.StartMemcached(t)
	gone := mctest.StartMemcached(t)
	gone.Stop()
	o := middleware.Options{Listen: []string{"127.0.0.1:0"}, Servers: mwtest.Servers(server, gone)}
	m := mwtest.Begin(t, o)
	o.Servers = o.Servers[:1]
	require.NoError(t, m.Apply(context.Background(), o))
	select {
	case <-m.Ready():
	case <-time.After(mctest.Patience):
		t.Fatal("it waits for a server that was removed")
	}
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 1\r\nx\r\n"))
}
