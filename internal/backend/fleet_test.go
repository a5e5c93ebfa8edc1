package backend_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/stats"
)

// Every request asks whether the lease has lapsed, so this must be cheap.
func TestALapsedLeaseBarsAllServersOnceAndEachServerAddedLater(t *testing.T) {
	r := backend.NewRecords(slog.New(slog.DiscardHandler), nil)
	var servers []*backend.Server
	add := func() {
		servers = append(servers, newServer("127.0.0.1:1", backend.Options{Records: r}))
		r.Place(marker.Record{}, servers)
	}
	barred := func() {
		require.True(t, r.Lapsed(stats.Now()))
		for _, s := range servers {
			require.True(t, s.Stale())
		}
	}
	add()
	add()
	require.False(t, r.Lapsed(stats.Now()))
	r.RespectMarks(true)
	barred()
	assert.Zero(t, testing.AllocsPerRun(100, barred))
	add()
	require.False(t, servers[2].Stale())
	barred()
}
