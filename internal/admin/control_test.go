package admin

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"mcmw/internal/stats"
)

func TestTheMetricsOfConfigurationChangesFollowTheControl(t *testing.T) {
	var c stats.Control
	collector := newTable(c.Snapshot, controlMetrics)
	c.Holds(stats.Identity{Options: "a", Servers: "b"})
	before := gather(t, collector)
	require.Equal(t, map[string]float64{
		`mcmw_config_info{hash="a",servers="b"}`:           1,
		`mcmw_config_reloads_total{result="applied"}`:      0,
		`mcmw_config_reloads_total{result="unchanged"}`:    0,
		`mcmw_config_reloads_total{result="refused"}`:      0,
		`mcmw_server_lookups_total{result="ok"}`:           0,
		`mcmw_server_lookups_total{result="empty"}`:        0,
		`mcmw_server_lookups_total{result="failed"}`:       0,
		`mcmw_server_list_unconfirmed_seconds`:             0,
		`mcmw_server_watches{state="live"}`:                0,
		`mcmw_server_watches{state="broken"}`:              0,
		`mcmw_server_list_updates_total{result="applied"}`: 0,
		`mcmw_server_list_updates_total{result="refused"}`: 0,
	}, before)
	for i := range stats.NumReloadResults {
		for range i + 1 {
			c.Reloaded(i)
			c.Updated(i)
		}
	}
	for i := range stats.NumLookupResults {
		for range i + 1 {
			c.LookedUp(i)
		}
	}
	c.Unconfirmed(time.Now().Add(-time.Minute))
	c.WatchLive(2)
	c.WatchBroken(1)
	c.Holds(stats.Identity{Options: "c", Servers: "d"})
	after := gather(t, collector)
	require.Greater(t, after["mcmw_server_list_unconfirmed_seconds"], 59.0)
	delete(after, "mcmw_server_list_unconfirmed_seconds")
	require.Equal(t, map[string]float64{
		`mcmw_config_info{hash="c",servers="d"}`:           1,
		`mcmw_config_reloads_total{result="applied"}`:      1,
		`mcmw_config_reloads_total{result="unchanged"}`:    2,
		`mcmw_config_reloads_total{result="refused"}`:      3,
		`mcmw_server_lookups_total{result="ok"}`:           1,
		`mcmw_server_lookups_total{result="empty"}`:        2,
		`mcmw_server_lookups_total{result="failed"}`:       3,
		`mcmw_server_watches{state="live"}`:                2,
		`mcmw_server_watches{state="broken"}`:              1,
		`mcmw_server_list_updates_total{result="applied"}`: 1,
		`mcmw_server_list_updates_total{result="refused"}`: 3,
	}, after)
	problems, err := testutil.CollectAndLint(collector)
	require.NoError(t, err)
	require.Empty(t, problems)
}
