package behaviour_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/worker"
)

// dialers is the number of goroutines of a test that connect concurrently.
const dialers = 16

// reservedFiles is a generous number of other files that a process with a flood of connections needs.
const reservedFiles = 300

// inParallel calls f for 0 to n-1 from several goroutines, and returns when all calls have ended or one has failed.
func inParallel(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	errs := make(chan error, dialers)
	var wg sync.WaitGroup
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < n; i += dialers {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// bystander uses a connection in a closed loop until stop is called, which fails the test if any reply was wrong.
func bystander(t *testing.T, addr string) (stop func()) {
	t.Helper()
	c := mctest.MustDial(t, addr)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set bystander 0 0 5\r\nvalue\r\n"))
	ended := make(chan struct{})
	done := make(chan error, 1)
	served := 0
	go func() {
		for {
			select {
			case <-ended:
				done <- nil
				return
			default:
			}
			reply, err := c.Do("get bystander\r\n")
			if err == nil && reply != "VALUE bystander 0 5\r\nvalue\r\nEND\r\n" {
				err = fmt.Errorf("received %q", reply)
			}
			if err != nil {
				done <- fmt.Errorf("a client that was there before, request %d: %w", served, err)
				return
			}
			served++
		}
	}()
	return func() {
		t.Helper()
		close(ended)
		require.NoError(t, <-done)
		t.Logf("a client that was there before made %d requests meanwhile", served)
	}
}

func TestAFloodOfConnectionsDoesNotTakeTheProcessDown(t *testing.T) {
	flood := 20_000
	if mctest.Race {
		flood = 2_000
	}
	flood = min(flood, allowedFiles(t, flood+reservedFiles)-reservedFiles)
	child := startChild(t, middleware.Options{Servers: mwtest.Servers(mctest.StartMemcached(t)), Workers: 2})
	addr := child.addrs[0]
	observer := mctest.MustDial(t, addr)
	before := child.memory(t)
	stop := bystander(t, addr)

	clients := make([]*mctest.Client, flood)
	t.Cleanup(func() {
		for _, c := range clients {
			if c != nil {
				c.Close()
			}
		}
	})
	inParallel(t, flood, func(i int) (err error) {
		clients[i], err = dialFrom(addr, i)
		return err
	})
	awaitStat(t, observer, "curr_connections", flood+2)
	inParallel(t, flood, func(i int) error {
		reply, err := clients[i].Do("get absent\r\n")
		if err == nil && reply != "END\r\n" {
			err = fmt.Errorf("received %q", reply)
		}
		return err
	})
	each := (child.mostMemory(t) - before) / int64(flood)
	t.Logf("%d connections, each having made a request: %d bytes of resident memory each", flood, each)
	if !mctest.Race {
		require.Less(t, each, int64(16<<10))
	}
	inParallel(t, flood, func(i int) error {
		if i%2 == 0 {
			return clients[i].Reset()
		}
		return clients[i].Close()
	})
	awaitStat(t, observer, "curr_connections", 2)

	// Connections that end at once, some after the beginning of a request.
	inParallel(t, flood, func(i int) error {
		c, err := dialFrom(addr, i)
		if err != nil {
			return err
		}
		if i%3 == 0 {
			_ = c.Send([]byte("set k 0 0 100000\r\nabc"))
		}
		return c.Reset()
	})
	awaitStat(t, observer, "curr_connections", 2)
	stop()
	if !mctest.Race {
		require.Less(t, child.mostMemory(t)-before, int64(flood)*(16<<10),
			"connections that ended must not use more memory than those that stayed")
	}
	require.Equal(t, "STORED\r\n", mctest.MustDial(t, addr).MustDo(t, "set k 0 0 1\r\nv\r\n"))
	observer.Close()
	child.stop(t)
}

func TestAFloodAboveMaxConnectionsIsRefused(t *testing.T) {
	const most, flood = 100, 5_000
	child := startChild(t, middleware.Options{
		Servers: mwtest.Servers(mctest.StartMemcached(t)), Workers: 2,
		ClientOptions: netstage.ClientOptions{MaxConnections: most},
	})
	addr := child.addrs[0]
	observer := mctest.MustDial(t, addr)
	stop := bystander(t, addr)
	for range most - 2 {
		c := mctest.MustDial(t, addr)
		require.Equal(t, "END\r\n", c.MustDo(t, "get absent\r\n"))
	}
	inParallel(t, flood, func(i int) error {
		c, err := dialFrom(addr, i)
		if err != nil {
			return err
		}
		defer c.Close()
		rest, err := c.Rest()
		if err == nil && rest != "SERVER_ERROR too many connections\r\n" {
			err = fmt.Errorf("received %q", rest)
		}
		return err
	})
	awaitStat(t, observer, "curr_connections", most)
	stop()
	require.Equal(t, flood+most, stat(t, observer, "total_connections"))
}

func TestAFloodLeavesTheFilesThatServerConnectionsNeed(t *testing.T) {
	const files, flood = 400, 500
	server := mctest.StartMemcached(t)
	limited := exec.Command("bash", "-c", fmt.Sprintf("ulimit -n %d && exec %q", files, os.Args[0]))
	child := startChildBy(t, limited,
		middleware.Options{
			Servers: mwtest.Servers(server), Workers: 2,
			ServerOptions: backend.ServerOptions{FailureLimit: 1000},
		})
	addr := child.addrs[0]
	observer := mctest.MustDial(t, addr)
	require.Equal(t, "END\r\n", observer.MustDo(t, "get absent\r\n"))
	clients := make([]*mctest.Client, flood)
	inParallel(t, flood, func(i int) (err error) {
		clients[i], err = dialFrom(addr, i)
		return err
	})
	require.Eventually(t, func() bool { return stat(t, observer, "total_connections") == flood+1 }, mctest.Patience,
		pollPause, "no connection waits for a file")
	require.Less(t, child.files(t), files)
	server.Restart()
	require.Eventually(t, func() bool { return observer.MustDo(t, "set k 0 0 1\r\nv\r\n") == "STORED\r\n" },
		mctest.Patience, pollPause)
	for _, c := range clients {
		c.Close()
	}
	observer.Close()
	child.stop(t)
}

func TestWithoutFilesForMoreConnectionsTheOthersContinueAndAcceptingResumes(t *testing.T) {
	const files, flood = 96, 200
	child := startChild(t, middleware.Options{Servers: mwtest.Servers(mctest.StartMemcached(t)), Workers: 2})
	addr := child.addrs[0]
	observer := mctest.MustDial(t, addr)
	require.Equal(t, "END\r\n", observer.MustDo(t, "get absent\r\n"))
	require.NoError(t, unix.Prlimit(child.cmd.Process.Pid, unix.RLIMIT_NOFILE,
		&unix.Rlimit{Cur: files, Max: files}, nil))
	stop := bystander(t, addr)
	clients := make([]*mctest.Client, flood)
	inParallel(t, flood, func(i int) (err error) {
		clients[i], err = dialFrom(addr, i) // the kernel accepts them
		return err
	})
	require.Eventually(t, func() bool { return child.files(t) >= files }, mctest.Patience, pollPause,
		"the files run out")
	for range 1000 {
		require.Equal(t, "END\r\n", observer.MustDo(t, "get absent\r\n"))
	}
	stop()
	for _, c := range clients {
		c.Close()
	}
	c := mctest.MustDial(t, addr)
	c.Timeout = mctest.Patience
	require.Equal(t, "END\r\n", c.MustDo(t, "get absent\r\n"))
	awaitStat(t, observer, "curr_connections", 2+1)
	c.Close()
	observer.Close()
	child.stop(t)
}

// A small request that waits for a server must not keep the buffer of a large one.
func TestSmallRequestsThatWaitHoldLittleMemory(t *testing.T) {
	mctest.RaceSkips(t, mctest.Measures)
	const (
		before = 30      // gets of each client, by which its reader learns that they are small
		most   = 3 << 10 // bytes for each request that waits
	)
	clients := min(1000, allowedFiles(t, 1000+reservedFiles)-reservedFiles)
	server := mctest.StartMemcached(t)
	o := middleware.Options{Servers: mwtest.Servers(server), Workers: 1}
	o.Timeout, o.StallAfter = mctest.Patience, -1
	child := startChild(t, o)
	conns := dialAndUse(t, child.addrs[0], clients)
	for range before {
		inParallel(t, clients, func(i int) error {
			_, err := conns[i].Do("get idle\r\n")
			return err
		})
	}
	idle := child.memory(t)
	server.Freeze()
	inParallel(t, clients, func(i int) error { return conns[i].Send([]byte("get idle\r\n")) })
	each := int64(0)
	for range clients { // until all have been read
		each = max(each, (child.memory(t)-idle)/int64(clients))
	}
	server.Thaw()
	for _, c := range conns {
		require.Equal(t, "END\r\n", c.MustReply(t))
		c.Close()
	}
	t.Logf("%d bytes of resident memory for each request that waits", each)
	assert.Less(t, each, int64(most))
	child.stop(t)
}

func TestClientsThatSendSingleBytesHoldLittleMemoryAndDelayNobody(t *testing.T) {
	clients := 1000
	if mctest.Race {
		clients = 200
	}
	clients = min(clients, allowedFiles(t, clients+reservedFiles)-reservedFiles)
	for _, tc := range []struct {
		name, request, reply string
		sent                 int   // bytes, one by one
		most                 int64 // bytes of memory for each
	}{
		{"a get", "get absent\r\n", "END\r\n", 9, 16 << 10},
		{"a small set", "set k 0 0 10\r\n0123456789\r\n", "STORED\r\n", 20, 16 << 10},
		{
			"a set of a megabyte", fmt.Sprintf("set k 0 0 1000000\r\n%s\r\n", strings.Repeat("x", 1_000_000)),
			"STORED\r\n", 40, 16 << 10,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			child := startChild(t, middleware.Options{Servers: mwtest.Servers(mctest.StartMemcached(t)), Workers: 1})
			addr := child.addrs[0]
			for _, c := range dialAndUse(t, addr, 100) {
				c.Close()
			}
			stop := bystander(t, addr)
			before := child.memory(t)
			slow := make([]*mctest.Client, clients)
			inParallel(t, clients, func(i int) (err error) {
				slow[i], err = mctest.Dial(addr)
				return err
			})
			for n := range tc.sent {
				inParallel(t, clients, func(i int) error { return slow[i].Send([]byte{tc.request[n]}) })
			}
			each := (child.memory(t) - before) / int64(clients)
			t.Logf("%d clients that each sent %d bytes one by one: %d bytes of resident memory each", clients,
				tc.sent, each)
			if !mctest.Race {
				assert.Less(t, each, tc.most)
			}
			stop()
			for _, c := range slow[:3] {
				require.NoError(t, c.Send([]byte(tc.request[tc.sent:])))
				require.Equal(t, tc.reply, c.MustReply(t))
			}
			for _, c := range slow {
				c.Close()
			}
			child.stop(t)
		})
	}
}

// The server sends endlessly, whatever the request. The request fails within its timeout, and the bytes sent use no
// memory.
func TestAnEndlessReplyUsesBoundedMemory(t *testing.T) {
	mctest.RaceSkips(t, mctest.Measures)
	// The last line of the sum in docs/overload.md, doubled because of Go's garbage collector.
	const most = 2 * workersOfChild * 3 * (4 << 20)
	block := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct{ request, begin, repeated string }{
		"a line":               {"get k\r\n", "", block},
		"the line of an error": {"set k 0 0 1\r\nx\r\n", "SERVER_ERROR ", block},
		"statistics":           {"stats items\r\n", "", strings.Repeat("STAT a b\r\n", 5000)},
		"lines of a crawler":   {"lru_crawler enable\r\n", "", strings.Repeat("OK\r\n", 10000)},
		"lines before a noop":  {"mg k v q\r\n", "", strings.Repeat("EN\r\n", 10000)},
		"a value of a gigabyte that does not come": {"get k\r\n", "VALUE k 0 1073741824\r\n", ""},
		"a value of a gigabyte":                    {"get k\r\n", "VALUE k 0 1073741824\r\n", block},
		"a value of a gigabyte to mg":              {"mg k v\r\n", "VA 1073741824\r\n", block},
		"a value of a gigabyte to a quiet mg":      {"mg k v q\r\n", "VA 1073741824\r\n", block},
		"a value of a gigabyte to set":             {"set k 0 0 1\r\nx\r\n", "VALUE k 0 1073741824\r\n", block},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var probes atomic.Int32
			server := mctest.StartScript(t, func(p *mctest.Peer) {
				if p.N == 0 { // the middleware's first connection to it
					p.Answer(nil)
					return
				}
				if line, ok := p.Line(); !ok {
					return
				} else if line == "version" { // the prober's
					probes.Add(1)
					p.Send("VERSION ")
					p.Flood(block)
				}
				p.Send(c.begin)
				if c.repeated == "" {
					p.Stall()
				}
				p.Flood(c.repeated)
			})
			child := startChild(t, middleware.Options{
				Servers:        mwtest.Named(server.Addr()),
				RequestOptions: worker.RequestOptions{Timeout: time.Second},
				ServerOptions:  backend.ServerOptions{FailureLimit: 1},
			})
			client := mctest.MustDial(t, child.addrs[0])
			before := child.memory(t)
			assert.Contains(t, client.MustDo(t, c.request), "SERVER_ERROR ")
			// The prober gets the same endless reply, and has handled it when it connects again.
			require.Eventually(t, func() bool {
				assert.Contains(t, client.MustDo(t, "get k\r\n"), "SERVER_ERROR ")
				return probes.Load() >= 2
			}, mctest.Patience, 50*time.Millisecond)
			took := child.mostMemory(t) - before
			t.Logf("%.1f MiB more than before", float64(took)/(1<<20))
			assert.Less(t, took, int64(most))
		})
	}
}

