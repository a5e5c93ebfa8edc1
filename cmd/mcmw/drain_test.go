package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// counter is a client that increments its own key in pipelines. When its connection ends, it sends the unanswered
// increments again, to another mcmw.
type counter struct {
	key     string
	address *atomic.Pointer[string] // of the mcmw to connect to
	value   int                     // the last reply
	moves   atomic.Int64            // how often it connected again
}

// count sends pipelines of increments until stop is closed. Every reply must be one more than the previous one. This
// detects an increment that was lost, and one that was executed although its reply never came.
func (c *counter) count(stop <-chan struct{}) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { conn.Close() }()
	greeted := false // whether conn has brought a reply, so mcmw had accepted it
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		for unanswered := 1 + n%20; unanswered > 0; {
			// A connection that is just ending may refuse the write; only reading tells which increments were answered.
			_ = conn.Send([]byte(strings.Repeat("incr "+c.key+" 1\r\n", unanswered)))
			answered, err := c.replies(conn, unanswered)
			unanswered -= answered
			greeted = greeted || answered > 0
			if err == nil {
				continue
			}
			if !errors.Is(err, io.EOF) && (greeted || !errors.Is(err, syscall.ECONNRESET)) {
				return fmt.Errorf("%s, after %d: %w", c.key, c.value, err)
			}
			conn.Close()
			c.moves.Add(1)
			next, err := c.dial()
			if err != nil {
				return err
			}
			conn, greeted = next, false
		}
	}
}

// dial connects to the current mcmw, which may change meanwhile.
func (c *counter) dial() (*mctest.Client, error) {
	for {
		address := c.address.Load()
		conn, err := mctest.Dial(*address)
		if err == nil || c.address.Load() == address {
			return conn, err
		}
	}
}

// replies reads up to n replies. At the end of the connection between two replies it returns io.EOF.
func (c *counter) replies(conn *mctest.Client, n int) (answered int, err error) {
	for ; answered < n; answered++ {
		line, err := conn.Line()
		if err != nil {
			if line != "" {
				err = fmt.Errorf("the connection ended within the reply %q: %w", line, errTorn)
			}
			return answered, err
		}
		c.value++
		if line != fmt.Sprint(c.value) {
			return answered, fmt.Errorf("received %q, expected %d", line, c.value)
		}
	}
	return answered, nil
}

var errTorn = errors.New("torn reply")

// counting is a set of clients that count through the current mcmw.
type counting struct {
	server   *mctest.Server
	counters []*counter
	current  atomic.Pointer[string]
	quit     chan struct{}
	wg       sync.WaitGroup
	failed   chan error
}

// startCounting lets clients count through the mcmw at address, which is in front of server.
func startCounting(t *testing.T, server *mctest.Server, address string) *counting {
	t.Helper()
	const clients = 24
	setup := mctest.MustDial(t, server.Addr())
	defer setup.Close()
	g := &counting{server: server, quit: make(chan struct{}), failed: make(chan error, clients)}
	g.current.Store(&address)
	for i := range clients {
		c := &counter{key: fmt.Sprintf("counter-%d", i), address: &g.current}
		g.counters = append(g.counters, c)
		require.Equal(t, "STORED\r\n", setup.MustDo(t, "set "+c.key+" 0 0 1\r\n0\r\n"))
		g.wg.Go(func() {
			if err := c.count(g.quit); err != nil {
				g.failed <- err
			}
		})
	}
	return g
}

// await waits until the server has executed n more increments.
func (g *counting) await(t *testing.T, n int64) {
	t.Helper()
	before := g.server.Stat("incr_hits")
	require.Eventually(t, func() bool { return g.server.Stat("incr_hits") > before+n }, mctest.Patience, mctest.Tick)
}

// stop ends the counting. It requires that all clients connected again, that none saw an error, and that no increment
// was lost or executed twice.
func (g *counting) stop(t *testing.T) {
	t.Helper()
	close(g.quit)
	g.wg.Wait()
	close(g.failed)
	for err := range g.failed {
		t.Error(err)
	}
	for _, c := range g.counters {
		require.NotZero(t, c.moves.Load())
		value, ok := g.server.Get(c.key)
		require.True(t, ok)
		require.Equal(t, fmt.Sprint(c.value), strings.TrimSpace(value))
	}
}

func TestClientsSeeNoErrorWhenMcmwIsReplacedUnderLoad(t *testing.T) {
	const replacements = 4
	server := mctest.StartMemcached(t)
	begin := func() (*process, string) {
		p := startProcess(t, "serve", "-p", "0", "-m", server.Addr(), "--admin", "off", "--drain-timeout", "1h",
			"--timeout", "1h")
		return p, awaitEntry(t, p.stderr, "ready").Listen[0]
	}
	p, address := begin()
	g := startCounting(t, server, address)
	for range replacements {
		g.await(t, 5000)
		next, address := begin()
		g.current.Store(&address)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.exit(t))
		require.NotZero(t, awaitEntry(t, p.stderr, "stopped").Requests)
		p = next
	}
	g.stop(t)
}

func TestClientsMoveToAnotherMcmwWithinTheConnectionAgeWithoutAnError(t *testing.T) {
	server := mctest.StartMemcached(t)
	begin := func() string {
		p := startProcess(t, "serve", "-p", "0", "-m", server.Addr(), "--admin", "off", "--max-connection-age", "200ms",
			"--timeout", "1h")
		return awaitEntry(t, p.stderr, "ready").Listen[0]
	}
	address := begin()
	g := startCounting(t, server, address)
	for range 3 {
		g.await(t, 5000)
		next := begin()
		g.current.Store(&next)
		require.Eventually(t, func() bool {
			c, err := mctest.Dial(address)
			require.NoError(t, err)
			defer c.Close()
			reply, _ := c.Do("stats\r\n") // on a busy machine this connection may be too old before it is answered
			return strings.Contains(reply, "STAT curr_connections 1\r\n")
		}, mctest.Patience, 10*time.Millisecond, "all clients but this one have left")
		address = next
	}
	g.stop(t)
}
