package stats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/stats"
)

func TestAControlCountsEventsAndHoldsTheCurrentConfiguration(t *testing.T) {
	var c stats.Control
	require.Zero(t, c.Snapshot())
	c.Reloaded(stats.ReloadApplied)
	c.Reloaded(stats.ReloadRefused)
	c.Reloaded(stats.ReloadRefused)
	c.LookedUp(stats.LookupEmpty)
	c.Updated(stats.ReloadRefused)
	c.WatchBroken(1)
	c.WatchLive(2)
	c.WatchBroken(-1)
	c.Holds(stats.Identity{Options: "a", Servers: "b"})
	c.Holds(stats.Identity{Options: "c", Servers: "d"})
	require.Equal(t, stats.ControlSnapshot{
		Reloads:  [stats.NumReloadResults]uint64{stats.ReloadApplied: 1, stats.ReloadRefused: 2},
		Lookups:  [stats.NumLookupResults]uint64{stats.LookupEmpty: 1},
		Updates:  [stats.NumReloadResults]uint64{stats.ReloadRefused: 1},
		Identity: stats.Identity{Options: "c", Servers: "d"}, WatchesLive: 2,
	}, c.Snapshot())
}
