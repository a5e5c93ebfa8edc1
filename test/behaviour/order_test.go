package behaviour_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// Sizes of the order test.
const (
	orderConnections = 32
	orderServers     = 3
	// orderRequests is the length of the long run, over all cases together. A case with depth 1, where every request
	// has its own round trip to the servers, gets only depthOneShare of the share of others.
	orderRequests      = 10_000_000
	orderRequestsShort = 30_000
	depthOneShare      = 0.07
)

// orderCase is one set-up of the middleware.
type orderCase struct {
	pool           middleware.Pool
	replicas       int // 0: all
	workers, depth int
	read           route.ReadPolicy
	sharded        bool
	stallAfter     time.Duration // so short that servers are often suspect; 0: the default
	requests       int
}

// hasty is a value of StallAfter that servers under load often exceed.
const hasty = 200 * time.Microsecond

func (o orderCase) String() string {
	s := fmt.Sprintf("replicas %d, workers %d, depth %d, read %v", o.replicas, o.workers, o.depth, o.read)
	if o.replicas == 0 {
		s = strings.Replace(s, "replicas 0", "replicas all", 1)
	}
	if o.sharded {
		s += ", sharded"
	}
	if o.pool == middleware.PoolPerServer {
		s += ", pool per-server"
	}
	if o.stallAfter > 0 {
		s += ", suspects"
	}
	return s
}

// orderCases returns all cases, and distributes total requests over them.
func orderCases(total int) []orderCase {
	var cases []orderCase
	for _, depth := range []int{1, 32} {
		for _, workers := range []int{1, 2, 8, 64} {
			cases = append(cases, orderCase{replicas: 1, workers: workers, depth: depth, read: route.ReadPrimary})
			for _, read := range []route.ReadPolicy{route.ReadRoundRobin, route.ReadLeastBusy} {
				for _, sharded := range []bool{false, true} {
					cases = append(cases, orderCase{workers: workers, depth: depth, read: read, sharded: sharded})
				}
			}
		}
		cases = append(cases,
			orderCase{replicas: 2, workers: 8, depth: depth, read: route.ReadRoundRobin},
			orderCase{replicas: 2, workers: 8, depth: depth, read: route.ReadLeastBusy},
			orderCase{workers: 8, depth: depth, read: route.ReadPrimary},
			orderCase{pool: middleware.PoolPerServer, replicas: 1, workers: 2, depth: depth, read: route.ReadPrimary},
			orderCase{
				pool: middleware.PoolPerServer, workers: 2, depth: depth, read: route.ReadRoundRobin,
				sharded: true,
			},
			orderCase{pool: middleware.PoolPerServer, workers: 8, depth: depth, read: route.ReadLeastBusy},
			orderCase{stallAfter: hasty, workers: 4, depth: depth, read: route.ReadRoundRobin},
			orderCase{stallAfter: hasty, workers: 4, depth: depth, read: route.ReadLeastBusy, sharded: true},
			orderCase{stallAfter: hasty, replicas: 2, workers: 4, depth: depth, read: route.ReadPrimary},
			orderCase{stallAfter: hasty, replicas: 1, workers: 2, depth: depth, read: route.ReadPrimary},
			orderCase{
				stallAfter: hasty, pool: middleware.PoolPerServer, workers: 2, depth: depth,
				read: route.ReadRoundRobin,
			},
		)
	}
	weight := func(c orderCase) float64 {
		if c.depth == 1 {
			return depthOneShare
		}
		return 1
	}
	var sum float64
	for _, c := range cases {
		sum += weight(c)
	}
	for i := range cases {
		cases[i].requests = int(float64(total)*weight(cases[i])/sum) + 1
	}
	return cases
}

