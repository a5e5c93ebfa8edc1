// Package mwtest starts the whole middleware inside a test. It is separate from mctest so that the tests of the
// middleware's own packages can use mctest.
package mwtest

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// MW is a running middleware. It ends with the test that started it.
type MW struct {
	*middleware.Middleware

	cancel context.CancelFunc
	ended  chan struct{} // closed when Run returned
	err    error         // of Run; read after ended
}

// Start runs a middleware with the options o and waits until it is ready. If o.Listen is empty, it listens on a free
// loopback port. The test fails if Run returns an error.
func Start(t testing.TB, o middleware.Options) *MW {
	t.Helper()
	m := Begin(t, o)
	select {
	case <-m.Ready():
	case <-m.ended:
		t.Fatalf("the middleware ended before it was ready: %v", m.err)
	case <-time.After(mctest.Patience):
		t.Fatalf("the middleware was not ready within %v", mctest.Patience)
	}
	return m
}

// patient returns o with a free port to listen on, and with defaults for a busy machine, on which any server may be
// slow: no server is ever suspect, and timeouts are mctest.Patience. Values that o sets are kept.
func patient(o middleware.Options) middleware.Options {
	if len(o.Listen) == 0 {
		o.Listen = []string{"127.0.0.1:0"}
	}
	o.StallAfter = cmp.Or(o.StallAfter, -1)
	o.Timeout = cmp.Or(o.Timeout, mctest.Patience)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, mctest.Patience)
	o.EachPool(func(p *middleware.PoolOptions) { p.ConnectTimeout = cmp.Or(p.ConnectTimeout, mctest.Patience) })
	return o
}

// Begin is Start without waiting: the middleware listens, but may not be connected to its servers. Timeouts that o does
// not set are long, so that a busy machine does not look like a failing server.
func Begin(t testing.TB, o middleware.Options) *MW {
	t.Helper()
	o = patient(o)
	inner, err := middleware.New(o)
	if err != nil {
		t.Fatalf("middleware: %v", err)
	}
	if err := inner.Listen(); err != nil {
		t.Fatalf("middleware: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &MW{Middleware: inner, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		m.err = inner.Run(ctx)
	}()
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Errorf("the middleware ended with: %v", err)
		}
	})
	return m
}

// Apply applies new options, with the same defaults as Begin.
func (m *MW) Apply(ctx context.Context, o middleware.Options) error {
	return m.Middleware.Apply(ctx, patient(o))
}

// Cancel cancels Run's context. It does not wait.
func (m *MW) Cancel() { m.cancel() }

// Ended returns a channel that is closed when Run has returned.
func (m *MW) Ended() <-chan struct{} { return m.ended }

// Stop cancels Run's context, waits until Run has returned, and returns its error.
func (m *MW) Stop() error {
	m.cancel()
	select {
	case <-m.ended:
		return m.err
	case <-time.After(mctest.Patience):
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return fmt.Errorf("the middleware did not end within %v; its goroutines:\n%s", mctest.Patience, stacks)
	}
}

// Addr returns the first address on which it listens, in the form for mctest.Dial.
func (m *MW) Addr() string { return m.AddrOf(0) }

// AddrOf returns the address i on which it listens, in the order of Options.Listen.
func (m *MW) AddrOf(i int) string {
	addr := m.Addrs()[i]
	if addr.Network() == "unix" {
		return "unix:" + addr.String()
	}
	return addr.String()
}

// Dial connects a client to the first address. The connection is closed when the test ends.
func (m *MW) Dial(t testing.TB) *mctest.Client {
	t.Helper()
	return mctest.MustDial(t, m.Addr())
}

// Settled returns the statistics once they include all requests whose replies were read: a worker counts the calls of a
// round after sending its replies.
func (m *MW) Settled(t testing.TB) *stats.Snapshot {
	t.Helper()
	require.Eventually(t, func() bool {
		s := m.Stats().Snapshot()
		return s.Waiting() == 0 && s.Serving() == 0 && s.WorkersBusy == 0
	}, mctest.Patience, mctest.Tick, "requests are still in progress")
	// a new snapshot: the first counters of the previous one may be older than the end of the last requests
	return m.Stats().Snapshot()
}

// AwaitUp waits until every server serves reads. Then it holds nothing that it must not hold.
func (m *MW) AwaitUp(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(m.Stats().Snapshot().Servers, func(s stats.ServerSnapshot) bool {
			return s.Health.State != "up"
		})
	}, mctest.Patience, mctest.Tick, "a server is not up")
}

// Servers returns real servers for Options.Servers, named server-1, server-2 and so on.
func Servers(servers ...*mctest.Server) []route.Server {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return Named(addrs...)
}

// Named returns addresses as servers for Options.Servers, named server-1, server-2 and so on.
func Named(addrs ...string) []route.Server {
	named := make([]route.Server, len(addrs))
	for i, addr := range addrs {
		named[i] = route.Server{Name: fmt.Sprintf("server-%d", i+1), Addr: addr}
	}
	return named
}
