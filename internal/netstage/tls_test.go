package netstage_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/secret"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// withTLS returns o with TLS, and the TLS configuration for a client.
func withTLS(t *testing.T, o middleware.Options) (middleware.Options, *tls.Config) {
	t.Helper()
	ca := mctest.NewCA(t)
	o.Security.TLS.Cert, o.Security.TLS.Key = ca.Issue()
	return o, ca.Client("", "")
}

func TestListenersWithAndWithoutTLSServeTheirClients(t *testing.T) {
	socket := "unix:" + t.TempDir() + "/s"
	o, client := withTLS(t, middleware.Options{Listen: []string{"127.0.0.1:0", "notls:127.0.0.1:0", socket}})
	m := start(t, o)
	for name, c := range map[string]*mctest.Client{
		"tls": mctest.MustDialTLS(t, m.Addr(), client), "notls": mctest.MustDial(t, m.AddrOf(1)),
		"unix": mctest.MustDial(t, m.AddrOf(2)),
	} {
		value := strings.Repeat("v", 100_000)
		assert.Equal(t, "STORED\r\n", c.MustDo(t, "set "+name+" 0 0 100000\r\n"+value+"\r\n"))
		assert.Equal(t, "VALUE "+name+" 0 100000\r\n"+value+"\r\nEND\r\n", c.MustDo(t, "get "+name+"\r\n"))
	}
	old := client.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err := mctest.DialTLS(m.Addr(), old)
	require.ErrorContains(t, err, "protocol version")
	older := client.Clone()
	older.MaxVersion = tls.VersionTLS12
	assert.Equal(t, "END\r\n", mctest.MustDialTLS(t, m.Addr(), older).MustDo(t, "get nothing\r\n"))
}

func TestAClientWithoutTLSIsClosedCountedAndLogged(t *testing.T) {
	var log mctest.Output
	o, _ := withTLS(t, middleware.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	m := start(t, o)
	for range 20 {
		c := mctest.MustDial(t, m.Addr())
		require.NoError(t, c.Send([]byte("get k\r\n")))
		_, err := c.Rest()
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return closed(m, stats.CloseHandshake) == 20 }, mctest.Patience, mctest.Tick)
	assert.Contains(t, log.String(), "a client failed the TLS handshake")
}

func TestAPortCheckDoesNotCountAsAFailedHandshake(t *testing.T) {
	o, _ := withTLS(t, middleware.Options{})
	m := start(t, o)
	require.NoError(t, mctest.MustDial(t, m.Addr()).Close())
	require.Eventually(t, func() bool { return closed(m, stats.CloseClient) == 1 }, mctest.Patience, mctest.Tick)
	assert.Zero(t, closed(m, stats.CloseHandshake))
}

func TestAClientThatDoesNotFinishTheHandshakeIsClosed(t *testing.T) {
	o, client := withTLS(t, middleware.Options{})
	o.Security.HandshakeTimeout = 200 * time.Millisecond
	m := start(t, o)
	silent := mctest.MustDial(t, m.Addr())
	_, err := silent.Rest()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return closed(m, stats.CloseHandshake) == 1 }, mctest.Patience, mctest.Tick)
	// The time limit ends with the handshake. A slow machine may need more than one attempt.
	var c *mctest.Client
	require.Eventually(t, func() bool {
		if c, err = mctest.DialTLS(m.Addr(), client); err == nil {
			_, err = c.Do("get k\r\n") // the handshake ends earlier for the client than for the middleware
		}
		return err == nil
	}, mctest.Patience, mctest.Tick)
	defer c.Close()
	require.Zero(t, silentFor(c.Conn, 2*o.Security.HandshakeTimeout))
	assert.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
}

// silentFor returns how many bytes arrive within d.
func silentFor(c net.Conn, d time.Duration) int {
	_ = c.SetReadDeadline(time.Now().Add(d))
	n, _ := c.Read(make([]byte, 1))
	return n
}

func TestAClientMustPresentACertificateWhereOneIsRequired(t *testing.T) {
	ca, other := mctest.NewCA(t), mctest.NewCA(t)
	var o middleware.Options
	o.Security.TLS = secret.ServerFiles{ClientCA: ca.File}
	o.Security.TLS.Cert, o.Security.TLS.Key = ca.Issue()
	m := start(t, o)
	good := mctest.MustDialTLS(t, m.Addr(), ca.Client(ca.Issue("client")))
	assert.Equal(t, "END\r\n", good.MustDo(t, "get k\r\n"))
	for name, client := range map[string]*tls.Config{
		"none":    ca.Client("", ""),
		"foreign": ca.Client(other.Issue("client")),
	} {
		// With TLS 1.3 a client learns of the refusal with its first read.
		c, err := mctest.DialTLS(m.Addr(), client)
		if err == nil {
			_, err = c.Do("get k\r\n")
			c.Close()
		}
		require.Error(t, err, name)
	}
	require.Eventually(t, func() bool { return closed(m, stats.CloseHandshake) == 2 }, mctest.Patience, mctest.Tick)
}

