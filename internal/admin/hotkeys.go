package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"mcmw/internal/hotkeys"
)

const (
	// shownHotKeys is how many keys /api/hot-keys, the live page and mcmw top show, unless /api/hot-keys is asked for another number.
	shownHotKeys = 10
	// mostHotKeys is the most that /api/hot-keys shows.
	mostHotKeys = 1000
)

// serveHotKeys answers with the keys that are asked for most; ?n=N: so many.
func (s *Server) serveHotKeys(w http.ResponseWriter, r *http.Request) {
	n := shownHotKeys
	if v := r.FormValue("n"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil || n < 1 || n > mostHotKeys {
			http.Error(w, fmt.Sprintf("n=%.40q: want a number of keys, 1 to %d", v, mostHotKeys), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(s.options.HotKeys(n)) // an error means that the client has gone
}

// hotKeysCollector exports how much of the load a few keys are, never a key.
type hotKeysCollector struct {
	report                  func(n int) hotkeys.Report
	shares, served, servers *prometheus.Desc
}

func newHotKeysCollector(report func(n int) hotkeys.Report) *hotKeysCollector {
	return &hotKeysCollector{
		report:  report,
		shares:  describe("hot_keys_share", "The part of all requested keys that the 1, 10 or 100 hottest are, 0 to 1, of a sample of the last half minute.", "top"),
		served:  describe("hot_keys_served_share", "The part of all requested keys that are one of the 1, 10 or 100 hottest and were answered from memory, 0 to 1, of a sample of the last half minute.", "top"),
		servers: describe("server_hottest_key_share", "The part of the server's requests that are for one key, 0 to 1, of a sample of the last half minute.", "server"),
	}
}

// Describe sends the descriptions of the metrics.
func (c *hotKeysCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.shares
	out <- c.served
	out <- c.servers
}

// Collect sends the values.
func (c *hotKeysCollector) Collect(out chan<- prometheus.Metric) {
	r := c.report(0)
	for _, top := range []struct {
		label         string
		share, served float64
	}{{"1", r.Top1, r.Served1}, {"10", r.Top10, r.Served10}, {"100", r.Top100, r.Served100}} {
		out <- prometheus.MustNewConstMetric(c.shares, prometheus.GaugeValue, top.share, top.label)
		out <- prometheus.MustNewConstMetric(c.served, prometheus.GaugeValue, top.served, top.label)
	}
	for _, server := range slices.Sorted(maps.Keys(r.Hottest)) {
		out <- prometheus.MustNewConstMetric(c.servers, prometheus.GaugeValue, r.Hottest[server], server)
	}
}
