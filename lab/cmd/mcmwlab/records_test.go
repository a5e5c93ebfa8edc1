package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/record"
)

// newTestRecord makes a record of two points, with 8 and 64 workers, and these throughputs of their repetitions.
func newTestRecord(t *testing.T, throughputs ...[]float64) string {
	t.Helper()
	var runs []record.Run
	for point, values := range throughputs {
		for repetition, x := range values {
			runs = append(runs, record.Run{
				Point: point, Repetition: repetition, Seconds: 60,
				Factors: map[string]string{"workers": []string{"8", "64"}[point], "clients": "96"},
				Results: results("client", map[string]float64{
					"throughput": x, "response_time_mean": 96 / x,
					"errors": 0,
				}),
			})
		}
	}
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return makeRecord(t, record.Manifest{
		Name: "workers", Title: "what workers bring", Created: created,
		Testbed: "local",
	}, runs...)
}

func TestShowHasRunsPointsAndWarnings(t *testing.T) {
	dir := newTestRecord(t, []float64{5000, 5010, 4990}, []float64{9000, 12_000})
	stdout := output(t, "show", dir)
	assert.Contains(t, stdout,
		"workers: what workers bring\n2026-01-02 03:04 UTC on testbed local\nclients=96\n5 runs, 0 failed\n")
	assert.Contains(t, stdout,
		"No warnings of the checks that could be made.\nNot checked for lack of measurements: not_stationary, "+
			"window_variation, generator_saturated, foreign_load, misses.\n")

	stdout = output(t, "show", "--check", dir)
	assert.Contains(t, stdout, "5,000 ±0.5 %")
	assert.Contains(t, stdout,
		"set: repetition_variation: workers=64: the coefficient of variation of the throughput (client) over 2 "+
			"repetitions is 20.2 %")
	assert.NotContains(t, stdout, "p99", "there is no column without measurements")
	again := output(t, "show", dir)
	assert.Equal(t, stdout, again, "the warnings are in the record")
}

func TestShowNamesRunsThatFailed(t *testing.T) {
	dir := newTestRecord(t)
	r, err := record.Open(dir)
	require.NoError(t, err)
	require.NoError(t, r.Add(record.Run{State: record.Failed, Error: "server a ended: signal: killed"}))
	require.NoError(t, r.Close())
	stdout := output(t, "show", dir)
	assert.Contains(t, stdout, "1 run, 1 failed")
	assert.Contains(t, stdout, "run 1: run_failed: server a ended: signal: killed")
}

func TestShowPrintsTheFirstWarningsOfACodeAndTheRunsOfTheOthers(t *testing.T) {
	dir := newTestRecord(t)
	r, err := record.Open(dir)
	require.NoError(t, err)
	for repetition := range 5 {
		require.NoError(t, r.Add(record.Run{
			Repetition: repetition, State: record.Failed,
			Error: fmt.Sprint("cause ", repetition),
		}))
	}
	require.NoError(t, r.Close())
	stdout := output(t, "show", dir)
	assert.Contains(t, stdout,
		"  run 3: run_failed: cause 2\n  run_failed: 2 more, in the runs 4, 5; --all-warnings shows them\n")
	assert.NotContains(t, stdout, "cause 3")
	stdout = output(t, "show", "--all-warnings", dir)
	assert.Contains(t, stdout, "  run 5: run_failed: cause 4\n")
	assert.NotContains(t, stdout, "more, in the runs")
}

func TestExportWritesTheTablesAndNamesThem(t *testing.T) {
	dir := newTestRecord(t, []float64{1})
	stdout := output(t, "show", dir, "--export", "csv")
	files := strings.Fields(stdout)
	require.Len(t, files, len(record.Tables))
	for _, file := range files {
		require.FileExists(t, file)
	}
	_, _, err := lab(context.Background(), "show", dir, "--export", "csv")
	require.ErrorIs(t, err, record.ErrExists)
	_, _, err = lab(context.Background(), "show", dir, "--export", "parquet")
	require.ErrorContains(t, err, `--export "parquet": expected one of csv, json, jsonl, text`)
}