func TestAHalfClosedSessionGetsItsReplies(t *testing.T) {
	o, client := withTLS(t, middleware.Options{})
	m := start(t, o)
	c := mctest.MustDialTLS(t, m.Addr(), client)
	require.NoError(t, c.Send([]byte("set k 0 0 1\r\nx\r\nget k\r\n")))
	require.NoError(t, c.CloseWrite())
	all, err := io.ReadAll(c.Conn)
	require.NoError(t, err, "the session is ended, too")
	assert.Equal(t, "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n", string(all))
}

func TestASlowTLSClientDoesNotDelayOthersAndGetsEverything(t *testing.T) {
	o, client := withTLS(t, middleware.Options{
		Workers: 1, RequestOptions: worker.RequestOptions{Depth: 4},
		ClientOptions: netstage.ClientOptions{WriteTimeout: time.Hour},
	})
	m := start(t, o)
	c := mctest.MustDialTLS(t, m.Addr(), client)
	value := strings.Repeat("x", 1<<20-200)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1048376\r\n"+value+"\r\n"))
	slow := mctest.MustDialTLS(t, m.Addr(), client)
	const gets = 32
	require.NoError(t, slow.Send([]byte(strings.Repeat("get k\r\n", gets))))
	for range 100 {
		require.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
	}
	want := "VALUE k 0 1048376\r\n" + value + "\r\nEND\r\n"
	for range gets {
		require.True(t, want == slow.MustReply(t))
	}
}

func TestATLSClientThatReadsNothingIsClosed(t *testing.T) {
	o, client := withTLS(t, middleware.Options{
		Workers:       1,
		ClientOptions: netstage.ClientOptions{MaxOutput: 1 << 10, WriteTimeout: time.Hour},
	})
	m := start(t, o)
	c := mctest.MustDialTLS(t, m.Addr(), client)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 524288\r\n"+strings.Repeat("x", 1<<19)+"\r\n"))
	slow := mctest.MustDialTLS(t, m.Addr(), client)
	require.NoError(t, slow.Send([]byte(strings.Repeat("get k\r\n", 64))))
	for closed(m, stats.CloseSlow) == 0 {
		require.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
	}
}

func TestADrainServesTheRequestsOfTLSClientsAndDoesNotWaitForHandshakes(t *testing.T) {
	o, client := withTLS(t, middleware.Options{DrainTimeout: time.Hour})
	m := start(t, o)
	silent := mctest.MustDial(t, m.Addr())
	c := mctest.MustDialTLS(t, m.Addr(), client)
	require.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
	require.NoError(t, c.Send([]byte("set k 0 0 5\r\nva")))
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 2 }, mctest.Patience, mctest.Tick)
	m.Cancel()
	_, err := silent.Rest()
	require.NoError(t, err)
	require.NoError(t, c.Send([]byte("lue\r\n")))
	assert.Equal(t, "STORED\r\n", c.MustReply(t))
	rest, err := io.ReadAll(c.Conn)
	require.NoError(t, err)
	assert.Empty(t, rest)
	require.NoError(t, m.Stop(), "no connection had to be reset")
}

func TestARefusedTLSClientIsClosedWithoutAHandshake(t *testing.T) {
	o, client := withTLS(t, middleware.Options{ClientOptions: netstage.ClientOptions{MaxConnections: 1}})
	m := start(t, o)
	c := mctest.MustDialTLS(t, m.Addr(), client)
	require.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
	rest, err := mctest.MustDial(t, m.Addr()).Rest()
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.EqualValues(t, 1, closed(m, stats.CloseRefused))
}

func TestTLSConnectionsLeaveNothingBehindHoweverTheyEnd(t *testing.T) {
	o, client := withTLS(t, middleware.Options{})
	m := start(t, o)
	for _, end := range []func(c net.Conn, s *tls.Conn){
		func(c net.Conn, _ *tls.Conn) { _ = c.Close() },
		func(c net.Conn, _ *tls.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() },
		func(_ net.Conn, s *tls.Conn) { _ = s.Close() },
		func(c net.Conn, _ *tls.Conn) { _, _ = c.Write([]byte("not a record")); _, _ = io.Copy(io.Discard, c) },
	} {
		raw, err := net.Dial("tcp", m.Addr())
		require.NoError(t, err)
		session := tls.Client(raw, client)
		_, err = io.WriteString(session, "version\r\n")
		require.NoError(t, err)
		_, err = bufio.NewReader(session).ReadString('\n')
		require.NoError(t, err)
		_, err = io.WriteString(session, "set k 0 0 100000\r\nabc")
		require.NoError(t, err)
		require.NoError(t, raw.SetDeadline(time.Now().Add(20*time.Second)))
		end(raw, session)
		_ = raw.Close()
	}
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 0 }, mctest.Patience, mctest.Tick)
}
