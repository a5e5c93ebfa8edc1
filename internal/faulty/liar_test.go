package faulty_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/faulty"
	"mcmw/internal/mctest"
)

// talk sends a series of requests 16 times, so that each request of the series gets a lie once. It returns the bytes
// that came until the connection ended or nothing came for a while.
func talk(t *testing.T, addr string) string {
	t.Helper()
	c := mctest.MustDial(t, addr)

	for i := range 16 {
		for _, request := range []string{
			"set k%d 7 0 3\r\nabc\r\n", "get k%d none\r\n", "ms k%d 3 F7 O1 k\r\nabc\r\n",
			"mg k%d v f O2 k\r\n", "md k%d q\r\nmg k%[1]d v q\r\nmn\r\n",
		} {
			if c.Send(fmt.Appendf(nil, request, i)) != nil {
				break
			}
		}
	}
	_ = c.CloseWrite()
	c.Timeout = 5 * time.Second
	rest, _ := c.Rest()
	return rest
}

// requireMuch requires that a lie without an end sends far more than was requested.
func requireMuch(t *testing.T, addr string) {
	t.Helper()
	const much = 1 << 20
	c := mctest.MustDial(t, addr)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.Send(bytes.Repeat([]byte("get none\r\n"), 16)))
	require.NoError(t, c.Conn.SetReadDeadline(time.Now().Add(mctest.Patience)))
	n, err := io.CopyN(io.Discard, c.Conn, much)
	require.NoError(t, err)
	require.EqualValues(t, much, n)
}

func TestALiarTellsTheTruthUntilALieIsSet(t *testing.T) {
	server := mctest.StartMemcached(t)
	liar, err := faulty.StartLiar(server.Addr())
	require.NoError(t, err)
	defer liar.Stop()
	truth := talk(t, server.Addr())
	require.Contains(t, truth, "VALUE k0 7 3\r\nabc\r\nEND\r\nHD O1 kk0\r\nVA 3 f7 O2 kk0\r\nabc\r\nMN\r\n")
	require.Equal(t, truth, talk(t, liar.Addr()))
	c := mctest.MustDial(t, liar.Addr())
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set listed 0 0 1\r\nx\r\n"))
	require.NoError(t, c.Send([]byte("lru_crawler metadump all\r\nversion\r\n")))
	require.NoError(t, c.CloseWrite())
	list, err := c.Rest()
	require.NoError(t, err)
	require.Regexp(t, `^key=listed .*\nEND\r\nVERSION .*\r\n$`, list)
	for _, lie := range faulty.Lies {
		t.Run(lie.Name, func(t *testing.T) {
			liar.Tell(&lie)
			if lie.Name == "line" || lie.Name == "list" {
				requireMuch(t, liar.Addr())
			} else if told := talk(t, liar.Addr()); lie.Name != "late" && lie.Name != "drip" {
				// late and drip send the same bytes, only slowly.
				assert.NotEqual(t, truth, told)
			}
			liar.Tell(nil)
			require.Equal(t, truth, talk(t, liar.Addr()))
		})
	}
}
