package netstage_test

import (
	"io"
	"log/slog"
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
)

func start(t *testing.T, o middleware.Options) *mwtest.MW {
	t.Helper()
	s := mctest.StartMemcached(t)
	o.Timeout, o.StallAfter = time.Minute, -1 // a busy machine must not look like a failing server
	o.Servers = []route.Server{{Name: "a", Addr: s.Addr()}}
	return mwtest.Start(t, o)
}

func closed(m *mwtest.MW, reason stats.CloseReason) uint64 {
	return m.Stats().Snapshot().Closed[reason]
}

func TestAClientBeyondTheMaximumGetsAnErrorAndTheOthersAreServed(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{MaxConnections: 2}})
	first, second := m.Dial(t), m.Dial(t)
	first.MustDo(t, "version\r\n")
	second.MustDo(t, "version\r\n")
	third := m.Dial(t)
	assert.Equal(t, "SERVER_ERROR too many connections\r\n", third.MustReply(t))
	_, err := third.Reply()
	assert.ErrorIs(t, err, io.EOF)
	_ = third.Close()
	assert.EqualValues(t, 1, closed(m, stats.CloseRefused))
	assert.Contains(t, first.MustDo(t, "version\r\n"), "VERSION")
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 1 }, mctest.Patience, mctest.Tick)
	assert.Contains(t, m.Dial(t).MustDo(t, "version\r\n"), "VERSION")
}

func TestAnIdleClientIsClosed(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{IdleTimeout: 50 * time.Millisecond}})
	c := m.Dial(t)
	c.MustDo(t, "version\r\n")
	_, err := c.Reply()
	require.ErrorIs(t, err, io.EOF)
	require.Eventually(t, func() bool { return closed(m, stats.CloseIdle) == 1 }, mctest.Patience, mctest.Tick)
}

func TestAClientThatDoesNotReadIsClosedAndDoesNotDelayOthers(t *testing.T) {
	for name, o := range map[string]middleware.Options{
		"more unread than allowed": {
			Workers:       1,
			ClientOptions: netstage.ClientOptions{MaxOutput: 1 << 10, WriteTimeout: time.Hour},
		},
		"unread for too long": {
			Workers:       1,
			ClientOptions: netstage.ClientOptions{WriteTimeout: 50 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log mctest.Output
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			m := start(t, o)
			c := m.Dial(t)
			assert.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 524288\r\n"+strings.Repeat("x", 1<<19)+"\r\n"))
			require.NoError(t, m.Dial(t).Send([]byte(strings.Repeat("get k\r\n", 64))))
			for closed(m, stats.CloseSlow) == 0 {
				assert.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
			}
			require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 1 }, mctest.Patience, mctest.Tick)
			assert.Contains(t, log.String(), "a client is closed: it does not read its replies")
		})
	}
}

func TestAClientThatSendsByteByByteDoesNotDelayOthers(t *testing.T) {
	m := start(t, middleware.Options{Workers: 1})
	slow, c := m.Dial(t), m.Dial(t)
	for _, b := range []byte("set k 0 0 3\r\nabc\r\n") {
		require.NoError(t, slow.Send([]byte{b}))
		assert.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
	}
	assert.Equal(t, "STORED\r\n", slow.MustReply(t))
}
