package behaviour_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"mcmw/internal/faulty"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
	"mcmw/test/history"
)

// Sizes of the order test.
const (
	orderConnections = 32
	orderServers     = 3
	// orderCommands is the length of the long run, over all cases together. A case with depth 1, where every request
	// has its own round trip to the servers, gets only depthOneShare of the share of others.
	orderCommands      = 3_000_000
	orderCommandsShort = 12_000
	depthOneShare      = 0.07
	// orderLargest is the size of the largest values, bytes.
	orderLargest = 4 << 10
)

// orderCase is one set-up of the middleware.
type orderCase struct {
	pool           middleware.WorkerPool
	replicas       int // 0: all
	workers, depth int
	read           route.ReadPolicy
	sharded        bool
	stallAfter     time.Duration // so short that servers are often suspect; 0: the default
	several        bool          // other mcmw may write the servers, which are new enough
	commands       int
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
	if o.pool == middleware.WorkersPerServer {
		s += ", pool per-server"
	}
	if o.stallAfter > 0 {
		s += ", suspects"
	}
	if o.several {
		s += ", several writers"
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
			orderCase{
				pool: middleware.WorkersPerServer, replicas: 1, workers: 2, depth: depth, read: route.ReadPrimary,
			},
			orderCase{
				pool: middleware.WorkersPerServer, workers: 2, depth: depth, read: route.ReadRoundRobin,
				sharded: true,
			},
			orderCase{pool: middleware.WorkersPerServer, workers: 8, depth: depth, read: route.ReadLeastBusy},
			orderCase{stallAfter: hasty, workers: 4, depth: depth, read: route.ReadRoundRobin},
			orderCase{stallAfter: hasty, workers: 4, depth: depth, read: route.ReadLeastBusy, sharded: true},
			orderCase{stallAfter: hasty, replicas: 2, workers: 4, depth: depth, read: route.ReadPrimary},
			orderCase{stallAfter: hasty, replicas: 1, workers: 2, depth: depth, read: route.ReadPrimary},
			orderCase{
				stallAfter: hasty, pool: middleware.WorkersPerServer, workers: 2, depth: depth,
				read: route.ReadRoundRobin,
			},
			orderCase{several: true, workers: 4, depth: depth, read: route.ReadRoundRobin},
			orderCase{several: true, replicas: 2, workers: 4, depth: depth, read: route.ReadPrimary, sharded: true},
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
		cases[i].commands = int(float64(total)*weight(cases[i])/sum) + 1
	}
	return cases
}

// onlyOwn returns the steps whose replies depend only on the keys that they name, in the way in which one memcached and
// replicas agree. Barriers stay in place.
func onlyOwn(steps []step, several bool) (kept []step) {
	barrier := false
	for _, s := range steps {
		barrier = barrier || s.barrier
		w := words(strings.TrimRight(s.line, "\r\n"))
		own := false
		switch w[0] {
		case "gets", "gats", "cas":
			own = !several // an item gets its version, which is its cas, a moment after some commands have stored it
		case "get", "gat", "set", "add", "replace", "append", "prepend", "incr", "decr", "delete", "touch", "mn":
			own = true
		case "mg", "ms", "md", "ma":
			own = !slices.ContainsFunc(w[min(2, len(w)):], func(flag string) bool {
				// A server knows when it was asked last, and chooses a cas. With several writers only the first server
				// keeps an item that is won, or marked as stale.
				return strings.ContainsRune("cCEhlt", rune(flag[0])) || several &&
					strings.ContainsRune("INR", rune(flag[0]))
			})
		}
		if own {
			s.barrier, barrier = barrier, false
			kept = append(kept, s)
		}
	}
	return kept
}

// orderPair returns what compares connection number n of a crowd through addr with one to a memcached. Its keys have a
// prefix that spreads them over the servers.
func orderPair(reference, addr, prefix string, n int) *pair {
	prefix = fmt.Sprintf("%04x.%s.%d.", uint16(n*40503), prefix, n)
	return &pair{
		direct: &target{addr: reference, patience: mctest.Patience, prefix: prefix},
		tcp:    &target{addr: addr, patience: mctest.Patience, prefix: prefix},
	}
}

