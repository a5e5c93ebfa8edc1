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

// counter is a client that increments a key of its own in pipelines. It keeps what is not answered, and sends it again to
// another mcmw when its connection ends.
type counter struct {
	key     string
	address *atomic.Pointer[string] // of the mcmw to connect to
	value   int                     // what the last reply said
	moves   int                     // how often it had to connect again
}

// count makes pipelines of increments until stop is closed. Every reply must be one more than the one before: an increment
// that was lost, or one that was done although its reply never came, shows.
func (c *counter) count(stop <-chan struct{}) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { conn.Close() }()
	greeted := false // conn has brought a reply: mcmw accepted it
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		for unanswered := 1 + n%20; unanswered > 0; {
			// A connection that ends just now may refuse the write; what there is to know is in what can be read.
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
			c.moves++
			if conn, err = c.dial(); err != nil {
				return err
			}
			greeted = false
		}
	}
}

// dial connects to the mcmw that is current, which may change meanwhile.
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

func TestClientsThatConnectAgainSeeNoErrorWhenMcmwIsReplacedUnderLoad(t *testing.T) {
	const clients, replacements = 24, 4
	server := mctest.StartMemcached(t)
	begin := func() (*process, string) {
		p := startProcess(t, "serve", "-p", "0", "-m", server.Addr(), "--admin", "off", "--drain-timeout", "1h", "--timeout", "1h")
		return p, awaitEntry(t, p.stderr, "ready").Listen[0]
	}
	p, address := begin()
	var current atomic.Pointer[string]
	current.Store(&address)
	setup := mctest.MustDial(t, address)
	stop, failed := make(chan struct{}), make(chan error, clients)
	var wg sync.WaitGroup
	counters := make([]*counter, clients)
	for i := range counters {
		c := &counter{key: fmt.Sprintf("counter-%d", i), address: &current}
		counters[i] = c
		require.Equal(t, "STORED\r\n", setup.MustDo(t, "set "+c.key+" 0 0 1\r\n0\r\n"))
		wg.Go(func() {
			if err := c.count(stop); err != nil {
				failed <- err
			}
		})
	}
	setup.Close()
	for range replacements {
		before := server.Stat("incr_hits")
		require.Eventually(t, func() bool { return server.Stat("incr_hits") > before+5000 }, mctest.Patience, time.Millisecond)
		next, address := begin()
		current.Store(&address)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.exit(t))
		require.NotZero(t, awaitEntry(t, p.stderr, "stopped").Requests)
		p = next
	}
	close(stop)
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	for _, c := range counters {
		require.NotZero(t, c.moves)
		value, ok := server.Get(c.key)
		require.True(t, ok)
		require.Equal(t, fmt.Sprint(c.value), strings.TrimSpace(value))
	}
}
