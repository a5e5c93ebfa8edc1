package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/lab/capacity"
	"mcmw/internal/lab/record"
)

// tailsRecord makes a record of memcached and Redis, whose 99th percentile grows with the clients, twice as fast with Redis: 10 and 20 us each.
func tailsRecord(t *testing.T, experiment string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "record")
	r, err := record.Create(dir, record.Manifest{Name: "tails", Experiment: experiment})
	require.NoError(t, err)
	defer r.Close()
	point := 0
	for factor, server := range []string{"memcached", "redis"} {
		for _, clients := range []int{10, 40, 60, 120} {
			for repetition, noise := range []float64{0.99, 1, 1.01} {
				tail := 1e-5 * float64((factor+1)*clients) * noise
				require.NoError(t, r.Add(record.Run{
					Point: point, Repetition: repetition, State: record.Complete, Seconds: 1,
					Factors: map[string]string{"server": server, "clients": strconv.Itoa(clients), "connections": strconv.Itoa(clients)},
					Results: []record.Value{
						{Source: "client", Metric: "response_time_p99", Value: tail},
						{Source: "client", Metric: "response_time_mean", Value: tail / 2},
						{Source: "client", Metric: "throughput", Value: float64(clients) / tail * 2},
						{Source: "client", Metric: "errors"},
					},
				}))
			}
			point++
		}
	}
	return dir
}

func TestCapacitySaysHowFarEveryServerGoes(t *testing.T) {
	dir := tailsRecord(t, "")
	stdout, _, err := lab(context.Background(), "capacity", dir)
	require.NoError(t, err)
	assert.Contains(t, stdout, "server=memcached: up to 60 clients, 200,013/s ± 1.7 %; 120 clients break it (1.20 ms ± 1.7 %)\n"+
		"server=redis: up to 40 clients, 100,007/s ± 1.7 %; 60 clients break it (1.20 ms ± 1.7 %)\n")
	assert.Contains(t, stdout, "Highest load within response_time_p99 < 1.00 ms at client, over clients")
	assert.NotContains(t, stdout, "All loads")

	stdout, _, err = lab(context.Background(), "capacity", dir, "--format", "markdown", "--all", "--below", "300us", "--by", "server")
	require.NoError(t, err)
	assert.Contains(t, stdout, "| redis | 10 | 100,007/s ± 1.7 % | 200 µs ± 1.7 % | 40 clients break it (800 µs ± 1.7 %) |")
	assert.Contains(t, stdout, "| redis | 120 | 3 |")

	stdout, _, err = lab(context.Background(), "capacity", dir, "--format", "json", "--select", "server=redis", "--metric", "client.response_time_mean", "--below", "0.01")
	require.NoError(t, err)
	var c capacity.Capacity
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Len(t, c.Lines, 1)
	assert.Equal(t, 3, c.Lines[0].Highest)
}

func TestCapacityTakesTheRuleOfTheExperiment(t *testing.T) {
	dir := tailsRecord(t, "name: tails\nfactors: {clients: [10, 40]}\nquality: {below: 500us, confidence: 0.9}\n")
	stdout, _, err := lab(context.Background(), "capacity", dir)
	require.NoError(t, err)
	assert.Contains(t, stdout, "server=memcached: up to 40 clients")
	assert.Contains(t, stdout, "server=redis: up to 10 clients")
	assert.Contains(t, stdout, "upper 90 % confidence bound")
	stdout, _, err = lab(context.Background(), "capacity", dir, "--below", "10ms")
	require.NoError(t, err)
	assert.Contains(t, stdout, "server=redis: up to 120 clients, 100,007/s ± 1.1 %; all measured levels hold, higher ones may, too")
}

func TestCapacityRefusesWhatItCannotLookAt(t *testing.T) {
	dir := tailsRecord(t, "")
	for _, tc := range []struct {
		want string
		args []string
	}{
		{`--below "soon": expected a duration such as 1ms`, []string{"--below", "soon"}},
		{`--metric "p99": expected a source and a metric`, []string{"--metric", "p99"}},
		{"--metric client.throughput: expected --below with its limit", []string{"--metric", "client.throughput"}},
		{"confidence 2: expected", []string{"--confidence", "2"}},
		{"--select server=valkey: no run has that", []string{"--select", "server=valkey"}},
		{`--select "server": expected FACTOR=LEVEL`, []string{"--select", "server"}},
		{`--format: format "csv"`, []string{"--format", "csv"}},
	} {
		_, _, err := lab(context.Background(), append([]string{"capacity", dir}, tc.args...)...)
		require.ErrorContains(t, err, tc.want)
		assert.Equal(t, exitUsage, exitCode(err, new(bytes.Buffer)), tc.want)
	}
	_, _, err := lab(context.Background(), "capacity", dir, "--over", "workers")
	require.ErrorContains(t, err, `factor "workers" doesn't vary: expected one of clients, connections, server`)
	_, _, err = lab(context.Background(), "capacity")
	require.ErrorContains(t, err, "takes the directory of one record")
}

func TestTwoLevelsOfARecordAreComparedLikeTwoRecords(t *testing.T) {
	dir := tailsRecord(t, "")
	stdout, _, err := lab(context.Background(), "compare", dir, "--by", "server", "--metrics", "response_time_p99")
	require.NoError(t, err)
	assert.Contains(t, stdout, "A: "+dir+" with server=memcached\nB: "+dir+" with server=redis\nserver: memcached -> redis\n")
	assert.Regexp(t, `clients=60, connections=60 +600 µs ±2.5 % \(3\) +1.20 ms ±2.5 % \(3\) +\+100.0 % \[\+9\d\.\d, \+10\d\.\d\]`, stdout)

	stdout, _, err = lab(context.Background(), "compare", dir, "--by", "clients=40,10", "--metrics", "throughput")
	require.NoError(t, err)
	assert.Regexp(t, `server=redis +100,007/s .* 100,007/s .* ~`, stdout)
	_, _, err = lab(context.Background(), "compare", dir, "--by", "server", "--fail-if", "response_time_p99 > 50%")
	assert.Equal(t, exitMet, exitCode(err, new(bytes.Buffer)))
	for by, want := range map[string]string{
		"clients":       "--by clients: expected clients=A,B with some of its levels 10, 40, 60, 120",
		"clients=10,11": "expected clients=A,B with some of its levels 10, 40, 60, 120",
		"workers":       "--by workers: expected a factor that varies: clients, connections, server",
	} {
		_, _, err = lab(context.Background(), "compare", dir, "--by", by)
		require.ErrorContains(t, err, want)
	}
	_, _, err = lab(context.Background(), "compare", dir, dir, "--by", "server")
	require.ErrorContains(t, err, "takes the directory of one record")
}
