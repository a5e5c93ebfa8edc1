package backend_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
)

// logged is a handler that calls a function with each record's message.
type logged func(message string)

func (f logged) Enabled(context.Context, slog.Level) bool { return true }

func (f logged) Handle(_ context.Context, r slog.Record) error { f(r.Message); return nil }

func (f logged) WithAttrs([]slog.Attr) slog.Handler { return f }

func (f logged) WithGroup(string) slog.Handler { return f }

func TestAServerThatMovesIsNotReadOnceItHasTheNewAddress(t *testing.T) {
	var s *backend.Server
	looks := 0
	s = backend.NewServer(route.Server{Name: "a", Addr: "before"}, backend.Options{
		Changes: new(atomic.Uint32),
		Log: slog.New(logged(func(message string) {
			if message == "a server has another address" {
				looks++
				require.Equal(t, "after", s.Addr())
				require.False(t, s.Readable())
			}
		})),
	})
	s.Move("after")
	require.Positive(t, looks)
}

func TestAServerThatMovesWhileItIsProbedIsCleanedAtTheNewAddress(t *testing.T) {
	probed := make(chan *backend.Server, 1)
	memcached := mctest.StartMemcached(t)
	var probes atomic.Int32
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		for line, ok := p.Line(); ok; line, ok = p.Line() {
			if line == "version" && probes.Add(1) == 2 { // then it is taken for clean
				(<-probed).Move(memcached.Addr())
			}
			if !p.Known(line) {
				p.Send("OK\r\n")
			}
		}
	})
	require.Equal(t, "STORED\r\n", mctest.MustDial(t, memcached.Addr()).MustDo(t, "set k 0 0 3\r\nold\r\n"))
	s := newServer(script.Addr(), backend.Options{})
	probed <- s
	s.Missed([]byte("k"), context.Canceled)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Probe(ctx)
	}()
	s.AwaitReadable(ctx, time.Now().Add(mctest.Patience))
	cancel()
	<-ended
	_, held := memcached.Get("k")
	require.False(t, held)
}
