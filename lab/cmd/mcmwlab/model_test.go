package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
)

// sweepRecord makes a record of a sweep over clients and workers. A worker needs 1 ms for a request; 1 ms is spent
// elsewhere.
func sweepRecord(t *testing.T) string {
	t.Helper()
	var runs []record.Run
	for w, workers := range []int{4, 8} {
		for c, clients := range []int{2, 4, 8, 16, 32} {
			const service, outside = 1e-3, 1e-3
			x := math.Min(float64(clients)/(service+outside), float64(workers)/service)
			response := float64(clients) / x
			for repetition := range 2 {
				x := x * (1 + 0.01*float64(repetition))
				runs = append(runs, record.Run{
					Point: 5*w + c, Repetition: repetition,
					Factors: map[string]string{
						"clients": strconv.Itoa(clients), "workers": strconv.Itoa(workers),
						"servers": "1",
					},
					Results: slices.Concat(
						results("client", map[string]float64{
							"throughput": x, "response_time_mean": response,
							"response_time_p99": 3 * response,
						}),
						results("middleware", map[string]float64{
							"throughput": x, "response_time_mean": response - outside, "stage_net_mean": 1e-6,
							"stage_queue_mean":  response - service - outside,
							"stage_worker_mean": service / 4, "stage_server_mean": service / 2,
							"stage_reply_mean": service / 4,
						})),
				})
			}
		}
	}
	return makeRecord(t, record.Manifest{
		Name: "sweep",
		Path: results("path", map[string]float64{"round_trip_time_mean": 1e-4}),
	}, runs...)
}

func TestModelPrintsAndDrawsPredictionsAndMeasurements(t *testing.T) {
	dir, figures := sweepRecord(t), filepath.Join(t.TempDir(), "figures")
	stdout := output(t, "model", dir, "--out", figures)
	for _, want := range []string{
		"4 workers: measured and predicted.", "8 workers: parameters with 32 clients", "M/M/m closed", "multiclass",
		"largest client throughput of a run with this configuration", "clients < workers",
	} {
		assert.Contains(t, stdout, want)
	}
	for _, name := range []string{"model-throughput.svg", "model-response-time.svg"} {
		text, err := os.ReadFile(filepath.Join(figures, name))
		require.NoError(t, err)
		assert.Contains(t, string(text), "<svg")
	}
	stdout = output(t, "model", dir, "--format", "markdown")
	assert.Contains(t, stdout, "| own |")
}

func TestPredictPredictsTheEffectOfOtherSettings(t *testing.T) {
	dir := sweepRecord(t)
	stdout := output(t, "model", dir, "--set", "clients=64,workers=16", "--set", "round_trip=50us")
	assert.Contains(t, stdout, "Predicted from sweep: 64 clients, 16 workers, 1 servers, 1 replicas.")
	assert.Contains(t, stdout, "64 clients are outside the measured range, 2 to 32.")
	assert.Contains(t, stdout, "between clients and middlewares is 0.050 ms instead of the measured 0.100 ms")
	stdout = output(t, "model", dir, "--slo", "throughput >= 3000", "--slo", "p99 < 20ms")
	assert.Contains(t, stdout, "settings meet 3000 ops/s with a p99 of 20ms; the cheapest first.")
	requireRefused(t, exitFailed, "no setting reaches 100000000 ops/s", "model", dir, "--slo", "throughput > 1e8",
		"--slo", "p99<1ms", "--cost", "worker=0,server=2")
}

func TestModelAndPredictRefuseWrongFlags(t *testing.T) {
	dir := sweepRecord(t)
	for want, args := range map[string][]string{
		"takes the directory of one record, got []": {"model"},
		`--format "pdf"`: {"model", dir, "--format", "pdf"},
		`--slo ["throughput > 5"]: expected two conditions`: {"model", dir, "--slo", "throughput > 5"},
		`--slo "x", character 1: expected a metric`:         {"model", dir, "--slo", "x"},
		`"p99 > 1ms"]: expected two conditions`: {"model", dir, "--slo", "throughput>5", "--slo", "p99 > " +
			"1ms"},
		`"p99 < 0"]: expected two conditions`: {"model", dir, "--slo", "throughput>5", "--slo", "p99 < " +
			"0"},
		"--set clients=4 with --slo": {
			"model", dir, "--slo", "throughput>5", "--slo", "p99<1s", "--set", "clients=4",
		},
		"--most 0: expected at least 1":                             {"model", dir, "--most", "0"},
		"--set workers=0: expected a whole number from 1 to 20000":  {"model", dir, "--set", "workers=0"},
		"--set servers=-2: expected a whole number from 1":          {"model", dir, "--set", "servers=-2"},
		"--set clients=x: expected a whole number from 1":           {"model", dir, "--set", "clients=x"},
		"--set clients=99999999999: expected a whole number from 1": {"model", dir, "--set", "clients=99999999999"},
		"--set round_trip=-1ms: expected a duration":                {"model", dir, "--set", "round_trip=-1ms"},
		"--set round_trip=soon: expected a duration":                {"model", dir, "--set", "round_trip=soon"},
		"--set speed=1: expected one of clients, workers":           {"model", dir, "--set", "speed=1"},
		"--cost server=-1: expected a number, 0 or above":           {"model", dir, "--cost", "server=-1"},
		"--cost client=1: expected one of worker, middleware":       {"model", dir, "--cost", "client=1"},
		"--clients is now --set clients=N":                          {"model", dir, "--clients", "4"},
	} {
		requireRefused(t, exitUsage, want, args...)
	}
	_, _, err := lab(context.Background(), "model", t.TempDir())
	require.ErrorIs(t, err, record.ErrNoRecord)
}
