package behaviour_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/worker"
)

// heldUp is a draining middleware that can't end because a server has not sent its replies.
type heldUp struct {
	*mwtest.MW
	server  *mctest.Server
	proxy   *mctest.Proxy
	clients []*mctest.Client
	want    []string // the replies that each client still expects
}

// numberOfClients is the number of clients when the drain begins.
const numberOfClients = 16

// startHeldUp begins a drain while each client waits for the replies to a pipeline. A pipeline is larger than one read,
// and smaller than the buffer of a socket.
func startHeldUp(t *testing.T, o middleware.Options) *heldUp {
	t.Helper()
	h := &heldUp{server: mctest.StartMemcached(t)}
	h.proxy = mctest.StartProxy(t, h.server.Addr())
	o.Servers = mwtest.Named(h.proxy.Addr())
	o.Timeout, o.DrainTimeout = 2*mctest.Patience, 2*mctest.Patience
	h.MW = mwtest.Start(t, o)
	for i := range numberOfClients {
		c := h.Dial(t)
		h.clients = append(h.clients, c)
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %d-count 0 0 1\r\n0\r\n", i)))
	}
	h.proxy.Inject(mctest.Fault{Stall: true})
	// Otherwise a test that fails before release would wait for the end of the drain.
	t.Cleanup(func() { h.proxy.Inject(mctest.Fault{}) })
	value := strings.Repeat("v", 600)
	for i, c := range h.clients {
		var batch, want strings.Builder
		for n := range 50 {
			fmt.Fprintf(&batch, "incr %d-count 1\r\nset %d-key-%d 0 0 %d noreply\r\n%s\r\nget %d-key-%d\r\n", i, i, n,
				len(value), value, i, n)
			fmt.Fprintf(&want, "%d\r\nVALUE %d-key-%d 0 %d\r\n%s\r\nEND\r\n", n+1, i, n, len(value), value)
		}
		h.want = append(h.want, want.String())
		require.NoError(t, c.Send([]byte(batch.String())))
	}
	require.True(t, h.IsReady())
	h.Cancel()
	require.Eventually(t, func() bool { return !h.IsReady() }, mctest.Patience, pollPause,
		"a draining middleware must not be ready")
	return h
}

// running fails the test if Run has returned.
func (h *heldUp) running(t *testing.T) {
	t.Helper()
	select {
	case <-h.Ended():
		require.FailNow(t, "Run returned while clients waited for their replies")
	default:
	}
}

// release lets the server answer, and checks the clients' replies.
func (h *heldUp) release(t *testing.T) {
	t.Helper()
	h.running(t)
	h.proxy.Inject(mctest.Fault{})
	for i, c := range h.clients {
		got, err := c.Rest()
		require.NoError(t, err, "client %d", i)
		require.Equal(t, h.want[i], got, "client %d: all replies, then the end", i)
	}
	require.NoError(t, h.Stop())
}

// forEachPool runs test with each kind of pool, with synchronous workers and with workers that pipeline.
func forEachPool(t *testing.T, test func(t *testing.T, o middleware.Options)) {
	t.Helper()
	for _, o := range []struct {
		name string
		middleware.Options
	}{
		{"2 workers, depth 32", middleware.Options{Workers: 2, RequestOptions: worker.RequestOptions{Depth: 32}}},
		{
			"1 worker, depth 1, queue 1",
			middleware.Options{Workers: 1, RequestOptions: worker.RequestOptions{Depth: 1}, Queue: 1},
		},
		{"pool per-server", middleware.Options{WorkerPool: middleware.WorkersPerServer, Workers: 2}},
	} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			test(t, o.Options)
		})
	}
}

func TestADrainAnswersEveryRequestThatWasSentBeforeItClosesTheConnection(t *testing.T) {
	forEachPool(t, func(t *testing.T, o middleware.Options) {
		h := startHeldUp(t, o)
		h.release(t)
		for i := range h.clients {
			// Each noreply and each increment arrived once.
			value, ok := h.server.Get(fmt.Sprintf("%d-count", i))
			require.True(t, ok)
			require.Equal(t, "50", value)
			_, ok = h.server.Get(fmt.Sprintf("%d-key-49", i))
			require.True(t, ok)
		}
	})
}

func TestADrainClosesIdleConnectionsAndAcceptsNoNewOnes(t *testing.T) {
	forEachPool(t, func(t *testing.T, o middleware.Options) {
		h := startHeldUp(t, o)
		// The address is free although the drain continues.
		require.Eventually(t, func() bool {
			c, err := net.Dial("tcp", h.Addr())
			if err == nil {
				c.Close()
			}
			return err != nil
		}, mctest.Patience, pollPause)
		h.running(t)
		h.release(t)
	})
	t.Run("idle connections", func(t *testing.T) {
		m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(mctest.StartMemcached(t))})
		var clients []*mctest.Client
		for i := range 100 {
			c := m.Dial(t)
			clients = append(clients, c)
			if i%2 == 0 {
				require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
			}
		}
		require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 100 }, mctest.Patience, pollPause)
		m.Cancel()
		for _, c := range clients {
			got, err := c.Rest()
			require.NoError(t, err)
			require.Empty(t, got)
		}
		require.NoError(t, m.Stop())
		require.Zero(t, m.Stats().Snapshot().Open())
	})
}

