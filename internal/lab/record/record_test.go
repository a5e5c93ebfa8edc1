package record

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newRecord returns a record in a directory of the test.
func newRecord(t *testing.T) *Record {
	t.Helper()
	r, err := Create(filepath.Join(t.TempDir(), "exp"), Manifest{Name: "test"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// wholeRun is a run with something of everything.
func wholeRun() Run {
	return Run{
		ID: 7, Point: 2, Repetition: 1, Position: 5, Started: time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC), Seconds: 60, State: Complete,
		Factors: map[string]string{"workers": "64", "ratio": "1:9"},
		Results: []Value{{SourceClient, "throughput", 12345.678901234567}, {SourceClient, "throughput_get", 1}, {"server:a", "service_time_mean", 1e-4}},
		Windows: []Window{
			{SourceClient, 0, 1, "throughput", 0.1},
			{SourceClient, 1, 1, "throughput", 0.2},
		},
		Histograms: []Bin{
			{SourceClient, "response_time", "get", 0, 0.0001, math.MaxInt64},
			{SourceClient, "response_time", "get", 0.0001, math.Inf(1), 3},
		},
		HostSamples: []Window{{SourceHost, 0, 1, "cpu_user", 0.25}, {"memcached", 0, 1, "process_cpu", 0.5}},
		Warnings:    []Warning{{"first", "one"}, {"second", "two"}},
	}
}

func TestARunComesBackAsItWasAdded(t *testing.T) {
	r := newRecord(t)
	want := wholeRun()
	require.NoError(t, r.Add(want))
	require.NoError(t, r.SetWarnings(0, []Warning{{"set", "all"}}))

	reopened, err := Open(r.Dir())
	require.NoError(t, err)
	defer reopened.Close()
	runs, err := reopened.Runs(context.Background())
	require.NoError(t, err)
	require.Len(t, runs, 1)
	got := runs[0]
	got.Windows, err = reopened.Windows(7)
	require.NoError(t, err)
	got.Histograms, err = reopened.Histograms(7)
	require.NoError(t, err)
	got.HostSamples, err = reopened.HostSamples(7)
	require.NoError(t, err)
	require.Equal(t, want, got)
	warnings, err := reopened.Warnings(context.Background())
	require.NoError(t, err)
	require.Equal(t, []Warning{{"set", "all"}}, warnings)
	metrics, err := reopened.Metrics(context.Background())
	require.NoError(t, err)
	require.Equal(t, OperationsPerSecond, metrics["throughput_get"].Unit)
	require.Len(t, metrics, 6, "the metrics that are used")
}

func TestRunsComeInTheOrderOfPointsAndRepetitions(t *testing.T) {
	r := newRecord(t)
	for _, at := range [][2]int{{1, 0}, {0, 1}, {0, 0}, {1, 1}} {
		require.NoError(t, r.Add(Run{Point: at[0], Repetition: at[1], State: Complete}))
	}
	runs, err := r.Runs(context.Background())
	require.NoError(t, err)
	var order [][2]int
	var ids []int64
	for _, run := range runs {
		order = append(order, [2]int{run.Point, run.Repetition})
		ids = append(ids, run.ID)
	}
	require.Equal(t, [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, order)
	require.Equal(t, []int64{3, 2, 1, 4}, ids, "numbers are given in the order of adding")
}

func TestNothingIsEverReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "exp")
	r, err := Create(dir, Manifest{Name: "first"})
	require.NoError(t, err)
	defer r.Close()
	_, err = Create(dir, Manifest{Name: "second"})
	require.ErrorIs(t, err, ErrExists)
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "thesis.tex"), []byte("x"), 0o644))
	_, err = Create(other, Manifest{})
	require.ErrorIs(t, err, ErrExists)

	require.NoError(t, r.Add(Run{ID: 1, State: Failed, Error: "a server died"}))
	require.ErrorIs(t, r.Add(Run{ID: 1, Point: 3, State: Complete}), ErrExists)
	require.NoError(t, r.Add(Run{State: Complete}), "a failed run may be made again")
	require.ErrorIs(t, r.Add(Run{State: Complete}), ErrExists, "a complete one may not")
	again, err := Open(dir)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, "first", again.Manifest().Name)
	runs, err := again.Runs(context.Background())
	require.NoError(t, err)
	require.Len(t, runs, 2)
}

func TestARefusedRunLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Run)
		want   string
	}{
		"unknown metric":      {func(r *Run) { r.Results = append(r.Results, Value{SourceClient, "troughput", 1}) }, `metric "troughput" is not known`},
		"unknown state":       {func(r *Run) { r.State = "done" }, `state "done": expected "complete" or "failed"`},
		"result given twice":  {func(r *Run) { r.Results = append(r.Results, r.Results[0]) }, "UNIQUE constraint failed: results"},
		"bin the wrong way":   {func(r *Run) { r.Histograms[0].Upper = -1 }, "expected lower <= upper"},
		"bin without an edge": {func(r *Run) { r.Histograms[0].Lower = math.NaN() }, "expected lower <= upper"},
		"more than counts":    {func(r *Run) { r.Histograms[0].Count = math.MaxUint64 }, "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecord(t)
			run := wholeRun()
			c.change(&run)
			require.ErrorContains(t, r.Add(run), c.want)
			runs, err := r.Runs(context.Background())
			require.NoError(t, err)
			require.Empty(t, runs)
			require.NoError(t, r.Add(wholeRun()), "the record can still be used")
		})
	}
}

