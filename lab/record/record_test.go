package record

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
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

// runsOf returns the runs of a record.
func runsOf(t *testing.T, r *Record) []Run {
	t.Helper()
	runs, err := r.Runs(context.Background())
	require.NoError(t, err)
	return runs
}

// wholeRun is a run with data of every kind.
func wholeRun() Run {
	return Run{
		ID: 7, Point: 2, Repetition: 1, Position: 5, Started: time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC),
		Seconds: 60, State: Complete,
		Factors: map[string]string{"workers": "64", "ratio": "1:9"},
		Results: []Value{
			{SourceClient, "throughput", 12345.678901234567},
			{SourceClient, "throughput_get", 1},
			{"server:a", "service_time_mean", 1e-4},
		},
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
	runs := runsOf(t, reopened)
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
	var metrics int
	require.NoError(t, reopened.db.QueryRow("SELECT count(*) FROM metrics").Scan(&metrics))
	require.Equal(t, 6, metrics, "only the metrics of the run")
}

func TestRunsComeInTheOrderOfPointsAndRepetitions(t *testing.T) {
	r := newRecord(t)
	for _, at := range [][2]int{{1, 0}, {0, 1}, {0, 0}, {1, 1}} {
		require.NoError(t, r.Add(Run{Point: at[0], Repetition: at[1], State: Complete}))
	}
	runs := runsOf(t, r)
	var order [][2]int
	var ids []int64
	for _, run := range runs {
		order = append(order, [2]int{run.Point, run.Repetition})
		ids = append(ids, run.ID)
	}
	require.Equal(t, [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, order)
	require.Equal(t, []int64{3, 2, 1, 4}, ids, "IDs follow the order of adding")
}

func TestConnectionsOfEarlierRecordsAreClients(t *testing.T) {
	for _, test := range []struct{ stored, want map[string]string }{
		{
			map[string]string{"clients": "96", "connections": "96", "load_threads": "2"},
			map[string]string{"clients": "96", "load_threads": "2"},
		},
		{map[string]string{"connections": "96"}, map[string]string{"clients": "96"}},
		{ // an imported load: clients are threads
			map[string]string{"clients": "2", "connections": "96"},
			map[string]string{"clients": "96", "load_threads": "2"},
		},
	} {
		r := newRecord(t)
		run := wholeRun()
		run.Factors = test.stored
		require.NoError(t, r.Add(run))
		require.Equal(t, test.want, runsOf(t, r)[0].Factors)
	}
}

func TestAnEmptyDirectoryBecomesARecord(t *testing.T) {
	dir := t.TempDir()
	r, err := Create(dir, Manifest{Name: "here"})
	require.NoError(t, err)
	require.NoError(t, r.Close())
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
	require.NoError(t, r.Add(Run{State: Complete}), "a failed run can be repeated")
	require.ErrorIs(t, r.Add(Run{State: Complete}), ErrExists, "a complete one can't")
	again, err := Open(dir)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, "first", again.Manifest().Name)
	runs := runsOf(t, again)
	require.Len(t, runs, 2)
}

func TestARefusedRunLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Run)
		want   string
	}{
		"unknown metric": {
			func(r *Run) { r.Results = append(r.Results, Value{SourceClient, "troughput", 1}) },
			`unknown metric "troughput"`,
		},
		"unknown state": {
			func(r *Run) { r.State = "done" },
			`has the state "done": expected "complete" or "failed"`,
		},
		"result given twice": {
			func(r *Run) { r.Results = append(r.Results, r.Results[0]) },
			"UNIQUE constraint failed: results",
		},
		"bin the wrong way":   {func(r *Run) { r.Histograms[0].Upper = -1 }, "expected lower <= upper"},
		"bin without an edge": {func(r *Run) { r.Histograms[0].Lower = math.NaN() }, "expected lower <= upper"},
		"more than counts":    {func(r *Run) { r.Histograms[0].Count = math.MaxUint64 }, "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecord(t)
			run := wholeRun()
			c.change(&run)
			require.ErrorContains(t, r.Add(run), c.want)
			runs := runsOf(t, r)
			require.Empty(t, runs)
			require.NoError(t, r.Add(wholeRun()), "the record can still be used")
		})
	}
}