// memoryUse is the memory of this process, bytes.
type memoryUse struct {
	heap     int64 // live objects
	resident int64
}

func (m memoryUse) String() string {
	return fmt.Sprintf("heap %d KiB, resident %d KiB", m.heap>>10, m.resident>>10)
}

// measureMemory collects garbage and returns the remaining memory.
func measureMemory(t *testing.T) memoryUse {
	t.Helper()
	// Objects in a sync.Pool survive one collection.
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memoryUse{heap: int64(m.HeapAlloc), resident: processMemory(t, os.Getpid(), "VmRSS")}
}

// memoryPipeline is the number of requests in a pipeline of the test of memory; long ones are cheap.
const memoryPipeline = 250

// memoryRounds is the number of rounds after which memory is measured. There are up to mostMemoryRounds if none was
// flat, as on a busy machine, where buffers reach their final size late.
const memoryRounds, mostMemoryRounds = 5, 25

// The allowed growth per round, bytes: a fraction of a byte per request, so that a long run finds a leak in one of a
// hundred requests, plus an amount that does not depend on the length of the round.
const (
	flatPerRequest = 0.125
	flatHeap       = 16 << 10
	flatResident   = 1 << 20
)

// requireFlat measures the memory after equal rounds of requests, which round makes. A leak of requests adds to every
// round, unlike buffers and pools that reach their final size, and a late collector. So the round with the least growth
// shows a leak.
func requireFlat(t *testing.T, requests int, round func() memoryUse) {
	t.Helper()
	share := int64(flatPerRequest * float64(requests))
	least := memoryUse{math.MaxInt64, math.MaxInt64}
	flat := func() bool { return least.heap < share+flatHeap && least.resident < share+flatResident }
	uses := []memoryUse{round()}
	for n := 1; n < memoryRounds || n < mostMemoryRounds && !flat(); n++ {
		use, last := round(), uses[n-1]
		uses = append(uses, use)
		least = memoryUse{min(least.heap, use.heap-last.heap), min(least.resident, use.resident-last.resident)}
	}
	t.Logf("after rounds of %d requests: %v", requests, uses)
	require.Less(t, least.heap, share+flatHeap, "bytes by which the heap grew in every round")
	require.Less(t, least.resident, share+flatResident, "bytes by which the process grew in every round")
}

