package behaviour_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
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
