package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/capacity"
	"mcmw/lab/record"
)

// tailsRecord makes a record of memcached and Redis. The 99th percentile grows with the clients, by 10 us per client of
// memcached and 20 us of Redis.
func tailsRecord(t *testing.T, experiment string) string {
	t.Helper()
	var runs []record.Run
	for factor, server := range []string{"memcached", "redis"} {
		for i, clients := range []int{10, 40, 60, 120} {
			for repetition, noise := range []float64{0.99, 1, 1.01} {
				tail := 1e-5 * float64((factor+1)*clients) * noise
				runs = append(runs, record.Run{
					Point: 4*factor + i, Repetition: repetition,
					Factors: map[string]string{"server": server, "clients": strconv.Itoa(clients)},
					Results: results("client", map[string]float64{
						"response_time_p99": tail, "response_time_mean": tail / 2,
						"throughput": float64(clients) / tail * 2, "errors": 0,
					}),
				})
			}
		}
	}
	return makeRecord(t, record.Manifest{Name: "tails", Experiment: experiment}, runs...)
}

func TestCapacityFindsTheHighestLoadOfEveryServer(t *testing.T) {
	dir := tailsRecord(t, "")
	stdout := output(t, "capacity", dir)
	assert.Contains(t, stdout,
		"server=memcached: up to 60 clients, 200,013/s ± 1.7 %; 120 clients break it (1.20 ms ± 1.7 %)\n"+
			"server=redis: up to 40 clients, 100,007/s ± 1.7 %; 60 clients break it (1.20 ms ± 1.7 %)\n")
	assert.Contains(t, stdout, "Highest load within client.response_time_p99 < 1ms, over clients")
	assert.NotContains(t, stdout, "All loads")

	stdout = output(t, "capacity", dir, "--format", "markdown", "--all", "--slo", "p99<300us", "--by", "server")
	assert.Contains(t, stdout,
		"| redis | 10 | 100,007/s ± 1.7 % | 200 µs ± 1.7 % | 40 clients break it (800 µs ± 1.7 %) |")
	assert.Contains(t, stdout, "| redis | 120 | 3 |")

	stdout = output(t, "capacity", dir, "--format", "json", "--where", "server=redis", "--slo", "mean<10ms")
	var c struct{ Lines []capacity.Line }
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Len(t, c.Lines, 1)
	assert.Equal(t, 3, c.Lines[0].Highest)
}

func TestCapacityUsesTheRuleOfTheExperiment(t *testing.T) {
	dir := tailsRecord(t, "name: tails\nfactors: {clients: [10, 40]}\nquality: {below: 500us, confidence: 0.9}\n")
	stdout := output(t, "capacity", dir)
	assert.Contains(t, stdout, "server=memcached: up to 40 clients")
	assert.Contains(t, stdout, "server=redis: up to 10 clients")
	assert.Contains(t, stdout, "the 90 % confidence bounds")
	stdout = output(t, "capacity", dir, "--slo", "p99<10ms")
	assert.Contains(t, stdout,
		"server=redis: up to 120 clients, 100,007/s ± 1.1 %; all measured levels hold, higher ones may, too")
}

func TestCapacityRefusesWrongFlags(t *testing.T) {
	dir := tailsRecord(t, "")
	for _, tc := range []struct {
		want string
		args []string
	}{
		{`--slo "p99 < soon", character 7: expected a number with a unit`, []string{"--slo", "p99 < soon"}},
		{
			"--metric is now one condition with --below, such as --slo 'p99 < 1ms'",
			[]string{"--metric", "client.throughput"},
		},
		{"confidence 2: expected", []string{"--confidence", "2"}},
		{
			`--where: factor server has no level "valkey": expected one of memcached, redis`,
			[]string{"--where", "server=valkey"},
		},
		{"server must be formatted as key=value", []string{"--where", "server"}},
		{`--format "yaml": expected one of text, markdown`, []string{"--format", "yaml"}},
	} {
		requireRefused(t, exitUsage, tc.want, append([]string{"capacity", dir}, tc.args...)...)
	}
	requireRefused(t, exitFailed, `factor "workers" doesn't vary: expected one of clients, server`,
		"capacity", dir, "--over", "workers")
	requireRefused(t, exitUsage, "takes the directory of one record", "capacity")
}