func TestASuccessorServesTheSameAddressWhileTheOldOneDrains(t *testing.T) {
	forEachPool(t, func(t *testing.T, o middleware.Options) {
		h := startHeldUp(t, o)
		o.Listen = []string{h.Addr()}
		o.Servers = mwtest.Servers(mctest.StartMemcached(t))
		var next *middleware.Middleware
		require.Eventually(t, func() bool {
			var err error
			next, err = middleware.New(o)
			require.NoError(t, err)
			return next.Listen() == nil
		}, mctest.Patience, pollPause, "the address must be free as soon as the drain has begun")
		run(t, next)
		c := mctest.MustDial(t, h.Addr())
		require.Equal(t, "END\r\n", c.MustDo(t, "get 0-count\r\n"), "this is another server")
		h.running(t)
		h.release(t)
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"))
	})
}

// run serves m, which listens, until the test ends.
func run(t *testing.T, m *middleware.Middleware) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(t.Context()) }() // the test's context is done before its cleanups run
	t.Cleanup(func() { require.NoError(t, <-ended) })
}

func TestAnAddressCanBeBoundAgainAfterTheDrain(t *testing.T) {
	server := mctest.StartMemcached(t)
	socket := filepath.Join(t.TempDir(), "mcmw.sock")
	o := middleware.Options{Servers: mwtest.Servers(server), Listen: []string{"127.0.0.1:0", "unix:" + socket}}
	for round := range 3 {
		m := mwtest.Start(t, o)
		o.Listen[0] = m.AddrOf(0)
		for n := range o.Listen {
			c := mctest.MustDial(t, m.AddrOf(n))
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"), "round %d, %s", round, o.Listen[n])
		}
		require.NoError(t, m.Stop())
		_, err := os.Stat(socket)
		require.ErrorIs(t, err, os.ErrNotExist, "the socket file must be removed")
	}
}

func TestADrainWaitsForTheRestOfARequestAndAnswersIt(t *testing.T) {
	forEachPool(t, func(t *testing.T, o middleware.Options) {
		o.DrainTimeout = mctest.Patience
		o.Servers = mwtest.Servers(mctest.StartMemcached(t))
		m := mwtest.Start(t, o)
		halves := []struct{ first, rest, reply string }{
			{"get absent", "1 absent2\r\n", "END\r\n"},
			{"set a 0 0 5\r\nva", "lue\r\n", "STORED\r\n"},
			{"set b 0 0 5\r\nvalue\r", "\n", "STORED\r\n"},
			{"set c 0 0 5 noreply\r\nvalue\r\nge", "t c\r\n", "VALUE c 0 5\r\nvalue\r\nEND\r\n"},
			{
				"set d 0 0 2000000\r\nva", strings.Repeat("x", 1_999_998) + "\r\n",
				"SERVER_ERROR object too large for cache\r\n",
			},
		}
		var clients []*mctest.Client
		for _, half := range halves {
			c := m.Dial(t)
			clients = append(clients, c)
			require.Equal(t, "END\r\n", c.MustDo(t, "get absent\r\n"), "the connection is accepted")
			require.NoError(t, c.Send([]byte(half.first)))
		}
		m.Cancel()
		require.Eventually(t, func() bool { return !m.IsReady() }, mctest.Patience, pollPause)
		for i, half := range halves {
			require.NoError(t, clients[i].Send([]byte(half.rest)), "%q", half.first)
			got, err := clients[i].Rest()
			require.NoError(t, err, "%q", half.first)
			require.Equal(t, half.reply, got, "%q", half.first)
		}
		require.NoError(t, m.Stop())
	})
}

func TestClientsThatDoNotFinishAreDisconnectedAtTheDrainTimeout(t *testing.T) {
	for _, tc := range []struct {
		name string
		hang func(t *testing.T, c *mctest.Client)
	}{
		{"half a request", func(t *testing.T, c *mctest.Client) {
			require.NoError(t, c.Send([]byte("set k 0 0 10\r\nva")))
		}},
		{"half a value that is too large", func(t *testing.T, c *mctest.Client) {
			require.NoError(t, c.Send([]byte("set k 0 0 10000000\r\nva")))
		}},
		{"replies that are not read", func(t *testing.T, c *mctest.Client) {
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1000000\r\n"+strings.Repeat("x", 1_000_000)+"\r\n"))
			require.NoError(t, c.Send([]byte(strings.Repeat("get k\r\n", 100))))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := mwtest.Start(t, middleware.Options{
				Servers: mwtest.Servers(mctest.StartMemcached(t)), Workers: 2, DrainTimeout: 100 * time.Millisecond,
			})
			bystander := m.Dial(t)
			tc.hang(t, m.Dial(t))
			require.Equal(t, "END\r\n", bystander.MustDo(t, "get absent\r\n"), "others are served meanwhile")
			require.NoError(t, m.Stop())
			require.Zero(t, m.Stats().Snapshot().Open())
		})
	}
}