// TestMemoryStaysFlatOverManyRequests repeats the same pipeline, so that every buffer soon has its final size, and
// later growth comes from the requests.
func TestMemoryStaysFlatOverManyRequests(t *testing.T) {
	total := 100_000
	if mctest.Long() {
		total = 10_000_000
	}
	const connections = 4
	servers := mctest.StartMemcacheds(t, 3, "-t", "1")
	m := mwtest.Start(t, middleware.Options{
		Servers:        mwtest.Servers(servers...),
		RequestOptions: worker.RequestOptions{Sharded: true, Depth: 2 * memoryPipeline, Timeout: mctest.Patience},
	})

	// Mostly reads, which are cheaper, and writes for which the servers' replies must be compared.
	value := strings.Repeat("v", 30)
	set := fmt.Sprintf("set 1.k 0 0 %d\r\n%s\r\n", len(value), value)
	hit := fmt.Sprintf("VALUE 1.k 0 %d\r\n%s\r\n", len(value), value)
	const gets = memoryPipeline - 20
	request := set + strings.Repeat("get 1.k\r\n", gets) + strings.Repeat("get 1.k 2.missing 3.missing 1.k\r\n", 16) +
		"mg 1.k s q\r\nms 2.k 2 q\r\nok\r\ntouch 1.k 0\r\n"
	want := "STORED\r\n" + strings.Repeat(hit+"END\r\n", gets) + strings.Repeat(hit+hit+"END\r\n", 16) +
		fmt.Sprintf("HD s%d\r\nTOUCHED\r\n", len(value))

	clients := make([]*mctest.Client, connections)
	for i := range clients {
		clients[i] = m.Dial(t)
	}
	exchange := func(n int) {
		var wg sync.WaitGroup
		errs := make([]error, connections)
		for i, c := range clients {
			require.NoError(t, c.Conn.SetDeadline(time.Now().Add(10*time.Minute)))
			wg.Go(func() {
				errs[i] = exchangeLoop(c.Conn, []byte(request), []byte(want), make([]byte, len(want)),
					n/connections/memoryPipeline)
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
	}
	requireFlat(t, total/memoryRounds, func() memoryUse {
		exchange(total / memoryRounds)
		use := measureMemory(t)
		if mctest.Race { // the race detector's memory grows more than that; the round memory runs this test without it
			use.resident = 0
		}
		return use
	})
}