func TestValuesThatAreNotFiniteAreLeftOut(t *testing.T) {
	r := newRecord(t)
	require.NoError(t, r.Add(Run{State: Complete, Results: []Value{
		{SourceClient, "response_time_mean", math.NaN()},
		{SourceClient, "response_time_max", math.Inf(1)},
		{SourceClient, "throughput", 0},
	}}))
	runs := runsOf(t, r)
	require.Equal(t, []Value{{SourceClient, "throughput", 0}}, runs[0].Results)
	_, known := runs[0].Value(SourceClient, "response_time_mean")
	require.False(t, known)
}

func TestAFullDiskIsReportedAndEarlierRunsStay(t *testing.T) {
	r := newRecord(t)
	require.NoError(t, r.Add(Run{State: Complete}))
	r.db.SetMaxOpenConns(1) // the limit is one of the connection
	_, err := r.db.Exec("PRAGMA max_page_count = 30")
	require.NoError(t, err)
	run := Run{Point: 1, State: Complete}
	for second := range 10_000 {
		run.Windows = append(run.Windows, Window{SourceClient, float64(second), 1, "throughput", 1})
	}
	err = r.Add(run)
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, r.Dir())
	runs := runsOf(t, r)
	require.Len(t, runs, 1)
}

func TestADirectoryThatCannotBeCreatedIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := Create(filepath.Join(file, "exp"), Manifest{})
	require.ErrorContains(t, err, file)
}

func TestOpeningSomethingElseThanARecordIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"no directory": {
			func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
			"no such file or directory",
		},
		"no manifest": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, manifestName)))
		}, "it has no manifest.json"},
		"half a manifest": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName), []byte(`{"name": "ex`), 0o644))
		}, "manifest.json: not a record of mcmwlab: unexpected end of JSON input"},
		"no database": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, databaseName)))
		}, "it has no record.db"},
		"an empty database": {func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, databaseName), 0))
		}, "record.db: not a record of mcmwlab: it is of another program"},
		"another file": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName),
				[]byte(strings.Repeat("no database ", 1000)), 0o644))
		}, "not a record of mcmwlab: file is not a database"},
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

func TestRowsOfAMissingRunAreAnError(t *testing.T) {
	for _, table := range []string{
		"factors VALUES (5, 'workers', '8')",
		"results VALUES (5, 'client', 'throughput', 1)", "warnings VALUES (5, 'misses', '')",
	} {
		r := newRecord(t)
		require.NoError(t, r.Add(wholeRun()))
		other, err := sql.Open("sqlite", filepath.Join(r.Dir(), databaseName)) // without checks of foreign keys
		require.NoError(t, err)
		_, err = other.Exec("INSERT INTO " + table)
		require.NoError(t, err)
		require.NoError(t, other.Close())
		_, err = r.Runs(context.Background())
		require.ErrorContains(t, err, "of run 5, which is not in runs")
	}
}

func TestAValueOfAnotherTypeIsAnError(t *testing.T) {
	r := newRecord(t)
	require.NoError(t, r.Add(wholeRun()))
	_, err := r.db.Exec("UPDATE results SET value = 'fast'")
	require.NoError(t, err)
	_, err = r.Runs(context.Background())
	require.ErrorContains(t, err, "fast")
	_, err = r.db.Exec("UPDATE histograms SET count = -1")
	require.NoError(t, err)
	_, err = r.Histograms(7)
	require.Error(t, err)
}

func TestSystemErrorsBecomeErrorsOfThePackage(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{syscall.ENOSPC, ErrFull},
		{syscall.EDQUOT, ErrFull},
		{syscall.EROFS, ErrReadOnly},
		{syscall.EACCES, ErrReadOnly},
		{syscall.ENOTEMPTY, ErrExists},
	} {
		err := explain("results/a", &os.PathError{Op: "write", Path: "results/a/x", Err: c.err})
		require.ErrorIs(t, err, c.want)
		require.EqualError(t, err, fmt.Sprintf("results/a/x: %v: %v", c.want, c.err))
	}
	require.NoError(t, explain("results/a", nil))
}

// unprivileged runs f without the permissions of root, which can write anywhere: on a thread with another file system
// user, which ends with f.
func unprivileged(f func()) {
	var ended sync.WaitGroup
	ended.Go(func() {
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // never unlocked
			if err := syscall.Setfsuid(65534); err != nil {
				panic(err)
			}
		}
		f()
	})
	ended.Wait()
}

