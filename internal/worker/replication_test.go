package worker_test

import (
	"bufio"
	"fmt"
	"net"
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

// client is a connection that sends a line (and data) and reads reply lines.
type client struct {
	t testing.TB
	c net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	c, err := net.Dial(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &client{t: t, c: c, r: bufio.NewReader(c)}
}

// ask sends request, formatted with args, and returns that many lines of the reply.
func (c *client) ask(request string, lines int, args ...any) string {
	c.t.Helper()
	if len(args) > 0 {
		request = fmt.Sprintf(request, args...)
	}
	require.NoError(c.t, c.c.SetDeadline(time.Now().Add(mctest.Patience))) // a missing reply is a failure, not a hang
	_, err := c.c.Write([]byte(request))
	require.NoError(c.t, err)
	var b strings.Builder
	for range lines {
		line, err := c.r.ReadString('\n')
		require.NoError(c.t, err)
		b.WriteString(line)
	}
	return b.String()
}

// replicas starts n memcached servers and a middleware that replicates to all of them.
func replicas(t testing.TB, n int, o middleware.Options) (m *mwtest.MW, servers []*mctest.Server) {
	t.Helper()
	for range n {
		s := mctest.StartMemcached(t)
		servers = append(servers, s)
		o.Servers = append(o.Servers, route.Server{Name: s.Addr(), Addr: s.Addr()})
	}
	return mwtest.Start(t, o), servers
}

func get(t testing.TB, s *mctest.Server, key string) string {
	t.Helper()
	c := dial(t, s.Addr())
	head := c.ask("get "+key+"\r\n", 1)
	if head == "END\r\n" {
		return ""
	}
	value := c.ask("", 2)
	return strings.TrimSuffix(value, "\r\nEND\r\n")
}

// pools runs a test with each way to assign workers to servers.
func pools(t *testing.T, test func(t *testing.T, o middleware.Options)) {
	t.Run("shared", func(t *testing.T) { test(t, middleware.Options{Workers: 4}) })
	t.Run("per server", func(t *testing.T) {
		test(t, middleware.Options{Workers: 2, WorkerPool: middleware.WorkersPerServer})
	})
}

func TestReadsOfAKeyInOneBatchNeverGoBackInTime(t *testing.T) {
	// Two copies on three servers, which are suspect as soon as they are busy: many reads are sent to a second server.
	o := middleware.Options{
		Workers:        2,
		RequestOptions: worker.RequestOptions{Depth: 2, StallAfter: 50 * time.Microsecond, Timeout: time.Minute},
	}
	o.Placement = route.Options{Replicas: 2, Read: route.ReadRoundRobin}
	m, servers := replicas(t, 3, o)
	other, counter := keysOf(t, o, m, servers, 0, 1)[0], keysOf(t, o, m, servers, 1, 1)[0]
	addr := m.Addr()
	writer, reader := dial(t, addr), dial(t, addr)
	store(writer, other, "x")
	store(writer, counter, "1000")

	var wg sync.WaitGroup
	var finished atomic.Bool
	wg.Go(func() {
		defer finished.Store(true)
		for i := range 4000 {
			assert.Equal(t, fmt.Sprintf("%d\r\n", 1001+i), writer.ask("incr %s 1\r\n", 1, counter))
		}
	})
	latest := 0
	read := func(from int, reply string) {
		var value int
		_, err := fmt.Sscanf(reply, "VALUE "+counter+" 0 4\r\n%d\r\n", &value)
		require.NoError(t, err, "%q", reply)
		require.GreaterOrEqual(t, value, latest, "read %d of the batch", from)
		latest = value
	}
	for !finished.Load() {
		reader.ask("get %s %s\r\nget %s\r\nmg %s k v\r\n", 0, other, counter, counter, counter)
		reader.ask("", 2)
		read(1, reader.ask("", 3))
		read(2, reader.ask("", 3))
		require.Equal(t, "VA 4 k"+counter+"\r\n", reader.ask("", 1))
		read(3, "VALUE "+counter+" 0 4\r\n"+reader.ask("", 1))
	}
	wg.Wait()
}