// compareOwn compares scripts of about n commands on keys that only the pair uses. It returns the number of commands,
// and a report of the first difference, "" if there is none.
func (p *pair) compareOwn(seed uint64, n int, several bool) (done int, text string, err error) {
	for script := 0; done < n; script++ {
		g := newGenerator(seed, script, false)
		g.prefix, g.keys, g.largest = p.tcp.prefix, keysOf(p.tcp.prefix), orderLargest
		steps := onlyOwn(g.script(min(max(2*n, 10), 2*scriptLength)), several)
		d := delivery(script % int(bytewise))
		diff, err := p.compareOnce(steps, d, uint64(script))
		if err != nil {
			return done, "", err
		}
		if diff != nil {
			return done, report(steps, d, diff), nil
		}
		done += len(steps)
	}
	return done, "", nil
}

// TestEveryReplyBelongsToItsRequestAndReflectsTheConnectionsOwnWrites sends pipelines of random commands over many
// connections through every kind of middleware. Each connection has its own keys, so every byte of every reply is that
// of one memcached. In the end the servers must hold the items of that memcached, and replicas must be equal.
func TestEveryReplyBelongsToItsRequestAndReflectsTheConnectionsOwnWrites(t *testing.T) {
	seed := mctest.Seed(t)
	total := orderCommandsShort
	if mctest.Long() {
		total = orderCommands
	}
	start := func(start func(testing.TB, ...string) *mctest.Server) (reference *mctest.Server,
		servers []*mctest.Server,
	) {
		for range orderServers {
			servers = append(servers, start(t, "-m", "256", "-t", "2"))
		}
		reference = start(t, referenceArgs...)
		for _, s := range append(servers, reference) { // an item with the smallest cas, which scripts guess
			require.Equal(t, "STORED\r\n", mctest.MustDial(t, s.Addr()).MustDo(t, "set first 0 0 1\r\n1\r\n"))
		}
		return reference, servers
	}
	reference, servers := start(mctest.StartMemcached)
	newReference, newServers := start(mctest.StartNewMemcached)
	for i, c := range orderCases(total) {
		t.Run(c.String(), func(t *testing.T) {
			if c.several {
				testOrder(t, c, newReference, newServers, strconv.Itoa(i), seed+uint64(i))
			} else {
				testOrder(t, c, reference, servers, strconv.Itoa(i), seed+uint64(i))
			}
		})
	}
}

func testOrder(t *testing.T, c orderCase, reference *mctest.Server, servers []*mctest.Server, prefix string,
	seed uint64,
) {
	o := middleware.Options{
		WorkerPool: c.pool, Servers: mwtest.Servers(servers...), Workers: c.workers,
		Placement: route.Options{Replicas: c.replicas, Read: c.read}, Writers: middleware.WritersOne,
		RequestOptions: worker.RequestOptions{Sharded: c.sharded, Depth: c.depth, StallAfter: c.stallAfter},
	}
	if c.several {
		o.Writers, o.Ready = middleware.WritersSeveral, middleware.ReadyAll
	}
	m := mwtest.Start(t, o)
	begin := time.Now()
	var keys []string
	var commands atomic.Int64
	var connections sync.WaitGroup
	for n := range orderConnections {
		p := orderPair(reference.Addr(), m.Addr(), prefix, n)
		keys = append(keys, keysOf(p.tcp.prefix)...)
		connections.Go(func() {
			done, text, err := p.compareOwn(seed+uint64(n)<<32, max(c.commands/orderConnections, 10), c.several)
			if assert.NoError(t, err) {
				assert.Empty(t, text)
			}
			commands.Add(int64(done))
		})
	}
	connections.Wait()
	t.Logf("%d commands in %v", commands.Load(), time.Since(begin).Round(time.Millisecond))
	require.NoError(t, m.Stop()) // checks of versions must finish
	stalls := uint64(0)
	for _, server := range m.Stats().Snapshot().Servers {
		stalls += server.Health.Stalls
		assert.Zero(t, server.Repairs, "repairs on %s, although no server failed", server.Name)
		if c.stallAfter == 0 {
			assert.Zero(t, server.Errors, "errors of %s", server.Name)
		}
	}
	assert.Equal(t, c.stallAfter > 0, stalls > 0, "servers that were suspect")
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	states := func(s *mctest.Server) []string {
		states := stateOf(t, s.Addr(), keys)
		if c.several { // a copy of an item lives for 30 days at most
			for k := range states {
				states[k] = timeToLive.ReplaceAllString(states[k], "$1")
			}
		}
		return states
	}
	held := make([][]string, len(servers))
	for s, server := range servers {
		held[s] = states(server)
	}
	primaries := map[int]int{}
	for k, want := range states(reference) {
		holders := router.Replicas([]byte(keys[k]), nil)
		primaries[holders[0]]++
		for s := range servers {
			if slices.Contains(holders, s) {
				assert.Equal(t, want, held[s][k], "%q on server %d", keys[k], s+1)
			} else {
				assert.Empty(t, held[s][k], "%q on server %d, which does not hold it", keys[k], s+1)
			}
		}
	}
	assert.Len(t, primaries, len(servers), "servers that are the first of some key")
}

