package netstage_test

import (
	"bytes"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// discover returns the version and the nodes of the answer to `config get cluster`, which must come between those to
// the requests around it.
func discover(t *testing.T, c *mctest.Client) (version int, nodes string) {
	t.Helper()
	require.NoError(t, c.Send([]byte("set k 0 0 1\r\nv\r\nconfig get cluster\r\nget k\r\n")))
	var got bytes.Buffer
	buf := make([]byte, 1024)
	for !strings.HasSuffix(got.String(), "VALUE k 0 1\r\nv\r\nEND\r\n") {
		n, err := c.Conn.Read(buf)
		require.NoError(t, err, got.String())
		got.Write(buf[:n])
	}
	rest, ok := strings.CutPrefix(got.String(), "STORED\r\nCONFIG cluster 0 ")
	require.True(t, ok, got.String())
	size, rest, _ := strings.Cut(rest, "\r\n")
	list := strings.TrimSuffix(rest, "\r\nEND\r\nVALUE k 0 1\r\nv\r\nEND\r\n")
	require.Equal(t, size, strconv.Itoa(len(list)))
	text, nodes, _ := strings.Cut(strings.TrimSuffix(list, "\n"), "\n")
	version, err := strconv.Atoi(text)
	require.NoError(t, err)
	require.Positive(t, version)
	return version, nodes
}

func TestAClientThatAsksForTheClusterLearnsTheAddressThatItReached(t *testing.T) {
	m := start(t, middleware.Options{Listen: []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "s")}})
	_, nodes := discover(t, m.Dial(t))
	_, port, _ := strings.Cut(m.Addr(), ":")
	assert.Equal(t, "127.0.0.1|127.0.0.1|"+port, nodes)
	c := mctest.MustDial(t, m.AddrOf(1))
	assert.Equal(t, "ERROR\r\n", c.MustDo(t, "config get cluster\r\n"),
		"a unix socket has no address that others reach")
	assert.Equal(t, "ERROR\r\n", c.MustDo(t, "config get other\r\n"))
	assert.Equal(t, "ERROR\r\n", c.MustDo(t, "config\r\n"))
}

func TestAClientThatReachedAListenerOfBothFamiliesByIPv4LearnsAnIPv4Address(t *testing.T) {
	m := start(t, middleware.Options{Listen: []string{":0"}})
	_, port, err := net.SplitHostPort(m.Addr())
	require.NoError(t, err)
	_, nodes := discover(t, mctest.MustDial(t, "127.0.0.1:"+port))
	assert.Equal(t, "127.0.0.1|127.0.0.1|"+port, nodes)
}

func TestAnnouncedAddressesReplaceTheOneThatAClientReachedAndKeepTheirVersion(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{Announce: []string{
		"cache.example:1",
		"10.0.0.1:2", "[2001:db8::1]:3",
	}}})
	c := m.Dial(t)
	version, nodes := discover(t, c)
	assert.Equal(t, "cache.example|cache.example|1 10.0.0.1|10.0.0.1|2 2001:db8::1|2001:db8::1|3", nodes)
	again, _ := discover(t, m.Dial(t))
	assert.Equal(t, version, again)
	// A request is counted after its reply is written.
	require.Eventually(t, func() bool {
		return m.Stats().Snapshot().Requests[protocol.Config][stats.ResultOK] == 2
	}, mctest.Patience, mctest.Tick)
}
