package backend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/mctest"
)

// withBothMemcacheds runs a test on the memcached of Debian 12 and on a newer one, with a client and a link of its own.
func withBothMemcacheds(t *testing.T, test func(t *testing.T, c *mctest.Client, l *link.Link)) {
	t.Helper()
	for name, start := range map[string]func(testing.TB, ...string) *mctest.Server{
		"memcached of Debian 12": mctest.StartMemcached, "newer": mctest.StartNewMemcached,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			l, err := newServer(server.Addr(),
				backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience}}).
				Link(t.Context())
			require.NoError(t, err)
			defer l.Close()
			test(t, mctest.MustDial(t, server.Addr()), l)
		})
	}
}

// In the second in which a delayed flush_all takes effect memcached forgets what it is told to store.
func TestAServerStoresAgainAtOnceWhenADelayedFlushHasTakenEffect(t *testing.T) {
	withBothMemcacheds(t, func(t *testing.T, c *mctest.Client, l *link.Link) {
		stores := func() bool {
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"))
			return c.MustDo(t, "get k\r\n") != "END\r\n"
		}
		require.True(t, stores())
		require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all 1000\r\n"))
		_, err := backend.EndFlush(l)
		require.NoError(t, err)
		require.NotEqual(t, "END\r\n", c.MustDo(t, "get k\r\n"), "that flush is not due")
		var asked time.Time
		require.Eventually(t, func() bool {
			if time.Since(asked) > 4*time.Second { // at first, or a busy machine has missed that second
				asked = time.Now()
				require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all 2\r\n"))
			}
			if stores() {
				return false
			}
			kept, err := backend.EndFlush(l)
			require.NoError(t, err)
			return kept == 0 && stores()
		}, mctest.Patience, mctest.Tick)
	})
}

func TestAServerThatDoesNotTellWhenItIsFlushedIsNotFlushed(t *testing.T) {
	for _, asked := range []int{1, 2} {
		peer := mctest.StartScript(t, func(p *mctest.Peer) {
			if asked == 2 {
				p.Expect("stats\r\n")
				p.Send("STAT uptime 5\r\nEND\r\n")
			}
			p.Line()
			p.Send("CLIENT_ERROR not allowed\r\n")
			p.Expect("version\r\n")
			p.Send("VERSION 1.6.38\r\n")
			p.Stall()
		})
		l, err := newServer(peer.Addr(),
			backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience}}).Link(t.Context())
		require.NoError(t, err)
		kept, err := backend.EndFlush(l)
		require.NoError(t, err)
		require.Zero(t, kept)
		version, err := l.Version()
		require.NoError(t, err)
		require.Equal(t, "1.6.38", version)
		l.Close()
	}
}

func TestAServerTellsForHowLongItHasLostNothing(t *testing.T) {
	for told, kept := range map[[2]string]time.Duration{
		{"STAT uptime 1000\r\nSTAT evictions 0\r\n", "STAT oldest 0\r\n"}:   999 * time.Second,
		{"STAT uptime 1000\r\nSTAT evictions 0\r\n", "STAT oldest 760\r\n"}: 299 * time.Second,
		{"STAT uptime 1000\r\nSTAT evictions 1\r\n", "STAT oldest 0\r\n"}:   0,
		{"STAT uptime 1000\r\n", "STAT oldest 0\r\n"}:                       0,
		{"STAT uptime 0\r\nSTAT evictions 0\r\n", "STAT oldest 0\r\n"}:      0,
	} {
		peer := mctest.StartScript(t, func(p *mctest.Peer) {
			p.Expect("stats\r\n")
			p.Send(told[0] + "END\r\n")
			p.Expect("stats settings\r\n")
			p.Send(told[1] + "END\r\n")
			p.Stall()
		})
		l, err := newServer(peer.Addr(),
			backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience}}).Link(t.Context())
		require.NoError(t, err)
		got, err := backend.EndFlush(l)
		require.NoError(t, err)
		require.Equal(t, kept, got, told)
		l.Close()
	}
}

func TestAFlushKeepsTheItemsThatItIsToKeepForAsLongAsTheyLive(t *testing.T) {
	withBothMemcacheds(t, func(t *testing.T, c *mctest.Client, l *link.Link) {
		require.NoError(t, l.Set("kept", []byte("v"), time.Hour))
		require.NoError(t, l.Set("k", []byte("v"), time.Hour))
		require.NoError(t, l.Flush("missing", "kept"))
		require.Equal(t, "VALUE kept 0 1\r\nv\r\nEND\r\n", c.MustDo(t, "get missing k kept\r\n"))
		var left int
		_, err := fmt.Sscanf(c.MustDo(t, "mg kept t\r\n"), "HD t%d", &left)
		require.NoError(t, err)
		require.True(t, 3000 < left && left <= 3600, "%d s", left)
		require.NoError(t, l.Flush())
		require.Equal(t, "END\r\n", c.MustDo(t, "get kept\r\n"))
	})
}
