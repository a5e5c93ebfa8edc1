package main

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/lab/record"
)

// sweepRecord writes a record of a sweep over clients and workers: workers take 1 ms, and what is sent and thought 1 ms.
func sweepRecord(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sweep")
	r, err := record.Create(dir, record.Manifest{Name: "sweep", Path: []record.Value{{Source: "path", Metric: "round_trip_time_mean", Value: 1e-4}}})
	require.NoError(t, err)
	defer r.Close()
	point := 0
	for _, workers := range []int{4, 8} {
		for _, clients := range []int{2, 4, 8, 16, 32} {
			const service, outside = 1e-3, 1e-3
			x := math.Min(float64(clients)/(service+outside), float64(workers)/service)
			response := float64(clients) / x
			for repetition := range 2 {
				x := x * (1 + 0.01*float64(repetition))
				require.NoError(t, r.Add(record.Run{
					Point: point, Repetition: repetition, Started: time.Unix(0, 0).UTC(), Seconds: 1, State: record.Complete,
					Factors: map[string]string{"connections": strconv.Itoa(clients), "workers": strconv.Itoa(workers), "servers": "1"},
					Results: []record.Value{
						{Source: "client", Metric: "throughput", Value: x},
						{Source: "client", Metric: "response_time_mean", Value: response},
						{Source: "client", Metric: "response_time_p99", Value: 3 * response},
						{Source: "middleware", Metric: "throughput", Value: x},
						{Source: "middleware", Metric: "response_time_mean", Value: response - outside},
						{Source: "middleware", Metric: "stage_net_mean", Value: 1e-6},
						{Source: "middleware", Metric: "stage_queue_mean", Value: response - service - outside},
						{Source: "middleware", Metric: "stage_worker_mean", Value: service / 4},
						{Source: "middleware", Metric: "stage_server_mean", Value: service / 2},
						{Source: "middleware", Metric: "stage_reply_mean", Value: service / 4},
					},
				}))
			}
			point++
		}
	}
	return dir
}

func TestModelPrintsPredictionsBesideMeasurementsAndDrawsThem(t *testing.T) {
	dir, figures := sweepRecord(t), filepath.Join(t.TempDir(), "figures")
	stdout, _, err := lab(context.Background(), "model", dir, "--figures", figures)
	require.NoError(t, err)
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
	stdout, _, err = lab(context.Background(), "model", dir, "--format", "markdown")
	require.NoError(t, err)
	assert.Contains(t, stdout, "| own |")
}

func TestPredictSaysWhatOtherSettingsBring(t *testing.T) {
	dir := sweepRecord(t)
	stdout, _, err := lab(context.Background(), "predict", dir, "--clients", "64", "--workers", "16", "--round-trip", "50us")
	require.NoError(t, err)
	assert.Contains(t, stdout, "Predicted from sweep: 64 clients, 16 workers, 1 servers, 1 replicas.")
	assert.Contains(t, stdout, "64 clients are outside the measured range, 2 to 32.")
	assert.Contains(t, stdout, "between clients and middlewares is 0.050 ms instead of the measured 0.100 ms")
	stdout, _, err = lab(context.Background(), "predict", dir, "--target-rate", "3000", "--target-p99", "20ms")
	require.NoError(t, err)
	assert.Contains(t, stdout, "settings meet 3000 ops/s with a p99 of 20ms; the cheapest first.")
	_, _, err = lab(context.Background(), "predict", dir, "--target-rate", "1e8", "--target-p99", "1ms")
	require.ErrorContains(t, err, "no setting reaches 100000000 ops/s")
	assert.Equal(t, exitFailed, exitCode(err, io.Discard))
}

func TestModelAndPredictRefuseWhatMakesNoSense(t *testing.T) {
	dir := sweepRecord(t)
	for want, args := range map[string][]string{
		"takes the directory of one record, got []":     {"model"},
		`--format: format "pdf"`:                        {"model", dir, "--format", "pdf"},
		"--target-rate 5 --target-p99 0s":               {"predict", dir, "--target-rate", "5"},
		"--target-rate 0 --target-p99 0s":               {"predict", dir, "--target-rate", "0"},
		"--clients 4 with a target":                     {"predict", dir, "--target-rate", "5", "--target-p99", "1s", "--clients", "4"},
		"--most 0: expected at least 1":                 {"predict", dir, "--most", "0"},
		"--workers 0: expected a whole number above 0":  {"predict", dir, "--workers", "0"},
		"--servers -2: expected a whole number above 0": {"predict", dir, "--servers", "-2"},
		"--round-trip -1ms: expected 0 or more":         {"predict", dir, "--round-trip", "-1ms"},
		"--clients 0: expected a whole number above 0":  {"predict", dir, "--clients", "0"},
		"--replicas 0: expected a whole number above 0": {"predict", dir, "--replicas", "0"},
		"--workers -3: expected a whole number above 0": {"predict", dir, "--workers", "-3"},
		`--format: format "x"`:                          {"predict", dir, "--format", "x"},
		`invalid argument "soon" for "--round-`:         {"predict", dir, "--round-trip", "soon"},
	} {
		_, _, err := lab(context.Background(), args...)
		require.ErrorContains(t, err, want)
		assert.ErrorAs(t, err, &usageError{}, want)
	}
	for _, command := range []string{"model", "predict"} {
		_, _, err := lab(context.Background(), command, t.TempDir())
		require.ErrorIs(t, err, record.ErrNoRecord)
	}
}
