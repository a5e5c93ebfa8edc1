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
	answerJSON(w, s.hotKeys(n))
}

// hotKeys returns the n keys that are requested most. Their names are escaped as in a Go string literal, without the
// quotes.
func (s *Server) hotKeys(n int) hotkeys.Report {
	r := s.options.HotKeys(n)
	for i := range r.Keys {
		r.Keys[i].Name = unquoted(r.Keys[i].Name)
	}
	return r
}

// The families of the metrics of the hottest keys.
var (
	hottest    = whole[hotkeys.Report]()
	perHottest = keyed(func(r hotkeys.Report) map[string]float64 { return r.Hottest }, "server", plain)
)

// hotKeysMetrics show the share of a few keys in the load, but never the keys.
var hotKeysMetrics = []metric[hotkeys.Report]{
	hottest.by("top", "hot_keys_share",
		"Share of the requested keys that were among the 1, 10 or 100 hottest, 0 to 1, from a sample of the last "+
			"half minute.",
		func(r hotkeys.Report) values { return values{"1": r.Top1, "10": r.Top10, "100": r.Top100} }),
	hottest.by("top", "hot_keys_served_share",
		"Share of the requested keys that were among the 1, 10 or 100 hottest and were answered from memory, 0 to 1, "+
			"from a sample of the last half minute.",
		func(r hotkeys.Report) values { return values{"1": r.Served1, "10": r.Served10, "100": r.Served100} }),
	perHottest.value("server_hottest_key_share",
		"Share of the server's requests that were for its hottest key, 0 to 1, from a sample of the last half minute.",
		func(share float64) any { return share }),
}