// TestEveryReplyBelongsToItsRequestAndReflectsTheConnectionsOwnWrites sends pipelines of random requests over many
// connections through every kind of middleware. Each connection has its own keys, for which every byte of every reply
// is known. It also writes shared keys, for which the values that it can see are bounded. In the end the servers must
// hold the items of the connections' models, and replicas must be equal.
func TestEveryReplyBelongsToItsRequestAndReflectsTheConnectionsOwnWrites(t *testing.T) {
	seed := mctest.Seed(t)
	total := orderRequestsShort
	if mctest.Long() {
		total = orderRequests
	}
	servers := mctest.StartMemcacheds(t, orderServers, "-m", "256", "-t", "2")
	cases := orderCases(total)
	done := 0
	var left []memoryUse // after each case
	begin := time.Now()
	for i, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			run := startOrderRun(t, c, servers, i, seed)
			done += run.do(t)
			run.finish(t)
		})
		if t.Failed() {
			return
		}
		if mctest.Long() {
			left = append(left, measureMemory(t))
		}
	}
	t.Logf("%d requests in %v, every reply as expected", done, time.Since(begin).Round(time.Millisecond))
	if mctest.Long() {
		// While they run, cases need different amounts of memory. A leak shows in the minimum after them.
		first, last := leastUse(left[:len(left)/2]), leastUse(left[len(left)/2:])
		t.Logf("the minimum after a case of the first half, and of the second: %v; %v", first, last)
		require.Less(t, last.heap-first.heap, int64(1<<20), "growth of the heap over the cases, bytes")
		require.Less(t, last.resident-first.resident, int64(64<<20), "growth of the process, bytes")
	}
}

// orderRun is a running case.
type orderRun struct {
	orderCase
	prefix  string
	options middleware.Options
	m       *mwtest.MW
	servers []*mctest.Server
	shared  sharedKeys
	clients []*orderClient
}

func startOrderRun(t *testing.T, c orderCase, servers []*mctest.Server, number int, seed uint64) *orderRun {
	r := &orderRun{orderCase: c, servers: servers, prefix: strconv.Itoa(number), options: middleware.Options{
		Pool: c.pool, Servers: mwtest.Servers(servers...),
		RequestOptions: worker.RequestOptions{
			Sharded: c.sharded, Depth: c.depth, Timeout: mctest.Patience,
			StallAfter: c.stallAfter,
		}, Workers: c.workers,
		Placement: route.Options{Replicas: c.replicas, Read: c.read},
		// A busy machine must not cause a failure.
		ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience},
	}}
	r.m = mwtest.Start(t, r.options)
	for i := range r.shared.values {
		r.shared.values[i] = spreadName(fmt.Sprintf("%s.s%d", r.prefix, i), i)
	}
	admin := r.m.Dial(t)
	for i := range r.shared.counters {
		r.shared.counters[i] = spreadName(fmt.Sprintf("%s.n%d", r.prefix, i), i)
		require.Equal(t, "STORED\r\n",
			admin.MustDo(t, fmt.Sprintf("set %s 0 0 10\r\n%d\r\n", r.shared.counters[i], counterStart)))
	}
	require.NoError(t, admin.Close()) // stopping waits a second for clients that stay connected
	for n := range orderConnections {
		conn, err := net.Dial("tcp", r.m.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		r.clients = append(r.clients, newOrderClient(conn, r.prefix, n+1, orderConnections, &r.shared,
			seed+uint64(number)))
	}
	return r
}

// do runs the case in rounds, and returns the number of requests.
func (r *orderRun) do(t *testing.T) (requests int) {
	begin := time.Now()
	each := r.requests / memoryRounds
	if each >= flatRequests {
		requireFlat(t, each, func() memoryUse {
			r.phase(t, each)
			for _, c := range r.clients {
				c.release()
			}
			return measureMemory(t)
		})
	} else {
		for range memoryRounds {
			r.phase(t, each)
		}
	}
	for _, c := range r.clients {
		requests += c.sent
	}
	took := time.Since(begin)
	t.Logf("%d requests in %v, %.0f/s", requests, took.Round(time.Millisecond), float64(requests)/took.Seconds())
	return requests
}