func TestTwoLevelsOfARecordAreComparedLikeTwoRecords(t *testing.T) {
	dir := tailsRecord(t, "")
	stdout := output(t, "compare", dir, "--by", "server", "--metrics", "response_time_p99")
	assert.Contains(t, stdout,
		"A: "+dir+" with server=memcached\nB: "+dir+" with server=redis\nserver: memcached -> redis\n")
	assert.Regexp(t,
		`clients=60 +600 µs ±2.5 % \(3\) +1.20 ms ±2.5 % \(3\) +\+100.0 % \[\+9\d\.\d, \+10\d\.\d\]`,
		stdout)

	stdout = output(t, "compare", dir, "--by", "clients=40,10", "--metrics", "throughput")
	assert.Regexp(t, `server=redis +100,007/s .* 100,007/s .* ~`, stdout)
	_, _, err := lab(context.Background(), "compare", dir, "--by", "server", "--fail-if", "change(p99) > 50%")
	assert.Equal(t, exitMet, exitCode(err, new(bytes.Buffer)))
	for by, want := range map[string]string{
		"clients":       "--by clients: expected clients=A,B with some of its levels 10, 40, 60, 120",
		"clients=10,11": "expected clients=A,B with some of its levels 10, 40, 60, 120",
		"workers":       "--by workers: expected a factor that varies: clients, server",
	} {
		requireRefused(t, exitUsage, want, "compare", dir, "--by", by)
	}
	requireRefused(t, exitUsage, "takes the directory of one record", "compare", dir, dir, "--by", "server")
}

func TestTheCapacityOfAServerIsSearched(t *testing.T) {
	server := mctest.StartMemcached(t)
	// Of the first rate it is certain that the condition holds, and no server answers in a nanosecond. Where a search
	// ends between is tested in lab/capacity.
	search := []string{"capacity", "--target", server.Addr(), "--first", "200", "--precision", "1", "--runs", "2"}
	ofLoad := []string{
		"--", "--populate", "-c", "2", "--key-maximum", "100", "--test-time", "100ms", "--warm-up", "0",
		"--arrivals", "even",
	}
	stdout, stderr, err := lab(t.Context(), slices.Concat(search, []string{"--slo", "throughput < 1000"}, ofLoad)...)
	require.NoError(t, err, stderr)
	assert.Regexp(t, `^up to \d+ requests/s, \d+/s ± `, stdout)
	assert.Regexp(t, `(?m)^200 requests/s: throughput \d+/s; throughput < 1000 holds`, stderr)

	_, _, err = lab(t.Context(), slices.Concat(search, []string{"--slo", "p99 < 1ns"}, ofLoad)...)
	require.EqualError(t, err, "p99 < 1ns is still broken at 1.5625 requests per second")
	for line, want := range map[string]string{
		"capacity RECORD --target :1":            `with --target no record, and flags of mcmwlab load only after --, got ["RECORD"]`,
		"capacity --target :1 -- --rate 5":       "--rate after --: the search sets it",
		"capacity --target :1 -- --ratio x":      "ratio",
		"capacity --target :1 -- --no-such":      "after --, the flags of mcmwlab load: unknown flag: --no-such",
		"capacity --target :1 --runs 1":          "expected at least 1, 0.001 to 1, and at least 2",
		"capacity --target :1 --slo p99<1":       "--slo",
		"capacity --target :1 --confidence 0.2":  "confidence 0.2: expected more than 0.5",
		"capacity --target :1 --format png":      `format "png"`,
		"capacity --target :1 -- --clients 0":    "--clients 0: expected at least 1",
		"capacity --target :1 -- --rate t.csv":   "--rate after --: the search sets it",
		"capacity --target :1 -- --requests 100": "--requests after --: the search sets it",
		"capacity --target :1 -- --clients 5 6":  `after --, the flags of mcmwlab load: expected flags only, not ["6"]`,
		"capacity --target :1 -- -o x.csv":       "--out-file after --: the search sets it, or has none",
		"capacity --target :1 --where a=b":       "--where: a search has no factors; expected it only with a record",
	} {
		requireRefused(t, exitUsage, want, strings.Fields(line)...)
	}
}
