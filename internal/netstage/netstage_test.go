package netstage_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

func start(t *testing.T, o middleware.Options) *mwtest.MW {
	t.Helper()
	s := mctest.StartMemcached(t)
	o.Timeout, o.StallAfter = time.Minute, -1 // a busy machine must not look like a failing server
	o.Servers = []route.Server{{Name: "a", Addr: s.Addr()}}
	return mwtest.Start(t, o)
}

func connect(t *testing.T, m *mwtest.MW) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", m.Addrs()[0].String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(mctest.Patience)))
	return c, bufio.NewReader(c)
}

// ask sends a request and returns one line of the reply.
func ask(t *testing.T, c net.Conn, r *bufio.Reader, request string) string {
	t.Helper()
	_, err := io.WriteString(c, request)
	require.NoError(t, err)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	return line
}

func closed(m *mwtest.MW, reason stats.CloseReason) uint64 {
	return m.Stats().Snapshot().Closed[reason]
}

func TestAClientBeyondTheMaximumGetsAnErrorAndTheOthersAreServed(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{MaxConnections: 2}})
	first, firstReader := connect(t, m)
	second, secondReader := connect(t, m)
	ask(t, first, firstReader, "version\r\n")
	ask(t, second, secondReader, "version\r\n")
	third, thirdReader := connect(t, m)
	line, err := thirdReader.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "SERVER_ERROR too many connections\r\n", line)
	_, err = thirdReader.ReadByte()
	assert.ErrorIs(t, err, io.EOF)
	_ = third.Close()
	assert.EqualValues(t, 1, closed(m, stats.CloseRefused))
	assert.Contains(t, ask(t, first, firstReader, "version\r\n"), "VERSION")
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 1 }, mctest.Patience, mctest.Tick)
	c, r := connect(t, m)
	assert.Contains(t, ask(t, c, r, "version\r\n"), "VERSION")
}

func TestAnIdleClientIsClosed(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{IdleTimeout: 50 * time.Millisecond}})
	c, r := connect(t, m)
	ask(t, c, r, "version\r\n")
	_, err := r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.Eventually(t, func() bool { return closed(m, stats.CloseIdle) == 1 }, mctest.Patience, mctest.Tick)
}

func TestAClientThatDoesNotReadIsClosedAndDoesNotDelayOthers(t *testing.T) {
	for name, o := range map[string]middleware.Options{
		"more unread than allowed": {Workers: 1, ClientOptions: netstage.ClientOptions{MaxOutput: 1 << 10, WriteTimeout: time.Hour}},
		"unread for too long":      {Workers: 1, ClientOptions: netstage.ClientOptions{WriteTimeout: 50 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			var log mctest.Output
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			m := start(t, o)
			c, r := connect(t, m)
			value := strings.Repeat("x", 1<<19)
			assert.Equal(t, "STORED\r\n", ask(t, c, r, "set k 0 0 524288\r\n"+value+"\r\n"))
			slow, _ := connect(t, m)
			_, err := io.WriteString(slow, strings.Repeat("get k\r\n", 64))
			require.NoError(t, err)
			for closed(m, stats.CloseSlow) == 0 {
				assert.Contains(t, ask(t, c, r, "version\r\n"), "VERSION")
			}
			require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 1 }, mctest.Patience, mctest.Tick)
			assert.Contains(t, log.String(), "a client is closed: it does not read its replies")
		})
	}
}

func TestASlowClientThatFinallyReadsGetsEverything(t *testing.T) {
	m := start(t, middleware.Options{Workers: 1, RequestOptions: worker.RequestOptions{Depth: 4}})
	c, r := connect(t, m)
	value := strings.Repeat("x", 1<<20-200)
	assert.Equal(t, "STORED\r\n", ask(t, c, r, "set k 0 0 1048376\r\n"+value+"\r\n"))
	slow, slowReader := connect(t, m)
	const gets = 32
	_, err := io.WriteString(slow, strings.Repeat("get k\r\n", gets))
	require.NoError(t, err)
	assert.Contains(t, ask(t, c, r, "version\r\n"), "VERSION")
	for range gets {
		head, err := slowReader.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "VALUE k 0 1048376\r\n", head)
		_, err = io.CopyN(io.Discard, slowReader, int64(len(value))+2+int64(len("END\r\n")))
		require.NoError(t, err)
	}
}

func TestAClientThatSendsByteByByteDoesNotDelayOthers(t *testing.T) {
	m := start(t, middleware.Options{Workers: 1})
	slow, slowReader := connect(t, m)
	c, r := connect(t, m)
	for _, b := range []byte("set k 0 0 3\r\nabc\r\n") {
		_, err := slow.Write([]byte{b})
		require.NoError(t, err)
		assert.Contains(t, ask(t, c, r, "version\r\n"), "VERSION")
	}
	line, err := slowReader.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "STORED\r\n", line)
}

func TestAHalfClosedClientGetsItsReplies(t *testing.T) {
	m := start(t, middleware.Options{})
	c, r := connect(t, m)
	_, err := io.WriteString(c, "set k 0 0 1\r\nx\r\nget k\r\n")
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n", string(all))
}

func TestAClientThatResetsInTheMiddleOfAValueLeavesNothingBehind(t *testing.T) {
	m := start(t, middleware.Options{})
	c, r := connect(t, m)
	ask(t, c, r, "version\r\n")
	_, err := io.WriteString(c, "set k 0 0 100000\r\nabc")
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).SetLinger(0))
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 0 }, mctest.Patience, mctest.Tick)
	other, reader := connect(t, m)
	assert.Equal(t, "END\r\n", ask(t, other, reader, "get k\r\n"))
}
