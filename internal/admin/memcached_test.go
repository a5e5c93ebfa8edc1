package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/stats"
)

// ownStatistics returns a function that returns statistics of the server "a", as if another server had not answered.
// The numbers are multiples of n, which counts the calls.
func ownStatistics(n *uint64) func(context.Context) map[string]stats.Memcached {
	return func(ctx context.Context) map[string]stats.Memcached {
		if _, bounded := ctx.Deadline(); !bounded {
			return nil
		}
		*n++
		v := *n
		return map[string]stats.Memcached{"a": {
			Bytes: v, Limit: 2 * v, Items: 3 * v, Evictions: 4 * v, Hits: 5 * v,
			Misses: 6 * v, Connections: 7 * v, MaxConnections: 8 * v,
		}}
	}
}

func TestTheOwnStatisticsOfServersThatAnswerAreExported(t *testing.T) {
	var n uint64
	c := newTable((&asked{ask: ownStatistics(&n)}).get, memcachedMetrics)
	for v := range 3 {
		v := float64(v + 1)
		require.Equal(t, map[string]float64{
			`mcmw_memcached_items{server="a"}`: 3 * v, `mcmw_memcached_items_bytes{server="a"}`: v,
			`mcmw_memcached_limit_bytes{server="a"}`:     2 * v,
			`mcmw_memcached_evictions_total{server="a"}`: 4 * v, `mcmw_memcached_hits_total{server="a"}`: 5 * v,
			`mcmw_memcached_misses_total{server="a"}`: 6 * v,
			`mcmw_memcached_connections{server="a"}`:  7 * v, `mcmw_memcached_max_connections{server="a"}`: 8 * v,
		}, gather(t, c))
	}
	require.Empty(t, gather(t, newTable((&asked{}).get, memcachedMetrics)), "there are no statistics")
}

func TestServersAreAskedOncePerInterval(t *testing.T) {
	var n uint64
	a := &asked{ask: ownStatistics(&n), every: time.Hour}
	for range 3 {
		require.EqualValues(t, 1, a.get()["a"].Bytes)
	}
}

func TestThePageGetsTheOwnStatisticsOfServers(t *testing.T) {
	var n uint64
	_, base := serve(t, Options{Memcached: ownStatistics(&n)})
	r := statsOf(t, base+"/api/stats")
	require.Equal(t, []string{"a", "b"}, r.Servers)
	require.EqualValues(t, 4, r.Memcached[0].Evictions)
	require.Nil(t, r.Memcached[1], "it does not answer")
}

func TestThePageWorksUnderAPathPrefix(t *testing.T) {
	_, base := serve(t, Options{})
	target, err := url.Parse(base)
	require.NoError(t, err)
	const prefix = "/api/v1/namespaces/cache/services/mcmw-metrics:9150/proxy"
	proxy := httptest.NewServer(http.StripPrefix(prefix, httputil.NewSingleHostReverseProxy(target)))
	defer proxy.Close()
	_, _, body := get(t, "GET", proxy.URL+prefix+"/")
	page, err := url.Parse(proxy.URL + prefix + "/")
	require.NoError(t, err)
	links := regexp.MustCompile("(?:href=\"|fetch\\(`)([^\"`?#]*)").FindAllStringSubmatch(body, -1)
	require.GreaterOrEqual(t, len(links), 7)
	for _, link := range links {
		to, err := page.Parse(link[1])
		require.NoError(t, err)
		if to.Scheme == "data" {
			continue
		}
		status, _, _ := get(t, "GET", to.String())
		require.Equal(t, http.StatusOK, status, link[1])
	}
}
