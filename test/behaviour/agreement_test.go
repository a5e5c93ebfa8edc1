package behaviour_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/stats"
)

// awaitSwept waits until m knows of a complete comparison of the replicas that ended later than after.
func awaitSwept(t *testing.T, m *mwtest.MW, after time.Time) {
	t.Helper()
	require.Eventually(t, func() bool {
		return m.Stats().Snapshot().Sweep.Last.After(after)
	}, mctest.Patience, pollPause, "the replicas are never compared")
}

// disagreeing returns a line for each key that two servers hold differently, and the number of keys that one holds at all. A
// server that lacks a key does not disagree.
func disagreeing(t *testing.T, servers []*mctest.Server, keys []string) (lines []string, present int) {
	t.Helper()
	states := make([][]string, len(servers))
	for s, server := range servers {
		states[s] = stateOf(t, server.Addr(), keys)
	}
	for k, key := range keys {
		held := map[string]bool{}
		for s := range servers {
			if state := states[s][k]; state != "" {
				held[state] = true
			}
		}
		present += min(len(held), 1)
		if len(held) > 1 {
			lines = append(lines, fmt.Sprintf("%s: %q", key, slices.Sorted(maps.Keys(held))))
		}
	}
	return lines, present
}

func TestReplicasAreComparedAgainAndAgainByOneMiddlewareOfMany(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 3)
	o := middleware.Options{Servers: mwtest.Servers(servers...), SweepEvery: time.Second}
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	for round := range 2 {
		// What a middleware that is killed leaves: each server has another value, under a version of its own.
		keys := numbered(50)
		for s, server := range servers {
			c := mctest.MustDial(t, server.Addr())
			for k, key := range keys {
				require.Equal(t, "HD\r\n", c.MustDo(t, fmt.Sprintf("ms %s 1 E%d\r\n%d\r\n", key, uint64(1)<<62+uint64(1000*round+3*k+s), s)))
			}
		}
		written := time.Now()
		for _, m := range fleet {
			awaitSwept(t, m, written.Add(2*time.Second)) // the servers' clocks tell seconds
		}
		lines, present := disagreeing(t, servers, keys)
		require.Empty(t, lines)
		require.Equal(t, len(keys), present)
	}
	var compared []bool
	for _, m := range fleet {
		s := m.Stats().Snapshot().Sweep
		require.Zero(t, s.Outcomes[stats.SweepFailed], s.Why)
		compared = append(compared, s.Outcomes[stats.SweepComplete] > 0)
	}
	require.True(t, slices.Contains(compared, true))
}
