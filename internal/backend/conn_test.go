package backend_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

func newServer(addr string, o backend.Options) *backend.Server {
	o.ConnectTimeout, o.Log = cmp.Or(o.ConnectTimeout, time.Second), slog.New(slog.DiscardHandler)
	if o.FailureLimit == 0 {
		o.FailureLimit = 3
	}
	o.MissedMemory, o.Changes = 1<<20, new(atomic.Uint32)
	return backend.NewServer(route.Server{Name: "a", Addr: addr}, o)
}

func TestARenamedServerKeepsWhatItMissedUnderItsPreviousName(t *testing.T) {
	for name, event := range map[string]func(previous *backend.Server){
		"a key that it left behind is written": func(s *backend.Server) { s.LeaveBehind([]byte("k")) },
		"it misses a write":                    func(s *backend.Server) { s.Missed([]byte("k"), assert.AnError) },
		"it goes down":                         func(s *backend.Server) { s.Failed(assert.AnError) },
	} {
		t.Run(name, func(t *testing.T) {
			o := backend.Options{
				ServerOptions: backend.ServerOptions{FailureLimit: 1, MissedMemory: 1 << 20},
				Changes:       new(atomic.Uint32), Log: slog.New(slog.DiscardHandler),
			}
			previous := backend.NewServer(route.Server{Name: "a", Addr: "-"}, o)
			renamed := previous.Rename(route.Server{Name: "b", Addr: "-"}, o)
			event(previous)
			renamed.Succeed(previous)
			renamed.Reclaim()
			assert.False(t, renamed.Readable())
		})
	}
}

func TestAServerThatAnswersEverySecondProbeStaysDown(t *testing.T) {
	probes := make(chan int, 100)
	n := 0
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		n++ // one connection is made at a time
		probes <- n
		if n%2 == 1 {
			p.Reset()
			return
		}
		p.Answer(func(string) string { return "VERSION 1\r\n" })
	})
	s := newServer(script.Addr(), backend.Options{ServerOptions: backend.ServerOptions{FailureLimit: 1}})
	stop := probe(t, s)
	s.Failed(assert.AnError)
	for range 8 {
		<-probes
		assert.True(t, s.Down())
	}
	stop()
	for _, tr := range s.Health().Transitions {
		if tr.To == backend.Up.String() {
			assert.Zero(t, tr.Count)
		}
	}
}

func TestAServerComesBackOnceItAnswersAndTheKeysThatItMissedAreDeleted(t *testing.T) {
	m := mctest.StartMemcached(t)
	s := newServer(m.Addr(), backend.Options{})
	probe(t, s)
	c := backend.NewConn(s, time.Second)
	require.Nil(t, c.Connect(t.Context()))
	long := strings.Repeat("k\t", 125) // in base64 it would be too long
	c.Out.AddString("set k 0 0 1\r\nx\r\nset other 0 0 1\r\nx\r\nset " + long + " 0 0 1\r\nx\r\n")
	require.Nil(t, c.Flush())
	for len(c.Unparsed()) < 24 {
		arrived, failure := c.Fill(0, stats.Now()+int64(time.Second))
		require.Nil(t, failure)
		require.True(t, arrived)
	}
	s.Missed([]byte("k"), assert.AnError)
	s.Missed([]byte("binary \r\n key"), assert.AnError)
	s.Missed([]byte(long), assert.AnError)
	require.Eventually(t, s.Readable, mctest.Patience, mctest.Tick)
	for _, key := range []string{"k", long} {
		_, ok := m.Get(key)
		assert.False(t, ok)
	}
	_, ok := m.Get("other")
	assert.True(t, ok)
	s.MissedAll(assert.AnError)
	require.Eventually(t, s.Readable, mctest.Patience, mctest.Tick)
	_, ok = m.Get("other")
	assert.False(t, ok, "it was flushed")
}

// A server that was suspended still holds requests of abandoned connections, and may serve new connections first.
func TestMissedKeysAreDeletedOnlyAfterAbandonedWritesHaveEnded(t *testing.T) {
	deleted := make(chan struct{})
	order := make(chan string, 2)
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		if p.N > 0 {
			p.Answer(func(line string) string {
				if line == "delete k" {
					order <- "deletion"
					close(deleted)
					return "NOT_FOUND\r\n"
				}
				return "VERSION 1\r\n"
			})
			return
		}
		p.Stall() // until the connection is given up
		select {
		case <-deleted:
		case <-time.After(500 * time.Millisecond): // enough time for a deletion that comes too early
		}
		order <- "write"
	})
	s := newServer(script.Addr(), backend.Options{})
	c := backend.NewConn(s, time.Second)
	require.Nil(t, c.Connect(context.Background()))
	c.Out.AddString("set k 0 0 1\r\nx\r\n")
	require.Nil(t, c.Flush())
	c.Retire()
	s.Missed([]byte("k"), assert.AnError)
	probeUntilReadable(t, s)
	assert.Equal(t, "write", <-order)
	assert.Equal(t, "deletion", <-order)

	require.Nil(t, c.Connect(context.Background()))
	c.Retire() // the prober has ended, so the connection is closed
}

