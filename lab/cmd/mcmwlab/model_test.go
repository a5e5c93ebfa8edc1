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
						"connections": strconv.Itoa(clients), "workers": strconv.Itoa(workers),
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
	stdout := output(t, "model", dir, "--clients", "64", "--workers", "16", "--round-trip", "50us")
	assert.Contains(t, stdout, "Predicted from sweep: 64 clients, 16 workers, 1 servers, 1 replicas.")
	assert.Contains(t, stdout, "64 clients are outside the measured range, 2 to 32.")
	assert.Contains(t, stdout, "between clients and middlewares is 0.050 ms instead of the measured 0.100 ms")
	stdout = output(t, "model", dir, "--target-rate", "3000", "--target-p99", "20ms")
	assert.Contains(t, stdout, "settings meet 3000 ops/s with a p99 of 20ms; the cheapest first.")
	requireRefused(t, exitFailed, "no setting reaches 100000000 ops/s", "model", dir, "--target-rate", "1e8",
		"--target-p99", "1ms")
}

func TestModelAndPredictRefuseWrongFlags(t *testing.T) {
	dir := sweepRecord(t)
	for want, args := range map[string][]string{
		"takes the directory of one record, got []": {"model"},
		`--format "pdf"`:                  {"model", dir, "--format", "pdf"},
		"--target-rate 5 --target-p99 0s": {"model", dir, "--target-rate", "5"},
		"--target-rate 0 --target-p99 0s": {"model", dir, "--target-rate", "0"},
		"--clients 4 with a target": {
			"model", dir, "--target-rate", "5", "--target-p99", "1s",
			"--clients", "4",
		},
		"--most 0: expected at least 1":                              {"model", dir, "--most", "0"},
		`"0" for "--workers" flag: expected a whole number above 0`:  {"model", dir, "--workers", "0"},
		`"-2" for "--servers" flag: expected a whole number above 0`: {"model", dir, "--servers", "-2"},
		"--round-trip -1ms: expected 0 or more":                      {"model", dir, "--round-trip", "-1ms"},
		`"0" for "--clients" flag: expected a whole number above 0`:  {"model", dir, "--clients", "0"},
		`"0" for "--replicas" flag: expected a whole number above 0`: {"model", dir, "--replicas", "0"},
		`"-3" for "--workers" flag: expected a whole number above 0`: {"model", dir, "--workers", "-3"},
		`--format "x"`:                          {"model", dir, "--format", "x"},
		`invalid argument "soon" for "--round-`: {"model", dir, "--round-trip", "soon"},
	} {
		requireRefused(t, exitUsage, want, args...)
	}
	_, _, err := lab(context.Background(), "model", t.TempDir())
	require.ErrorIs(t, err, record.ErrNoRecord)
}
