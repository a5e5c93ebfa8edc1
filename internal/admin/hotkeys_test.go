package admin

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
)

// hot returns a report with the first n of three keys.
func hot(n int) hotkeys.Report {
	keys := []hotkeys.Key{
		{Name: "a", Share: 0.5, Servers: []string{"s1"}},
		{Name: "b", Share: 0.25, Servers: []string{"s2"}},
		{Name: "c\x1b[2J\xff", Share: 0.125, Servers: []string{"s2"}},
	}
	return hotkeys.Report{
		Sampled: 1000, Top1: 0.5, Top10: 0.875, Top100: 0.9, Served1: 0.25, Served10: 0.5,
		Served100: 0.75, Keys: keys[:min(n, 3)], Hottest: map[string]float64{"s1": 1, "s2": 0.6},
	}
}

func TestHotKeysAreMetricsWithoutTheirNames(t *testing.T) {
	require.Equal(t, map[string]float64{
		`mcmw_hot_keys_share{top="1"}`: 0.5, `mcmw_hot_keys_share{top="10"}`: 0.875,
		`mcmw_hot_keys_share{top="100"}`:      0.9,
		`mcmw_hot_keys_served_share{top="1"}`: 0.25, `mcmw_hot_keys_served_share{top="10"}`: 0.5,
		`mcmw_hot_keys_served_share{top="100"}`:      0.75,
		`mcmw_server_hottest_key_share{server="s1"}`: 1, `mcmw_server_hottest_key_share{server="s2"}`: 0.6,
	}, gather(t, newTable(func() hotkeys.Report { return hot(0) }, hotKeysMetrics)))
}

func TestTheRequestedNumberOfHotKeysIsShown(t *testing.T) {
	_, base := serve(t, Options{HotKeys: hot})
	for query, want := range map[string]struct {
		status int
		part   string
	}{
		"":        {http.StatusOK, `"name":"c\\x1b[2J\\xff"`},
		"?n=1":    {http.StatusOK, `"keys":[{"name":"a","share":0.5,"servers":["s1"]}]`},
		"?n=0":    {http.StatusBadRequest, "want a number of keys, 1 to 1000"},
		"?n=x":    {http.StatusBadRequest, `n="x"`},
		"?n=1001": {http.StatusBadRequest, "1 to 1000"},
	} {
		status, _, body := get(t, "GET", base+"/api/hot-keys"+query)
		assert.Equal(t, want.status, status, query)
		assert.Contains(t, body, want.part, query)
	}
	shown := statsOf(t, base+"/api/stats").HotKeys.Keys
	require.Len(t, shown, 3)
	assert.Equal(t, `c\x1b[2J\xff`, shown[2].Name, "mcmw top writes it to a terminal")
}