func TestTheExitCodeOfCompareDependsOnTheConditions(t *testing.T) {
	before := newTestRecord(t, []float64{5000, 5010, 4990}, []float64{9000, 9050, 9020})
	slower := newTestRecord(t, []float64{4500, 4490, 4530}, []float64{9000, 9010, 9040})
	single := newTestRecord(t, []float64{3000}, []float64{9000})
	for name, c := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"no condition": {[]string{before, slower}, 0, ""},
		"met": {
			[]string{before, slower, "--fail-if", "change(throughput) < -5%"},
			exitMet,
			"met: change(throughput) < -5%: workers=8: change -9.9 %",
		},
		"not met": {[]string{
			before, slower, "--fail-if", "change(throughput) < -15%", "--fail-if",
			"errors > 0",
		}, 0, ""},
		"one of two met": {
			[]string{before, slower, "--fail-if", "errors > 0", "--fail-if", "ratio(mean) > 1.05"},
			exitMet, "met: ratio(mean) > 1.05: workers=8",
		},
		"too few repetitions": {
			[]string{before, single, "--fail-if", "change(throughput) < -5%"},
			exitOpen,
			"undecided: change(throughput) < -5%: workers=8: change -40.0 % [too few]",
		},
		"metric is missing": {
			[]string{before, slower, "--fail-if", "misses > 0"},
			exitOpen,
			"neither record has misses of client",
		},
		"no such condition": {
			[]string{before, slower, "--fail-if", "slower"},
			exitUsage,
			"expected a metric such as throughput or p99",
		},
		"as it was written": {
			[]string{before, slower, "--fail-if", "throughput < -5%"},
			exitUsage,
			"(a change is written change(METRIC))",
		},
		"no such confidence": {
			[]string{before, slower, "--confidence", "95"},
			exitUsage,
			"--confidence 95: expected more than 0 and less than 1",
		},
		"no such source": {
			[]string{before, slower, "--metrics", "clients.throughput"},
			exitUsage,
			`--metrics "clients.throughput": the records have the sources client`,
		},
		"no such metric": {
			[]string{before, slower, "--metrics", "troughput"},
			exitUsage,
			`--metrics "troughput": the records have errors, response_time_mean, throughput`,
		},
		"one record":        {[]string{before}, exitUsage, "takes the directories of at least two records"},
		"no record":         {[]string{before, t.TempDir()}, exitFailed, "not a record of mcmwlab"},
		"nothing in common": {[]string{before, newTestRecord(t)}, exitFailed, "have no point in common"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := lab(context.Background(), append([]string{"compare"}, c.args...)...)
			var stderr bytes.Buffer
			require.Equal(t, c.code, exitCode(err, &stderr), "%v", err)
			require.Contains(t, stderr.String(), c.stderr)
		})
	}
}

