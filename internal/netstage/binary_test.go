package netstage_test

import (
	"encoding/hex"
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

func TestTheMagicByteOfBinaryRequestsMeansNothingAfterATextRequest(t *testing.T) {
	m := start(t, middleware.Options{})
	c := mctest.MustDial(t, m.Addr())
	require.Equal(t, "MN\r\n", c.MustDo(t, "mn\r\n"))
	require.Equal(t, "ERROR\r\n", c.MustDo(t, "\x80get k\r\n"))
	require.Equal(t, "MN\r\n", c.MustDo(t, "mn\r\n"))
}
