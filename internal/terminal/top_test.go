package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/admin"
	"mcmw/internal/model"
	"mcmw/internal/stats"
)

// shownSummary is a second with something in every field that is shown.
var shownSummary = admin.Summary{
	Count: 12345, Rate: 12345.4, Errors: 3, Keys: 10000, Misses: 100, Batch: 2.34, Waiting: 4.56, Batches: 3,
	Busy: 1.26,
	Mean: 400e3, P50: 300e3, P90: 999.6e3, P99: 12.3e6, P999: 1.5e9,
	Stages:  [stats.NumStages]float64{2e3, 98e3, 50e3, 200e3, 50e3},
	Servers: []admin.ServerLoad{{Load: admin.Load{Rate: 12345, Mean: 150e3, P99: 1e6}}, {Load: admin.Load{Errors: 7}}},
}

// shownReport is the answer of a middleware with two servers, one of which is down.
func shownReport() *admin.Report {
	point := admin.Point{Sequence: 7, Time: 1000, Open: 16, Summary: shownSummary}
	point.Hist = []uint64{0, 0, 1, 4, 2, 0, 0}
	point.Classes[stats.ClassGet] = admin.ClassLoad{
		Load: admin.Load{Rate: 12345, Mean: 400e3, P50: 300e3, P99: 12.3e6}, Stages: shownSummary.Stages,
	}
	return &admin.Report{
		Version: "v1", Ready: true, Started: 1, Uptime: 3725.4, Workers: 4, Capacity: 1024, Requests: 1234567,
		Classes:   []string{"get", "multi_get"},
		Servers:   []string{"cache-1", "a-rather-long-name-of-a-server.example:11211"},
		Health:    []admin.ServerHealth{{State: "up"}, {State: "down", For: 61, Why: "refused"}},
		Agreement: admin.Agreement{Text: "compared 3m0s ago; all agreed"},
		Bounds:    []int64{10e3, 20e3, 50e3, 100e3, 200e3, 500e3},
		Model: &model.Report{
			Rate: 12345, Bottleneck: 1, Capacity: 13000, Saturated: true,
			Advice: "The workers are the limit: more would help.",
			Parts: []model.Part{
				{Part: model.PartProcessor, Utilization: 0.4},
				{Part: model.PartWorkers, Utilization: 0.95},
				{Part: model.PartServer, Server: "cache-1", Utilization: 0.25},
			},
		},
		Points: []admin.Point{point},
	}
}

func TestTopShowsTheNewestSecond(t *testing.T) {
	m := &Top{url: "http://127.0.0.1:9150", report: shownReport(), trend: []float64{0, 50, 100}}
	var lines []string
	for _, line := range m.lines(100) {
		lines = append(lines, strings.TrimRight(Cut(line, 1000, false), " "))
	}
	require.Equal(t, `mcmw top  http://127.0.0.1:9150  v1, up 1h2m5s; q quits
  state          serving; 16 connections, 1,234,567 requests so far

  throughput     12,345 requests/s  ▁▄█
  response time  p50 300 µs  p90 1.00 ms  p99 12.3 ms  p99.9 1.50 s  mean 400 µs
    net           2.00 µs   0 %  ▎
    queue         98.0 µs  24 %  █████████▊
    worker        50.0 µs  12 %  █████
    server         200 µs  50 %  ████████████████████
    reply         50.0 µs  12 %  █████
  queue          4.6 requests waiting, 3 of 1,024 slots taken
  workers        1.3 of 4 busy, 2.3 requests per round
  keys           10,000/s requested, 99.0 % found
  failed         3 requests/s
  spread         20.0 µs ▂█▄ 200 µs
  in use         processor 40 %, workers 95 %, the limit is the workers at 13,000 requests/s

  server                        requests/s  in use      mean       p99  waiting  failed/s  state
  cache-1                           12,345    25 %    150 µs   1.00 ms      0.0         0  up
  …e-of-a-server.example:11211           0     0 %         –         –      0.0         7  down for 1m1s

  replicas       compared 3m0s ago; all agreed

  The workers are the limit: more would help.

  command        requests/s      mean       p50       p99  where the time goes
  get                12,345    400 µs    300 µs   12.3 ms  ████████████████████████`, strings.Join(lines, "\n"))

	m.report.Pools, m.report.Gutters = []string{"sessions", "pages"},
		map[string]string{"pages": "keys of servers that are down are in spare"}
	require.Regexp(t,
		`state\n +pool sessions\n +cache-1 .*\n +pool pages: keys of servers that are down are in spare\n +…e-of-a-server`, Cut(strings.Join(m.lines(100), "\n"), 10000, false))

	m.lost, m.since = errors.New("refused"), time.Now()
	require.Contains(t, strings.Join(m.lines(100), "\n"), "no answer since")
}

func TestTopShowsThePrefixesThatAreUsedMost(t *testing.T) {
	m := &Top{report: shownReport(), shown: Shown{Prefixes: true}}
	require.Contains(t, strings.Join(m.lines(100), "\n"), "no prefixes: no requests, or mcmw runs without --prefixes")
	m.report.Usage.Prefixes = []admin.UseLoad{
		{
			Name: "session:", Share: 0.75, BytesShare: 0.1, Requests: 12345, Hits: 900, Misses: 100, EvictedSoon: 12,
			Mean: 400e3,
		},
		{Name: "log:", Share: 0.25, BytesShare: 0.9, Requests: 4000},
	}
	var lines []string
	for _, line := range prefixesOf(&m.report.Usage) {
		lines = append(lines, Cut(line, 100, false))
	}
	require.Equal(t, []string{
		"  prefix    requests/s    share    found    bytes evicted soon/s      mean",
		"  session:      12,345   75.0 %   90.0 %   10.0 %             12    400 µs",
		"  log:           4,000   25.0 %        –   90.0 %              0         –",
	}, lines)
	require.Contains(t, m.line(m.newest()), "; most used prefix session: 75.0 %")
}

func TestTopReportsALostServerAndContinuesWithTheNextOne(t *testing.T) {
	var answer atomic.Pointer[admin.Report]
	answer.Store(shownReport())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := answer.Load()
		if r == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(r)
	}))
	defer server.Close()
	m := &Top{url: server.URL}
	var stdout, stderr bytes.Buffer
	ask := func() (wait time.Duration) {
		news, wait := m.ask(t.Context())
		m.print(&stdout, &stderr, news)
		return wait
	}

	require.Equal(t, topPeriod, ask())
	require.Contains(t, stdout.String(), "is down\n")
	answer.Store(nil)
	require.Equal(t, topPeriod, ask())
	require.Equal(t, topPeriod, ask())
	require.Equal(t, server.URL+" answered 503 Service Unavailable; trying again\n", stderr.String(),
		"it is reported once")
	require.Contains(t, m.stateOf(), "no answer since")
	require.NotNil(t, m.report, "the last numbers stay")

	next := shownReport()
	next.Started++
	next.Points[0].Sequence = 1
	answer.Store(next)
	require.Zero(t, ask(), "it is another process, with its own points")
	ask()
	require.Nil(t, m.lost)
	require.Len(t, m.trend, 1)
	next = shownReport()
	next.Started++
	next.Points = nil
	answer.Store(next)
	require.Equal(t, topSoon, ask(), "the request came just before a tick")
	require.Equal(t, 2, strings.Count(stdout.String(), "\n"))
}
