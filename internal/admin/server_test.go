package admin

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// serve starts a Server on a free port of loopback and returns its base URL. The Server ends with the test.
func serve(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", o)
}

func serveAt(t *testing.T, addr string, o Options) (*Server, string) {
	t.Helper()
	if o.Registry == nil {
		o.Registry = stats.New(stats.Options{Servers: []string{"a", "b"}, Workers: 1})
	}
	s, err := Listen(addr, "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	s.Show(o)
	_, port, err := net.SplitHostPort(s.Addr().String())
	require.NoError(t, err)
	return s, "http://127.0.0.1:" + port
}

// get returns the answer to a request without a body.
func get(t *testing.T, method, url string) (status int, header http.Header, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(text)
}

func TestReadyzAnswersOnlyWhileClientsAreServed(t *testing.T) {
	var ready atomic.Bool
	_, url := serve(t, Options{Ready: ready.Load})

	status, _, body := get(t, "GET", url+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "waits for memcached servers")

	ready.Store(true)
	status, header, body := get(t, "GET", url+"/readyz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "ok\n", body)
	require.Equal(t, "no-store", header.Get("Cache-Control"))

	ready.Store(false)
	status, _, _ = get(t, "GET", url+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
}

func TestLivezAnswersAlsoWhenNotReady(t *testing.T) {
	_, url := serve(t, Options{Ready: func() bool { return false }})

	status, _, _ := get(t, "GET", url+"/livez")
	require.Equal(t, http.StatusOK, status)
}

func TestAWrongPathOrMethodIsAClientError(t *testing.T) {
	_, url := serve(t, Options{})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/nothing", http.StatusNotFound},
		{"GET", "/livez/more", http.StatusNotFound},
		{"POST", "/livez", http.StatusMethodNotAllowed},
		{"DELETE", "/metrics", http.StatusMethodNotAllowed},
		{"PUT", "/", http.StatusMethodNotAllowed},
		{"POST", "/api/stats", http.StatusMethodNotAllowed},
		{"HEAD", "/readyz", http.StatusOK},
	} {
		status, header, _ := get(t, c.method, url+c.path)
		require.Equal(t, c.want, status, "%s %s", c.method, c.path)
		if c.want == http.StatusMethodNotAllowed {
			require.Equal(t, "GET, HEAD", header.Get("Allow"))
		}
	}
}

func TestProfilesAreServedOnlyOnLoopbackAddresses(t *testing.T) {
	_, url := serve(t, Options{})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		status, _, _ := get(t, "GET", url+path)
		require.Equal(t, http.StatusOK, status, path)
	}

	_, url = serveAt(t, "0.0.0.0:0", Options{})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		status, _, body := get(t, "GET", url+path)
		require.Equal(t, http.StatusForbidden, status, path)
		require.Contains(t, body, "loopback")
	}
	status, _, _ := get(t, "GET", url+"/metrics")
	require.Equal(t, http.StatusOK, status)
}

func TestAStartingServerAnswersWithTheReasonUntilItShowsAMiddleware(t *testing.T) {
	s, err := Listen("127.0.0.1:0", "there are no servers yet", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer s.Close()
	url := "http://" + s.Addr().String()
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/livez":   {http.StatusOK, "ok\n"},
		"/readyz":  {http.StatusServiceUnavailable, "not ready: there are no servers yet\n"},
		"/metrics": {http.StatusServiceUnavailable, "not ready: there are no servers yet\n"},
		"/":        {http.StatusServiceUnavailable, "not ready: there are no servers yet\n"},
	} {
		code, _, body := get(t, http.MethodGet, url+path)
		require.Equal(t, want.code, code, path)
		require.Equal(t, want.body, body, path)
	}
	s.Show(Options{Registry: stats.New(stats.Options{}), Control: new(stats.Control)})
	_, _, body := get(t, http.MethodGet, url+"/metrics")
	require.Contains(t, body, "mcmw_config_info{")
}

func TestAnAddressInUseIsNamed(t *testing.T) {
	taken, _ := serve(t, Options{})
	_, err := Listen(taken.Addr().String(), "", slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "admin address "+strconv.Quote(taken.Addr().String()))
	require.ErrorContains(t, err, "address already in use")
}

func TestThePageLoadsNothingFromOtherServers(t *testing.T) {
	_, url := serve(t, Options{})
	status, header, body := get(t, "GET", url+"/")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "text/html; charset=utf-8", header.Get("Content-Type"))
	require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, body, "/*STYLE*/")
	require.NotContains(t, body, "/*SCRIPT*/")
	for _, part := range []string{pageCSS, chartJS, pageJS} {
		require.Contains(t, body, part)
	}
	for _, outside := range []string{"src=", "@import", "url(", "https://", "<link rel=\"stylesheet"} {
		require.NotContains(t, body, outside)
	}
	withoutNamespace := strings.ReplaceAll(body, "http://www.w3.org/2000/svg", "")
	require.NotContains(t, withoutNamespace, "http://")
}

// statsOf returns the decoded answer of /api/stats.
func statsOf(t *testing.T, url string) Report {
	t.Helper()
	status, header, body := get(t, "GET", url)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	var r Report
	require.NoError(t, json.Unmarshal([]byte(body), &r))
	return r
}

func TestTheAPIServesThePointsAfterTheGivenOne(t *testing.T) {
	registry := stats.New(stats.Options{
		Servers: []string{"a", "b"}, Workers: 3,
		Queues: []stats.Queue{{Name: "shared", Capacity: 9}},
	})
	s, url := serve(t, Options{Registry: registry, Version: "v1.2.3", Ready: func() bool { return false }})
	for i := range 3 {
		registry.Worker(0).Request(protocol.Get, stats.ResultOK, 1, 1, &stats.Times{Replied: 1000})
		s.history.add(time.UnixMilli(int64(i)), registry.Snapshot())
	}

	r := statsOf(t, url+"/api/stats")
	require.Equal(t, "v1.2.3", r.Version)
	require.False(t, r.Ready)
	require.Equal(t, 3, r.Workers)
	require.Equal(t, 9, r.Capacity)
	require.EqualValues(t, 3, r.Requests)
	require.Equal(t, []string{"net", "queue", "worker", "server", "reply"}, r.Stages)
	require.Equal(t, []string{"a", "b"}, r.Servers)
	require.Len(t, r.Classes, int(stats.NumClasses))
	require.GreaterOrEqual(t, len(r.Points), 3)
	require.EqualValues(t, 1, r.Points[0].Sequence)

	r = statsOf(t, url+"/api/stats?after=2")
	require.EqualValues(t, 3, r.Points[0].Sequence)
	require.Empty(t, statsOf(t, url+"/api/stats?after=1000000").Points)
}

func TestTheAPIRefusesAnInvalidPoint(t *testing.T) {
	_, url := serve(t, Options{})
	for _, after := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		status, _, body := get(t, "GET", url+"/api/stats?after="+after)
		require.Equal(t, http.StatusBadRequest, status, after)
		require.Contains(t, body, strconv.Quote(after))
		require.Contains(t, body, "0 or more")
	}
}

func TestPointsAreAddedWhileServing(t *testing.T) {
	_, url := serve(t, Options{})
	require.Eventually(t, func() bool { return len(statsOf(t, url+"/api/stats").Points) > 0 },
		mctest.Patience, 20*time.Millisecond)
}