// altering starts a proxy in front of target that alters one in 16 chunks of replies.
func altering(t *testing.T, target string, alter func(chunk []byte) []byte) (addr string) {
	t.Helper()
	proxy, err := faulty.Start(func(_ int, conn net.Conn) {
		defer conn.Close()
		server, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(server, conn)
			server.Close()
		}()
		for n, buf := 1, make([]byte, 64<<10); ; n++ {
			size, err := server.Read(buf)
			chunk := buf[:size]
			if n%16 == 0 && size > 0 {
				chunk = alter(chunk)
			}
			if _, failed := conn.Write(chunk); err != nil || failed != nil {
				return
			}
		}
	})
	require.NoError(t, err)
	t.Cleanup(proxy.Stop)
	return proxy.Addr()
}

// Faults that no middleware may have, between a client and a memcached.
func TestTheOrderCheckDetectsFaults(t *testing.T) {
	// A lost reply takes patience. A reply that a busy machine delays must not be taken for a fault.
	found := func(t *testing.T, addr string, patience time.Duration) bool {
		p := orderPair(mctest.StartMemcached(t, referenceArgs...).Addr(), addr, "0", 1)
		p.tcp.patience = patience
		_, text, err := p.compareOwn(1, 2000, false)
		return text != "" || err != nil
	}
	lines := func(chunk []byte) [][]byte { return bytes.SplitAfter(chunk, []byte("\r\n")) }
	for name, alter := range map[string]func(chunk []byte) []byte{
		"replies come twice": func(chunk []byte) []byte { return slices.Concat(chunk, chunk) },
		"a line is missing":  func(chunk []byte) []byte { return bytes.Join(lines(chunk)[1:], nil) },
		"lines change places": func(chunk []byte) []byte {
			all := lines(chunk)
			slices.Reverse(all)
			return bytes.Join(all, nil)
		},
		"a byte differs": func(chunk []byte) []byte {
			chunk[0]++
			return chunk
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := mctest.StartMemcached(t, referenceArgs...).Addr()
			unaltered := altering(t, addr, func(chunk []byte) []byte { return chunk })
			require.False(t, found(t, unaltered, mctest.Patience))
			require.True(t, found(t, altering(t, addr, alter), time.Second))
		})
	}
	for name, request := range map[string]string{
		"items are lost":               "flush_all\r\n",
		"a key is written by somebody": "set 9e37.0.1.a 0 0 1\r\nx\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mctest.StartMemcached(t, referenceArgs...)
			c, over := mctest.MustDial(t, server.Addr()), make(chan struct{})
			var writing sync.WaitGroup
			writing.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Millisecond):
						_, _ = c.Do(request)
					}
				}
			})
			assert.True(t, found(t, server.Addr(), time.Second))
			close(over)
			writing.Wait()
		})
	}
}

// quit opens a connection, and ends it in one of the ways in which clients leave requests and replies unfinished.
func quit(addr string, rng *rand.Rand) error {
	c, err := mctest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	const keys = 40
	key := func() string { return fmt.Sprintf("quit-%d", rng.IntN(keys)) }
	set := func(size int, more string) string {
		return fmt.Sprintf("set %s 0 0 %d%s\r\n%s\r\n", key(), size, more, strings.Repeat("q", size))
	}
	request := func() string {
		if rng.IntN(3) == 0 {
			return set(rng.IntN(200), "")
		}
		return "get " + key() + " " + key() + "\r\n"
	}
	text, lines := "", 0 // how many lines of the replies it reads
	switch rng.IntN(7) {
	case 0:
	case 1: // in the middle of a line, after a complete request
		text = request() + "get quit-1 quit-" + strings.Repeat("1", rng.IntN(3))
	case 2: // in the middle of a value
		text = set(40_000, "")
		text = text[:len(text)-1-rng.IntN(40_000)]
	case 3: // with replies in flight
		for range 1 + rng.IntN(10) {
			text += request()
		}
	case 4: // in the middle of a reply
		text, lines = set(40_000, " noreply")+"get quit-"+strings.Join(numbered(keys), " quit-")+" "+key()+"\r\n", 1
	case 5: // half-closed, but reading the replies
		if err := c.Send([]byte(request())); err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		_, err := c.Rest()
		return err
	default: // a value that is not acknowledged
		text = set(rng.IntN(200), " noreply")
	}
	if err := c.Send([]byte(text)); err != nil {
		return err
	}
	for range lines {
		if _, err := c.Line(); err != nil {
			return err
		}
	}
	if rng.IntN(2) == 0 {
		return c.Reset()
	}
	return nil
}

