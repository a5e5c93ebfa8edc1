package backend_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/mctest"
	"mcmw/internal/stats"
)

func TestAServerReportsItsOwnStatistics(t *testing.T) {
	server := mctest.StartMemcached(t, "-m", "2", "-c", "100")
	s := newServer(server.Addr(), backend.Options{})
	before, err := s.Ask(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, before.Limit)
	require.EqualValues(t, 100, before.MaxConnections)
	require.Zero(t, before.Items+before.Evictions+before.Hits+before.Misses)

	c := mctest.MustDial(t, server.Addr())
	value := strings.Repeat("v", 100_000)
	for i := range 30 {
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", i, len(value), value)))
	}
	require.Equal(t, "END\r\n", c.MustDo(t, "get k0\r\n"))
	c.MustDo(t, "get k29\r\n")
	after, err := s.Ask(t.Context())
	require.NoError(t, err)
	require.Positive(t, after.Evictions)
	require.EqualValues(t, 30, after.Items+after.Evictions)
	require.Greater(t, after.Bytes, after.Items*uint64(len(value)))
	require.EqualValues(t, 1, after.Hits)
	require.EqualValues(t, 1, after.Misses)
	require.GreaterOrEqual(t, after.Connections, uint64(2), "c and the connection that asks")
}

func TestMalformedStatisticsOfAServerAreAnError(t *testing.T) {
	for reply, want := range map[string]string{
		"STAT bytes 1\r\nEND\r\n":              "stats without",
		"STAT bytes -1\r\nEND\r\n":             "invalid syntax",
		"ERROR\r\n":                            `unexpected reply "ERROR"`,
		"STAT " + strings.Repeat("x", 9000):    "a line of more than",
		strings.Repeat("STAT a b\r\n", 10_001): "the server sends more than 10000 statistics",
	} {
		_, err := askLiar(t, t.Context(), reply)
		require.ErrorContains(t, err, want)
	}
}

func TestAReplyForAnotherKeyIsNotTakenForARecord(t *testing.T) {
	for _, flags := range []string{"", " O7"} {
		liar := mctest.StartScript(t, func(p *mctest.Peer) {
			p.Line()
			p.Send("VA 1 c5" + flags + "\r\nx\r\n")
			p.Stall()
		})
		err := patientServer(liar.Addr()).Talk(t.Context(), func(l *link.Link) error {
			_, _, err := l.Get("mcmw x")
			return err
		})
		require.ErrorContains(t, err, "unexpected reply")
	}
}

func TestTheEndOfTheContextEndsARequestForStatistics(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := askLiar(t, ctx, "STAT bytes 1\r\n")
	require.Error(t, err)
}

// askLiar asks a server that answers with reply.
func askLiar(t *testing.T, ctx context.Context, reply string) (stats.Memcached, error) {
	t.Helper()
	liar := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Expect("stats\r\n")
		p.Send(reply)
		p.Stall()
	})
	return newServer(liar.Addr(),
		backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience}}).Ask(ctx)
}
