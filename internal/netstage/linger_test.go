package netstage_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/stats"
)

// connectNarrow connects with a receive buffer so small that replies wait in the kernel's send buffer on mcmw's side.
func connectNarrow(t *testing.T, m *mwtest.MW) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if cerr := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		}); cerr != nil {
			return cerr
		}
		return err
	}}
	c, err := d.Dial("tcp", m.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(mctest.Patience)))
	return c
}

func TestNoReplyIsLostWhenMcmwClosesFirst(t *testing.T) {
	const size, gets = 100_000, 8
	// More than one read takes: the kernel holds bytes that are never read.
	junk := strings.Repeat("x", 100_000)
	for name, end := range map[string]struct {
		request string
		reason  stats.CloseReason
	}{
		"bytes after quit":   {"quit\r\n" + junk, stats.CloseQuit},
		"a line without end": {junk, stats.CloseProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, middleware.Options{})
			c := m.Dial(t)
			value := strings.Repeat("v", size)
			require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", size, value)))
			narrow := connectNarrow(t, m)
			sent := make(chan error, 1)
			go func() {
				_, err := io.WriteString(narrow, strings.Repeat("get k\r\n", gets)+end.request)
				sent <- err
			}()
			all, err := io.ReadAll(narrow)
			require.NoError(t, err, "an orderly end, not a reset")
			require.NoError(t, <-sent)
			require.Equal(t, strings.Repeat(fmt.Sprintf("VALUE k 0 %d\r\n%s\r\nEND\r\n", size, value), gets),
				string(all))
			require.NoError(t, narrow.Close())
			require.Eventually(t, func() bool { return closed(m, end.reason) == 1 }, mctest.Patience, mctest.Tick)
		})
	}
}

func TestARefusedClientReadsTheErrorEvenIfItSendsFirst(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{MaxConnections: 1}})
	c := m.Dial(t)
	c.MustDo(t, "version\r\n")
	const clients = 50
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			refused, err := net.Dial("tcp", m.Addr())
			if !assert.NoError(t, err) {
				return
			}
			defer refused.Close()
			assert.NoError(t, refused.SetDeadline(time.Now().Add(mctest.Patience)))
			_, err = io.WriteString(refused, strings.Repeat("get k\r\n", 10_000))
			assert.NoError(t, err)
			all, err := io.ReadAll(refused)
			assert.NoError(t, err, "an orderly end, not a reset")
			assert.Equal(t, "SERVER_ERROR too many connections\r\n", string(all))
		})
	}
	wg.Wait()
	assert.EqualValues(t, clients, closed(m, stats.CloseRefused))
	assert.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
}

// Other clients do not wait for one that neither reads its refusal nor closes.
func TestRefusedClientsThatStayDoNotDelayOthers(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{MaxConnections: 1}})
	c := m.Dial(t)
	c.MustDo(t, "version\r\n")
	const clients = 400
	for range clients {
		refused, err := net.Dial("tcp", m.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = refused.Close() })
	}
	require.Eventually(t, func() bool { return closed(m, stats.CloseRefused) == clients }, mctest.Patience, mctest.Tick)
	assert.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
}