// phase lets the connections send about n requests in total.
func (r *orderRun) phase(t *testing.T, n int) {
	errs := make([]error, len(r.clients))
	var wg sync.WaitGroup
	for i, c := range r.clients {
		wg.Go(func() {
			if errs[i] = c.run(n/len(r.clients) + 1); errs[i] != nil {
				c.conn.Close()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// finish checks the result: every server holds the expected items, and there were no repairs and no errors.
func (r *orderRun) finish(t *testing.T) {
	sent := 0
	for _, c := range r.clients {
		// Requests without replies have been executed once this is answered.
		b := c.next()
		for i := range c.own {
			b.begin()
			c.get(b, &c.own[i])
		}
		require.NoError(t, c.send(b))
		require.NoError(t, c.verify())
		require.NoError(t, c.leave())
		sent += c.sent
	}
	// Requests are counted after their replies are sent.
	require.NoError(t, r.m.Stop())
	s := r.m.Stats().Snapshot()
	assert.Equal(t, sent+sharedCounters, int(s.Total()), "requests that the middleware counted")
	stalls := uint64(0)
	for _, server := range s.Servers {
		stalls += server.Health.Stalls
		assert.Zero(t, server.Repairs, "repairs on %s, although no server failed", server.Name)
		if r.stallAfter == 0 {
			assert.Zero(t, server.Errors, "errors of %s", server.Name)
		}
	}
	if r.stallAfter > 0 {
		assert.NotZero(t, stalls, "servers that were suspect")
	}
	r.requireState(t)
}

// requireState checks every key on every server.
func (r *orderRun) requireState(t *testing.T) {
	router, err := route.New(r.options.Servers, r.options.Placement)
	require.NoError(t, err)
	held := make([]map[string]mctest.Item, len(r.servers))
	var names []string
	want := map[string]*ownKey{}
	for _, c := range r.clients {
		for i := range c.own {
			names = append(names, c.own[i].name)
			want[c.own[i].name] = &c.own[i]
		}
	}
	for i := range sharedCounters {
		total := uint64(counterStart)
		for _, c := range r.clients {
			total += c.increments[i]
		}
		k := &ownKey{name: r.shared.counters[i], exists: true, value: strconv.AppendUint(nil, total, 10)}
		names = append(names, k.name)
		want[k.name] = k
	}
	names = append(names, r.shared.values[:]...)
	for s, server := range r.servers {
		c := mctest.MustDial(t, server.Addr())
		items, err := mctest.ParseValues(c.MustDo(t, "get "+strings.Join(names, " ")+"\r\n"))
		require.NoError(t, err)
		held[s] = map[string]mctest.Item{}
		for _, item := range items {
			held[s][item.Key] = item
		}
		c.Close()
	}
	primaries := map[int]int{}
	for _, name := range names {
		primaries[router.Primary([]byte(name))]++
	}
	require.Len(t, primaries, len(r.servers), "servers that are the first of some key")
	for _, name := range names {
		holders := router.Replicas([]byte(name), nil)
		holds := map[int]bool{}
		for _, s := range holders {
			holds[s] = true
		}
		first, there := held[holders[0]][name]
		if k := want[name]; k != nil {
			require.Equal(t, k.exists, there, "whether %q is on server %d", name, holders[0]+1)
			if k.exists {
				require.Equal(t, string(k.value), first.Value, "the value of %q on server %d", name, holders[0]+1)
				require.Equal(t, strconv.FormatUint(uint64(k.flags), 10), first.Flags, "the flags of %q on server %d",
					name, holders[0]+1)
			}
		}
		for s := range r.servers {
			item, ok := held[s][name]
			require.Equal(t, there && holds[s], ok, "whether %q, which belongs on %v, is on server %d", name,
				holders, s)
			if ok {
				require.Equal(t, first, item, "%q on server %d and on %d", name, holders[0]+1, s+1)
			}
		}
	}
}
