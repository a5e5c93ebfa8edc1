package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
	"mcmw/internal/stats"
)

// used returns a use whose numbers are in thousands.
func used(name string, hits, misses, bytes, evicted uint64) stats.NamedUse {
	return stats.NamedUse{Name: name, Use: stats.Use{
		Requests: 1000 * (hits + misses), Hits: 1000 * hits, Misses: 1000 * misses, Bytes: 1000 * bytes,
		EvictedSoon: 1000 * evicted, Timed: 1000 * (hits + misses), Time: 2e6 * 1000 * (hits + misses),
	}}
}

func TestWhatFollowsFromTheUseOfPrefixesIsSaid(t *testing.T) {
	of := stats.RecentUse{Seconds: 100}
	for _, p := range []stats.NamedUse{
		used("page:", 90, 10, 900, 1),   // most of the bytes
		used("lost:", 0, 50, 10, 0),     // never hits
		used("short:", 20, 80, 50, 60),  // items die
		used("good:", 95, 5, 40, 1),     // nothing
		used("rare\x00:", 0, 6, 0, 0),   // too few
		used("stored:", 0, 0, 0, 0),     // never looked up
		used("wanted:", 50, 10, 0, 100), // items die; more than misses, by the error of the estimates
	} {
		of.Prefixes = append(of.Prefixes, p)
		of.All.Requests += p.Requests
		of.All.Bytes += p.Bytes
	}
	u := usageOf(&of)
	require.Equal(t, []string{
		`"page:": brings 90 % of the bytes with 24 % of the requests: smaller or compressed values help most here`,
		`"lost:": none of 500 lookups per second hits: either nothing stores these keys, or readers and writers ` +
			`build them differently`,
		`"short:": most misses (75 %) are of items that were stored less than 10 minutes before and were evicted: ` +
			`they need more memory, smaller values, or a pool of their own`,
		`"wanted:": most misses (100 %) are of items that were stored less than 10 minutes before and were evicted: ` +
			`they need more memory, smaller values, or a pool of their own`,
	}, u.Advice)
	assert.Equal(t, `rare\x00:`, u.Prefixes[4].Name)
	page := u.Prefixes[0]
	assert.InDelta(t, 0.24, page.Share, 0.01)
	page.Share, page.BytesShare = 0, 0
	assert.Equal(t, UseLoad{
		Name: "page:", Requests: 1000, Hits: 900, Misses: 100, Bytes: 9000, EvictedSoon: 10, Mean: 2e6,
		Sampled: 100_000 / hotkeys.SampleEvery,
	}, page)

	of.Prefixes = of.Prefixes[:1]
	require.Empty(t, usageOf(&of).Advice, "the only prefix has all bytes")
}

func TestTheFiftyMostUsedPrefixesAreServed(t *testing.T) {
	registry := stats.New(stats.Options{Servers: []string{"a"}, Delimiter: ":"})
	for i := range 100 {
		for range 1 + i {
			registry.Usage().Add(fmt.Appendf(nil, "p%d:key", i), "", stats.Use{Requests: 1, Hits: 1}, stats.Now())
		}
	}
	_, url := serve(t, Options{Registry: registry})
	_, _, body := get(t, http.MethodGet, url+"/api/prefixes")
	var u Usage
	require.NoError(t, json.Unmarshal([]byte(body), &u))
	require.Len(t, u.Prefixes, 50)
	assert.Equal(t, "p99:", u.Prefixes[0].Name)
	assert.EqualValues(t, 100, u.Prefixes[0].Sampled)
	assert.Empty(t, u.Routes, "there is one route")
	assert.Empty(t, u.Users)
	report, err := Fetch(t.Context(), url, NoPoints)
	require.NoError(t, err)
	assert.Len(t, report.Usage.Prefixes, 50)
}

func TestRoutesAndUsersAreLabels(t *testing.T) {
	registry := stats.New(stats.Options{
		Servers: []string{"a"}, Routes: []stats.Route{{Prefix: "é\xff:"}, {Default: true}},
		RouteOf: func(key []byte) string {
			if string(key) == "k" {
				return "é\xff:"
			}
			return ""
		},
	})
	use := stats.Use{Requests: 1, Misses: 1, Bytes: 10, Timed: 1, Time: uint64(time.Second)}
	registry.Usage().Add([]byte("k"), "anna", use, stats.Now())
	values := gather(t, newTable(registry.Usage().Snapshot, usageMetrics))
	for series, want := range map[string]float64{
		`mcmw_route_requests_total{route="default"}`:                           0,
		`mcmw_route_requests_total{route="é\\xff:"}`:                           64,
		`mcmw_route_lookups_total{result="miss",route="é\\xff:"}`:              64,
		`mcmw_route_lookups_total{result="hit",route="é\\xff:"}`:               0,
		`mcmw_route_bytes_total{route="é\\xff:"}`:                              640,
		`mcmw_route_evicted_soon_total{route="é\\xff:"}`:                       0,
		`mcmw_user_requests_total{user="anna"}`:                                64,
		`mcmw_user_request_seconds_total{user="anna"}`:                         64,
		`mcmw_route_request_duration_seconds_count{route="é\\xff:"}`:           64,
		`mcmw_route_request_duration_seconds_sum{route="é\\xff:"}`:             64,
		`mcmw_route_request_duration_seconds_bucket{route="é\\xff:",le="2.5"}`: 64,
	} {
		got, found := values[series]
		assert.True(t, found, "%s in %v", series, values)
		assert.InDelta(t, want, got, 1e-6, series)
	}
}
