package netstage_test

import (
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
)

func TestABinaryClientGetsTheErrorUnknownCommandInItsProtocol(t *testing.T) {
	m := start(t, middleware.Options{})
	// A get of the key "k" with the opaque number 0xdeadbeef.
	request, err := hex.DecodeString("80000001000000000000" + "0001" + "deadbeef" + "0000000000000000" + "6b")
	require.NoError(t, err)
	want, err := hex.DecodeString("81000000000000810000" + "000f" + "deadbeef" + "0000000000000000")
	require.NoError(t, err)
	for at := range len(request) {
		c := mctest.MustDial(t, m.Addr())
		require.NoError(t, c.Send(request[:at]))
		require.NoError(t, c.Send(request[at:]))
		rest, err := c.Rest()
		require.NoError(t, err)
		require.Equal(t, string(want)+"Unknown command", rest)
	}
}

// libmemcached takes every status for a miss in these gets, which no other client sends for one key. PHP's get would
// say NOT FOUND.
func TestAGetOfLibmemcachedInTheBinaryProtocolIsClosedWithoutAReply(t *testing.T) {
	m := start(t, middleware.Options{})
	for opcode, name := range map[byte]string{0x09: "getq", 0x0c: "getk", 0x0d: "getkq"} {
		c := mctest.MustDial(t, m.Addr())
		require.NoError(t, c.Send(append([]byte{0x80, opcode, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 22: 0, 23: 0}, 'k')))
		rest, err := c.Rest()
		require.NoError(t, err)
		require.Empty(t, rest, name)
	}
}

func TestBinaryClientsAreCountedAndLoggedOnceAMinuteWithWhatToSet(t *testing.T) {
	var log mctest.Output
	m := start(t, middleware.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		c := mctest.MustDial(t, m.Addr())
		require.NoError(t, c.Send(append([]byte{0x80}, make([]byte, 23)...)))
		_, err := c.Rest()
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, m.Stats().Snapshot().BinaryClients)
	require.Equal(t, 1, strings.Count(log.String(), "binary protocol"), log.String())
	require.Regexp(t, `client=127\.0\.0\.1:\d+ `, log.String())
	require.Contains(t, log.String(), "memcached.sess_binary_protocol=0")
}

func TestTheMagicByteOfBinaryRequestsMeansNothingAfterATextRequest(t *testing.T) {
	m := start(t, middleware.Options{})
	c := mctest.MustDial(t, m.Addr())
	require.Equal(t, "MN\r\n", c.MustDo(t, "mn\r\n"))
	require.Equal(t, "ERROR\r\n", c.MustDo(t, "\x80get k\r\n"))
	require.Equal(t, "MN\r\n", c.MustDo(t, "mn\r\n"))
}