func TestCompareWritesTablesOrJSON(t *testing.T) {
	before, after := newTestRecord(t, []float64{5000, 5010}), newTestRecord(t, []float64{5100, 5110})
	stdout := output(t, "compare", before, after)
	require.Contains(t, stdout, fmt.Sprintf("A: %s\nB: %s\n", before, after))
	require.Contains(t, stdout, "+2.0 %")
	stdout = output(t, "compare", "--format", "json", before, after)
	var c struct {
		Points []struct{ Metrics []struct{ Change float64 } }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.InDelta(t, 0.02, c.Points[0].Metrics[0].Change, 1e-4)
	stdout = output(t, "compare", "--format", "json", "--metrics", "throughput,throughput", before, after)
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Len(t, c.Points[0].Metrics, 1)
}

func TestTheJSONOfALoadIsShownComparedAndReported(t *testing.T) {
	server := mctest.StartMemcached(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	path := func(name string) string { return filepath.Join(dir, name+".json") }
	for i, name := range []string{"a", "b"} {
		_, _, err := lab(t.Context(), "load", "--target", server.Addr(), "-c", strconv.Itoa(2*(i+1)), "-n", "200",
			"--ratio", "1:9", "--populate", "-q", "--json-out-file", path(name),
			"--rate", []string{"100000", ""}[i], "--protocol", []string{"memcache_text", "memcache_meta"}[i])
		require.NoError(t, err)
	}
	stdout := output(t, "show", path("a"))
	assert.Contains(t, stdout, "a.json\nimported from mcmwlab\n")
	assert.Contains(t, stdout, "clients=2, key_pattern=")
	assert.Contains(t, stdout, "1 run, 0 failed")
	stdout = output(t, "compare", path("a"), path("b"))
	assert.Contains(t, stdout, "clients: 2 -> 4")
	assert.Contains(t, stdout, "rate: 100000 -> 0")
	assert.Contains(t, stdout, "protocol: memcache_text -> memcache_meta")
	assert.Regexp(t, `all runs +\S+/s \(1\) +\S+/s \(1\) +\S+ % \[too few\]`, stdout)
	stdout = output(t, "report", path("a"), "--format", "markdown")
	assert.FileExists(t, filepath.Join(dir, "a-report", "report.md"), stdout)
	_, _, err := lab(t.Context(), "show", path("a"), "--export", "csv")
	require.ErrorContains(t, err, "expected --out")
	stdout = output(t, "show", path("a"), "--export", "csv", "--out", filepath.Join(dir, "tables"))
	assert.Contains(t, stdout, filepath.Join(dir, "tables", "runs.csv"))
	_, _, err = lab(t.Context(), "factorial", path("a"), "--factors", "clients")
	require.ErrorContains(t, err, "factor clients has the level 2 in all runs")
	for command, want := range map[string]string{
		"model":    ": no point can be modelled: expected complete runs of a closed loop",
		"capacity": `: factor "clients" doesn't vary, nor does any other`,
	} {
		_, _, err = lab(t.Context(), command, path("a"))
		require.ErrorContains(t, err, path("a")+want)
		require.NotContains(t, err.Error(), "mcmwlab-record-", "users don't know the temporary record")
	}
	_ = output(t, "import", "--out", filepath.Join(dir, "record"), path("a"), path("b"))
	_, _, err = lab(t.Context(), "show", experimentFile(t))
	require.ErrorContains(t, err, "as mcmwlab: ")
	left, err := filepath.Glob(filepath.Join(dir, "mcmwlab-record-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestMoreThanTwoRecordsAreComparedWithTheFirst(t *testing.T) {
	a := newTestRecord(t, []float64{5000, 5010, 4990}, []float64{9000, 9010, 8990})
	same := newTestRecord(t, []float64{5001, 5011, 4992}, []float64{9001, 9011, 8991})
	half := newTestRecord(t, []float64{2500, 2505, 2495}, []float64{4500, 4505, 4495})
	stdout, _, err := lab(t.Context(), "compare", a, same, half, "--fail-if", "change(throughput) < -5%")
	assert.Equal(t, exitMet, exitCode(err, new(bytes.Buffer)))
	assert.ErrorContains(t, err, half+": workers=8: change -50.0 %")
	assert.NotContains(t, err.Error(), same)
	assert.Contains(t, stdout, "B: "+same+"\n")
	assert.Regexp(t, `geometric mean of 2 points: -50.0 % \[-50\.\d, -49\.\d\]\n`, stdout)
	stdout = output(t, "compare", a, same, half, "--format", "json")
	var all []struct {
		Means []struct{ Change float64 } `json:"geometric_means"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &all))
	require.Len(t, all, 2)
	assert.InDelta(t, -0.5, all[1].Means[0].Change, 1e-3)
}