func TestAWriteAbandonedWhileEarlierOnesSettleIsSettledToo(t *testing.T) {
	deleted := make(chan string, 4)
	var mayEnd [2]context.Context
	var end [len(mayEnd)]func()
	for i := range mayEnd {
		mayEnd[i], end[i] = context.WithCancel(t.Context())
	}
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		if p.N < len(mayEnd) {
			p.Stall() // until the connection is given up
			<-mayEnd[p.N].Done()
			return
		}
		p.Answer(func(line string) string {
			if key, ok := strings.CutPrefix(line, "delete "); ok {
				deleted <- key
				return "NOT_FOUND\r\n"
			}
			return "VERSION 1\r\n"
		})
	})
	s := newServer(script.Addr(),
		backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience}})
	write := func() (giveUp func(key string)) {
		c := backend.NewConn(s, time.Second)
		require.Nil(t, c.Connect(t.Context()))
		c.Out.AddString("set k 0 0 1\r\nx\r\n")
		require.Nil(t, c.Flush())
		return func(key string) {
			c.Retire()
			s.Missed([]byte(key), assert.AnError)
		}
	}
	first, second := write(), write()
	first("first")
	stop := probe(t, s)
	taken := func() bool { return s.Retired() == 0 || len(deleted) > 0 }
	require.Eventually(t, taken, mctest.Patience, mctest.Tick)
	second("second")
	end[0]()
	require.Equal(t, "first", <-deleted)
	require.Eventually(t, taken, mctest.Patience, mctest.Tick)
	require.Empty(t, deleted, "the second write may still take effect")
	require.False(t, s.Readable())
	end[1]()
	require.Equal(t, "second", <-deleted)
	require.Eventually(t, s.Readable, mctest.Patience, mctest.Tick)
	stop()
	require.True(t, s.Settled())
}

func TestARequestIsWrittenAfterTheRestOfTheOneBefore(t *testing.T) {
	const size = 16 << 20 // more than a socket takes at once
	read := make(chan struct{})
	got := make(chan string, 1)
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		if _, ok := p.Line(); !ok {
			return
		}
		p.Send("SERVER_ERROR object too large for cache\r\n") // as memcached does before it reads the value
		<-read
		rest := make([]byte, size+len("\r\nversion\r\n"))
		_, _ = io.ReadFull(p.Reader(), rest)
		got <- string(rest[size:])
		p.Send("VERSION 1\r\n")
	})
	s := newServer(script.Addr(),
		backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience}})
	c := backend.NewConn(s, time.Second)
	require.Nil(t, c.Connect(t.Context()))
	answered := func() {
		for !strings.HasSuffix(string(c.Unparsed()), "\r\n") {
			_, err := c.Fill(0, stats.Now()+int64(mctest.Patience))
			require.Nil(t, err)
		}
		c.Take(len(c.Unparsed()))
		c.Reply()
	}
	c.Out.AddString(fmt.Sprintf("set k 0 0 %d\r\n", size))
	c.Out.Add(make([]byte, size))
	c.Out.AddString("\r\n")
	require.Nil(t, c.Flush())
	answered()
	c.Out.AddString("version\r\n")
	require.Nil(t, c.Flush())
	close(read)
	require.Equal(t, "\r\nversion\r\n", <-got)
	answered()
	require.Nil(t, c.EndRound())
	c.Close()
}

func TestAServerThatDoesNotCloseAnAbandonedConnectionIsNotSettled(t *testing.T) {
	end := make(chan struct{})
	script := mctest.StartScript(t, func(*mctest.Peer) { <-end })
	defer close(end)
	s := newServer(script.Addr(),
		backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: 50 * time.Millisecond}})
	c := backend.NewConn(s, time.Second)
	require.Nil(t, c.Connect(t.Context()))
	c.Retire()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Probe(ctx)
	require.False(t, s.Settled())
}

func TestDeletionsAreRepeatedWhenAServerSendsOneReplyTooMany(t *testing.T) {
	var extra, deleted atomic.Int32
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(line string) string {
			if !strings.HasPrefix(line, "delete ") {
				return "VERSION 1\r\n"
			}
			if extra.Add(1) == 1 {
				return "DELETED\r\nDELETED\r\n"
			}
			deleted.Add(1)
			return "DELETED\r\n"
		})
	})
	s := newServer(script.Addr(), backend.Options{})
	s.Missed([]byte("a"), assert.AnError)
	s.Missed([]byte("b"), assert.AnError)
	probeUntilReadable(t, s)
	require.EqualValues(t, 3, deleted.Load(), "the extra reply hid one of the first two deletions; both are repeated")
}

// probe runs the prober of s until stop is called or the test ends.
func probe(t *testing.T, s *backend.Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var prober sync.WaitGroup
	prober.Go(func() { s.Probe(ctx) })
	stop = func() {
		cancel()
		prober.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// probeUntilReadable runs the prober of s until the server is readable.
func probeUntilReadable(t *testing.T, s *backend.Server) {
	t.Helper()
	stop := probe(t, s)
	require.Eventually(t, s.Readable, mctest.Patience, mctest.Tick)
	stop()
}