func TestWhatIsNotKnownIsLeftOut(t *testing.T) {
	r := newRecord(t)
	require.NoError(t, r.Add(Run{State: Complete, Results: []Value{
		{SourceClient, "response_time_mean", math.NaN()},
		{SourceClient, "response_time_max", math.Inf(1)},
		{SourceClient, "throughput", 0},
	}}))
	runs, err := r.Runs(context.Background())
	require.NoError(t, err)
	require.Equal(t, []Value{{SourceClient, "throughput", 0}}, runs[0].Results)
	_, known := runs[0].Value(SourceClient, "response_time_mean")
	require.False(t, known)
}

func TestOtherMetricsCanBeDefined(t *testing.T) {
	r := newRecord(t)
	require.NoError(t, r.Define(Metric{"disk_queue", Operations, "requests that wait for the disk"}))
	require.NoError(t, r.Add(Run{State: Complete, Results: []Value{{SourceHost, "disk_queue", 3}}}))
}

func TestAFullDiskIsSaidSoAndTheRunsBeforeStay(t *testing.T) {
	r := newRecord(t)
	require.NoError(t, r.Add(Run{State: Complete}))
	r.db.SetMaxOpenConns(1) // so that the limit holds for what follows
	_, err := r.db.Exec("PRAGMA max_page_count = 30")
	require.NoError(t, err)
	run := Run{Point: 1, State: Complete}
	for second := range 10_000 {
		run.Windows = append(run.Windows, Window{SourceClient, float64(second), 1, "throughput", 1})
	}
	err = r.Add(run)
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, r.Dir())
	runs, err := r.Runs(context.Background())
	require.NoError(t, err)
	require.Len(t, runs, 1)
}

func TestADirectoryThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := Create(filepath.Join(file, "exp"), Manifest{})
	require.ErrorContains(t, err, file)
}

func TestWhatIsNoRecordIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"no directory": {func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) }, "there is no manifest.json in it"},
		"no manifest":  {func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, manifestName))) }, "there is no manifest.json in it"},
		"half a manifest": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName), []byte(`{"name": "ex`), 0o644))
		}, "manifest.json: this is no record of mcmwlab: unexpected EOF"},
		"no database":       {func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, databaseName))) }, "there is no record.db in it"},
		"an empty database": {func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, databaseName), 0)) }, "record.db is another program's"},
		"another file": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName), []byte(strings.Repeat("no database ", 1000)), 0o644))
		}, "this is no record of mcmwlab: file is not a database"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "exp")
			r, err := Create(dir, Manifest{})
			require.NoError(t, err)
			require.NoError(t, r.Close())
			c.change(t, dir)
			_, err = Open(dir)
			require.ErrorIs(t, err, ErrNoRecord)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestANewerRecordIsRefused(t *testing.T) {
	r := newRecord(t)
	_, err := r.db.Exec("PRAGMA user_version = 2")
	require.NoError(t, err)
	_, err = Open(r.Dir())
	require.ErrorContains(t, err, "version 2 of the tables, this program reads version 1")
}

func TestCreateLeavesNothingButTheRecord(t *testing.T) {
	parent := t.TempDir()
	r, err := Create(filepath.Join(parent, "a", "b #1?.db%20"), Manifest{})
	require.NoError(t, err, "whatever the name")
	require.NoError(t, r.Close())
	entries, err := os.ReadDir(filepath.Join(parent, "a"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	files, err := os.ReadDir(r.Dir())
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	require.Equal(t, []string{manifestName, rawName, databaseName}, names)
}

func TestReadersSeeWholeRunsWhileOneWrites(t *testing.T) {
	r := newRecord(t)
	reader, err := Open(r.Dir())
	require.NoError(t, err)
	defer reader.Close()
	const n = 20
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := range n {
			run := wholeRun()
			run.ID, run.Point = int64(i+1), i
			if err := r.Add(run); err != nil {
				failed <- err
				return
			}
		}
	}()
	want := wholeRun()
	for seen := 0; seen < n; {
		runs, err := reader.Runs(context.Background())
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(runs), seen)
		seen = len(runs)
		for _, run := range runs {
			require.Equal(t, want.Factors, run.Factors)
			require.Len(t, run.Results, len(want.Results))
			require.Len(t, run.Warnings, len(want.Warnings))
		}
		select {
		case err, ok := <-failed:
			require.False(t, ok, "%v", err)
			failed = nil
		default:
		}
	}
}

func TestRawDirIsARunsOwn(t *testing.T) {
	r := newRecord(t)
	id, err := r.NextID(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
	dir, err := r.RawDir(id)
	require.NoError(t, err)
	require.DirExists(t, dir)
	require.Equal(t, filepath.Join(r.Dir(), "raw", "1"), dir)
}