func TestADrainBeforeTheServersAreReachedEndsAtOnce(t *testing.T) {
	server := mctest.StartMemcached(t)
	server.Stop()
	m := mwtest.Begin(t, middleware.Options{Servers: mwtest.Servers(server)})
	require.False(t, m.IsReady())
	require.NoError(t, m.Stop())
	select {
	case <-m.Ready():
		require.FailNow(t, "it was never ready")
	default:
	}
}

func TestRequestsOfDisconnectedClientsAreNotSentToServers(t *testing.T) {
	const size, pipelined = 500_000, 400 // more than a batch
	server := mctest.StartMemcached(t)
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(server), DrainTimeout: time.Millisecond,
		RequestOptions: worker.RequestOptions{Timeout: mctest.Patience},
	})
	require.Equal(t, "STORED\r\n",
		m.Dial(t).MustDo(t, fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", size, strings.Repeat("v", size))))
	clients := numberOfClients
	for range clients {
		require.NoError(t, m.Dial(t).Send([]byte(strings.Repeat("get k\r\n", pipelined))))
	}
	served := int64(-1)
	require.Eventually(t, func() bool { // until all workers wait for clients that don't read
		before := served
		served = server.Stat("cmd_get")
		return served > int64(clients) && served == before
	}, mctest.Patience, 20*pollPause)
	require.NoError(t, m.Stop())
	// Some may have been in a round already.
	require.Less(t, server.Stat("cmd_get")-served, int64(clients*pipelined/4))
}

// mover is a client that counts at intervals, and connects to a random middleware when its connection ends.
type mover struct {
	key       string
	addresses *atomic.Pointer[[]string]
	count     int
}

// run counts until quit is closed. Every answer must be one more than the previous one.
func (c *mover) run(quit <-chan struct{}) error {
	tick := time.NewTicker(500 * time.Millisecond) // a load, not a flood
	defer tick.Stop()
	var conn *mctest.Client
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for {
		if conn == nil {
			all := *c.addresses.Load()
			var err error
			if conn, err = mctest.Dial(all[rand.IntN(len(all))]); err != nil {
				return err
			}
		}
		// A write can fail on a connection that has ended; only reading tells whether the request was answered.
		_ = conn.Send([]byte("incr " + c.key + " 1\r\n"))
		line, err := conn.Line()
		switch {
		case errors.Is(err, io.EOF) && line == "": // the increment was not executed
			conn.Close()
			conn = nil
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", c.key, err)
		}
		if c.count++; line != fmt.Sprint(c.count) {
			return fmt.Errorf("%s: received %q, expected %d", c.key, line, c.count)
		}
		select {
		case <-quit:
			return nil
		case <-tick.C:
		}
	}
}

// Connections end at random ages. The test therefore compares how many connections each middleware accepted, not how
// many are open at some moment.
func TestThreeMiddlewaresAddedToOneGetConnectionsThatDifferByAFifthAtMostAndNoClientSeesAnError(t *testing.T) {
	const clients = 1000
	server := mctest.StartMemcached(t)
	start := func() *mwtest.MW {
		return mwtest.Start(t, middleware.Options{
			Servers:       mwtest.Servers(server),
			ClientOptions: netstage.ClientOptions{MaxAge: 4 * time.Second},
		})
	}
	all := []*mwtest.MW{start()}
	addresses := []string{all[0].Addr()}
	var current atomic.Pointer[[]string]
	current.Store(&addresses)
	quit, failed := make(chan struct{}), make(chan error, clients)
	var wg sync.WaitGroup
	setup := mctest.MustDial(t, server.Addr())
	for i := range clients {
		c := &mover{key: fmt.Sprintf("n%d", i), addresses: &current}
		require.Equal(t, "STORED\r\n", setup.MustDo(t, "set "+c.key+" 0 0 1\r\n0\r\n"))
		wg.Go(func() {
			if err := c.run(quit); err != nil {
				failed <- err
			}
		})
	}
	require.Eventually(t, func() bool { return all[0].Stats().Snapshot().Open() >= clients*9/10 }, mctest.Patience,
		10*time.Millisecond)
	more := slices.Clone(addresses)
	for range 3 {
		m := start()
		all = append(all, m)
		more = append(more, m.Addr())
	}
	before := all[0].Stats().Snapshot().Opened
	current.Store(&more)
	var opened []uint64
	require.Eventually(t, func() bool {
		opened = []uint64{all[0].Stats().Snapshot().Opened - before}
		for _, m := range all[1:] {
			opened = append(opened, m.Stats().Snapshot().Opened)
		}
		return slices.Min(opened) > clients/4 && slices.Max(opened)-slices.Min(opened) <= slices.Min(opened)/5
	}, mctest.Patience, 10*time.Millisecond)
	t.Log("connections:", opened)
	close(quit)
	wg.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
}
