package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"mcmw/internal/hotkeys"
)

const (
	// shownHotKeys is the number of keys that the live page and mcmw top show, and /api/hot-keys by default.
	shownHotKeys = 10
	// mostHotKeys is the maximum number that /api/hot-keys shows.
	mostHotKeys = 1000
)

// serveHotKeys answers with the keys that are requested most, or, with ?n=N, with N of them.
func (s *Server) serveHotKeys(w http.ResponseWriter, r *http.Request) {
	n := shownHotKeys
	if v := r.FormValue("n"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil || n < 1 || n > mostHotKeys {
			http.Error(w, fmt.Sprintf("n=%.40q: want a number of keys, 1 to %d", v, mostHotKeys), http.StatusBadRequest)
			return
		}
	}
	answerJSON(w, s.options.HotKeys(n))
}

// hotKeysMetrics show the share of a few keys in the load, but never the keys.
var hotKeysMetrics = []metric[hotkeys.Report]{
	{
		"hot_keys_share",
		"Share of the requested keys that were among the 1, 10 or 100 hottest, 0 to 1, from a sample of the last " +
			"half minute.",
		[]string{"top"},
		func(r hotkeys.Report, to sink) {
			to.gauge(r.Top1, "1")
			to.gauge(r.Top10, "10")
			to.gauge(r.Top100, "100")
		},
	},
	{
		"hot_keys_served_share",
		"Share of the requested keys that were among the 1, 10 or 100 hottest and were answered from memory, 0 to 1, " +
			"from a sample of the last half minute.",
		[]string{"top"},
		func(r hotkeys.Report, to sink) {
			to.gauge(r.Served1, "1")
			to.gauge(r.Served10, "10")
			to.gauge(r.Served100, "100")
		},
	},
	{
		"server_hottest_key_share",
		"Share of the server's requests that were for its hottest key, 0 to 1, from a sample of the last half minute.",
		[]string{"server"},
		func(r hotkeys.Report, to sink) {
			for server, share := range r.Hottest {
				to.gauge(share, server)
			}
		},
	},
}