func TestAReadOnlyRecordIsReportedAndCanBeRead(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(parent), 0o755)) // TempDir makes it private
	dir := filepath.Join(parent, "exp")
	r, err := Create(dir, Manifest{})
	require.NoError(t, err)
	require.NoError(t, r.Add(wholeRun()))
	require.NoError(t, r.Close())
	for path, mode := range map[string]os.FileMode{
		parent: 0o555, dir: 0o555, filepath.Join(dir, databaseName): 0o444,
		filepath.Join(dir, rawName): 0o555,
	} {
		require.NoError(t, os.Chmod(path, mode))
		defer func() { require.NoError(t, os.Chmod(path, 0o755)) }()
	}
	var created, opened, added, raw error
	var runs []Run
	unprivileged(func() {
		_, created = Create(filepath.Join(parent, "new"), Manifest{})
		if r, opened = Open(dir); opened != nil {
			return
		}
		defer r.Close()
		runs, _ = r.Runs(context.Background())
		added = r.Add(Run{State: Complete})
		_, raw = r.RawDir(1)
	})
	require.NoError(t, opened)
	require.ErrorIs(t, created, ErrReadOnly)
	require.ErrorIs(t, added, ErrReadOnly)
	require.ErrorIs(t, raw, ErrReadOnly)
	require.ErrorContains(t, added, dir)
	require.Len(t, runs, 1)
}

// TestAKilledProcessLeavesWholeRuns kills a process at an arbitrary moment while it adds runs.
func TestAKilledProcessLeavesWholeRuns(t *testing.T) {
	run := wholeRun()
	run.ID = 0
	for second := range 500 {
		run.Windows = append(run.Windows, Window{SourceMiddleware, float64(second), 1, "throughput", 1})
	}
	if dir := os.Getenv("RECORD_TEST_ADD"); dir != "" {
		r, err := Open(dir)
		require.NoError(t, err)
		for {
			run.Point++
			require.NoError(t, r.Add(run))
			fmt.Println("added", run.Point)
		}
	}
	r := newRecord(t)
	child := exec.Command(os.Args[0], "-test.run=^TestAKilledProcessLeavesWholeRuns$")
	child.Env = append(os.Environ(), "RECORD_TEST_ADD="+r.Dir())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	added := 0
	for lines := bufio.NewScanner(out); added < 5 && lines.Scan(); {
		added++
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait() // killed
	require.Equal(t, 5, added)
	runs := runsOf(t, r)
	require.GreaterOrEqual(t, len(runs), added)
	for _, got := range runs {
		windows, err := r.Windows(got.ID)
		require.NoError(t, err)
		require.Len(t, windows, len(run.Windows))
		require.Len(t, got.Warnings, len(run.Warnings))
	}
	run.Point = 1000
	require.NoError(t, r.Add(run), "more runs can be added")
}

func FuzzReadManifest(f *testing.F) {
	f.Add([]byte(`{"name": "a", "created": "2026-01-02T03:04:05Z", "host": {"cores": 2}, "path": [{"source": "path", "metric": "bandwidth", "value": 1e9}]}`))
	f.Add([]byte(`{"created": 5}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName), text, 0o644))
		m, err := readManifest(dir)
		if err != nil {
			require.ErrorIs(t, err, ErrNoRecord)
			return
		}
		require.NoError(t, writeManifest(dir, m))
		again, err := readManifest(dir)
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func TestANewerRecordIsRefused(t *testing.T) {
	r := newRecord(t)
	_, err := r.db.Exec("PRAGMA user_version = 2")
	require.NoError(t, err)
	_, err = Open(r.Dir())
	require.ErrorContains(t, err, "version 2 of the tables, but this program reads version 1")
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
		runs := runsOf(t, reader)
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

func TestEveryRunHasItsOwnRawDir(t *testing.T) {
	r := newRecord(t)
	id, err := r.NextID(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
	dir, err := r.RawDir(id)
	require.NoError(t, err)
	require.DirExists(t, dir)
	require.Equal(t, filepath.Join(r.Dir(), "raw", "1"), dir)
}

func TestInDilatedTimeProcessorsDoTheSameWork(t *testing.T) {
	for metric, want := range map[string]float64{
		"response_time_mean": 0.25, "throughput": 4, "bytes_read": 1, "seconds_cpu": 1, "cpu_per_request": 1,
		"process_cpu": 4, "cpu_user": 1, "nothing": 1,
	} {
		require.InDelta(t, want, PerTime(metric, 4), 0, metric)
	}
}
