package demo

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/admin"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/terminal"
)

// shownDemo is a demo for the table. One of its servers has ended.
func shownDemo() *demo {
	ended := make(chan struct{})
	close(ended)
	runs := make(chan struct{})
	return &demo{
		options:  &Options{Clients: 64, Workers: 4, ValueSize: 32, Ratio: Ratio{1, 9}},
		capacity: 1024,
		clients:  "127.0.0.1:40001",
		page:     "http://127.0.0.1:9150/",
		fleet: &fleet{servers: []*server{
			{name: "memcached-1", addr: "127.0.0.1:40002", ended: runs},
			{name: "memcached-2", addr: "127.0.0.1:40003", ended: ended},
		}},
	}
}

var shownSummary = admin.Summary{
	Count: 12345, Rate: 12345.4, Errors: 3, Keys: 10000, Misses: 100, Batch: 2.34, Waiting: 4.56, Batches: 3,
	Busy: 1.26,
	Mean: 400e3, P50: 300e3, P90: 999.6e3, P99: 12.3e6, P999: 1.5e9,
	Stages:  [stats.NumStages]float64{2e3, 98e3, 50e3, 200e3, 50e3},
	Servers: []admin.ServerLoad{{Load: admin.Load{Rate: 12345, Mean: 150e3, P99: 1e6}}, {Load: admin.Load{Errors: 7}}},
}

func TestTheTableShowsTheNumbersOfTheSecond(t *testing.T) {
	var lines []string
	for _, line := range tableOf(shownDemo(), shownSummary, []float64{0, 50, 100}, "7 s of 30s") {
		lines = append(lines, strings.TrimRight(terminal.Cut(line, 1000, false), " "))
	}
	want := `mcmw demo  3 servers, 4 workers, 64 clients, values of 32 bytes, SET:GET 1:9
  live page      http://127.0.0.1:9150/
  clients        127.0.0.1:40001  (yours may connect too)

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

  server        address            requests/s      mean       p99  failures/s
  memcached-1   127.0.0.1:40002        12,345    150 µs   1.00 ms           0
  memcached-2   127.0.0.1:40003             0         –         –       ended

  7 s of 30s; press Ctrl-C to end`
	require.Equal(t, want, strings.Join(lines, "\n"))
}

func TestTheTableOfAnIdleSecondHasNoTimes(t *testing.T) {
	text := strings.Join(tableOf(shownDemo(), admin.Summary{Servers: make([]admin.ServerLoad, 2)}, []float64{0}, "1 s"),
		"\n")
	require.NotContains(t, text, "NaN")
	require.NotContains(t, text, "µs")
	require.Contains(t, text, "none requested")
}

func TestWithoutATerminalOneLineHasTheSameNumbers(t *testing.T) {
	var out bytes.Buffer
	v := newView(&out)
	require.Equal(t, linePeriod, v.period())
	v.begin(shownDemo())
	v.show(shownDemo(), shownSummary, "5 s")
	require.Equal(t,
		"mcmw demo: 3 servers, 4 workers, 64 clients, values of 32 bytes, SET:GET 1:9; clients may connect to "+
			"127.0.0.1:40001; "+
			"live page http://127.0.0.1:9150/\n"+
			"5 s: 12,345 requests/s, mean 400 µs, p50 300 µs, p99 12.3 ms; 4.6 waiting, 1.3 of 4 workers busy, 3 "+
			"failed/s\n", out.String())
}

func TestTheSummaryHasTheTimesOfClientsAndMiddleware(t *testing.T) {
	r := stats.New(stats.Options{Servers: []string{"a", "b"}, Workers: 1})
	before := r.Snapshot()
	for range 1500 {
		r.Worker(0).Server(0, int64(150*time.Microsecond))
	}
	r.Worker(0).Flush()
	window := r.Snapshot().Sub(before)
	d := shownDemo()
	d.load = newLoad(d.options, d.clients)
	for i := range 2000 {
		reply := "END\r\n"
		if i >= 1998 {
			reply = "SERVER_ERROR memcached-2: connection refused\r\n"
		}
		d.load.answered(protocol.Get, stats.Now()-int64(1500*time.Microsecond), 1, 1, []byte(reply))
	}
	lines := summaryOf(d, window, 12340*time.Millisecond)
	text := strings.Join(lines, "\n")
	require.Contains(t, text, "2,000 requests in 12.3 s: 162/s; 2 failed\n")
	require.Regexp(t, `seen by the clients: mean [\d.]+ .s, p50 [\d.]+ .s,`, text)
	require.Contains(t, text, "memcached-1: 1,500 requests, mean 150 µs, p99 160 µs\n")
	require.Contains(t, text, "first failure: SERVER_ERROR memcached-2: connection refused")
}

func TestALogLineThatRepeatsIsShownOnce(t *testing.T) {
	var out, stderr bytes.Buffer
	log := newView(&out).logger(&stderr)
	for range 3 {
		log.Warn("a server failed", "server", "b", "error", errors.New("refused"))
		log.Info("nothing to worry about")
	}
	log.Warn("a server failed", "server", "c", "error", errors.New("refused"))
	require.Equal(t, "msg=\"a server failed\" server=b error=refused\nmsg=\"a server failed\" server=c error=refused\n",
		stderr.String())
	require.Empty(t, out.String())
}

func TestOnATerminalTheNewestLogLinesAreKeptForTheTable(t *testing.T) {
	v := &view{table: true}
	var stderr bytes.Buffer
	log := v.logger(&stderr)
	for i := range maxNotices + 2 {
		log.Warn("failed", slog.Int("n", i))
	}
	require.Empty(t, stderr.String())
	require.Len(t, v.notices, maxNotices)
	require.Equal(t, "msg=failed n=2", v.notices[0])
}

func TestTheLoadsValuesFitInTheServers(t *testing.T) {
	for size, keys := range map[int]uint64{1: maxKeys, 64: maxKeys, 100_000: 335, 1_000_000: 33} {
		o := Options{ValueSize: size}
		require.Equal(t, keys, o.keys(), "values of %d bytes", size)
	}
}