// withQuitters lets connections end in all ways while requests of the load go on.
func (s *scene) withQuitters(t *testing.T, seed uint64) {
	t.Helper()
	quits := 50
	if mctest.Long() {
		quits = 1000
	}
	var quitters sync.WaitGroup
	for n := range 8 {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		quitters.Go(func() {
			for range quits {
				assert.NoError(t, quit(s.addrs[0], rng))
			}
		})
	}
	quitters.Wait()
	s.more(t, 50)
}

// mixupLoad has no shared keys: a foreign byte would show in any answer.
func mixupLoad(t *testing.T) history.Options {
	o := loadOf(t)
	o.SharedClients, o.Rate = 0, 2*o.Rate
	return o
}

func TestNoReplyHoldsAnotherKeysBytesUnderRandomDisconnects(t *testing.T) {
	seed := mctest.Seed(t)
	for _, p := range topologies {
		for _, pool := range []middleware.WorkerPool{middleware.WorkersShared, middleware.WorkersPerServer} {
			if pool == middleware.WorkersPerServer && p.servers == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s, pool %v", p.name, pool), func(t *testing.T) {
				o, servers := p.options(t, middleware.Options{Workers: 4, WorkerPool: pool})
				before := goleak.IgnoreCurrent()
				m := mwtest.Start(t, o)
				goroutines := runtime.NumGoroutine()
				s := &scene{servers: servers, fleet: []*mwtest.MW{m}, addrs: []string{m.Addr()}}
				s.legal(t, mixupLoad(t), func() { s.withQuitters(t, seed) })
				poll(t, "connections that clients ended stay open",
					func() bool { return m.Stats().Snapshot().Open() == 0 })
				poll(t, "goroutines of ended connections stay",
					func() bool { return runtime.NumGoroutine() <= goroutines })
				require.NoError(t, m.Stop())
				goleak.VerifyNone(t, before)
			})
		}
	}
}

func TestNoReplyHoldsAnotherKeysBytesWhileServersBreakOff(t *testing.T) {
	seed := mctest.Seed(t)
	for _, p := range topologies[:4] {
		t.Run(p.name, func(t *testing.T) {
			o, servers := p.options(t, middleware.Options{
				Workers:        8,
				RequestOptions: worker.RequestOptions{Timeout: 100 * time.Millisecond},
			})
			s := stage(t, 1, o, servers)
			s.fails = true // the timeout is short
			s.legal(t, mixupLoad(t), func() {
				rng := rand.New(rand.NewPCG(seed, 0))
				over := make(chan struct{})
				var faults sync.WaitGroup
				faults.Go(func() {
					for {
						f := mctest.Fault{Cut: 1 + rng.IntN(100_000), Reset: rng.IntN(2) == 0}
						switch rng.IntN(5) {
						case 0:
							f = mctest.Fault{Double: true}
						case 1:
							f = mctest.Fault{Bytewise: true}
						case 2:
							f = mctest.Fault{Stall: true}
						case 3:
							f = mctest.Fault{Refuse: true, Cut: 1}
						}
						path := s.paths[0][rng.IntN(len(servers))]
						path.Inject(f)
						select {
						case <-over:
							path.Inject(mctest.Fault{})
							return
						case <-time.After(time.Duration(rng.IntN(10_000)) * time.Microsecond):
						}
						path.Inject(mctest.Fault{})
					}
				})
				s.withQuitters(t, seed)
				s.more(t, 1000)
				close(over)
				faults.Wait()
			})
		})
	}
}
