package behaviour_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/secret"
)

// serverless returns the options of a middleware in front of n servers that refuse what ElastiCache Serverless refuses.
// Warnings go to log.
func serverless(t *testing.T, n int, log *mctest.Output) (o middleware.Options) {
	ca := mctest.NewCA(t)
	var addrs []string
	for range n {
		addrs = append(addrs, mctest.StartServerless(t, ca, mctest.StartNewMemcached(t).Addr()).Addr())
	}
	o.Servers, o.SweepEvery = mwtest.Named(addrs...), time.Millisecond
	o.Security.ServerTLS, o.Security.ServerFiles = true, secret.ClientFiles{CA: ca.File, Name: "localhost"}
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return o
}

// refusals are requests that such a server refuses, and the replies through a middleware in front of several of them.
var refusals = map[string]string{
	"flush_all 5": "CLIENT_ERROR", "stats items": "ERROR", "me k": "ERROR", "verbosity 1": "ERROR",
	"get" + strings.Repeat(" "+strings.Repeat("k", 250), 100): "CLIENT_ERROR",
}

func requireServesServerless(t *testing.T, m, other *mwtest.MW) {
	t.Helper()
	c := m.Dial(t)
	for line, want := range refusals {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"))
		assert.True(t, strings.HasPrefix(c.MustDo(t, line+"\r\n"), want), "%.30s", line)
		require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", other.Dial(t).MustDo(t, "get k\r\n"), "after %.30s", line)
	}
	require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
	require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
	for _, s := range m.Stats().Snapshot().Servers {
		assert.Equal(t, backend.Up.String(), s.Health.State, s.Name)
		assert.False(t, s.Health.MarkedHere || s.Health.MarkedElsewhere, s.Name)
	}
}

func TestAServerlessCacheIsServedWithoutAWarning(t *testing.T) {
	var log mctest.Output
	o := serverless(t, 1, &log)
	requireServesServerless(t, mwtest.Start(t, o), mwtest.Start(t, o))
	assert.Empty(t, log.String())
}

func TestReplicasThatCannotBeListedAreServedAndALogLineSaysOnceWhatDoesNotHold(t *testing.T) {
	var log mctest.Output
	o := serverless(t, 3, &log)
	m := mwtest.Start(t, o)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the replicas cannot be compared") },
		mctest.Patience, pollPause)
	first := log.String()
	var quiet mctest.Output
	o.Log = slog.New(slog.NewTextHandler(&quiet, nil))
	requireServesServerless(t, m, mwtest.Start(t, o))
	assert.Equal(t, 1, strings.Count(first, "level=WARN"), first)
	assert.Contains(t, first, "a memcached with the LRU crawler is needed")
	assert.Equal(t, first, log.String(), "it says nothing more, and nothing again")
}
