package record

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnExportHasEveryTableInEveryFormat(t *testing.T) {
	r := newRecord(t)
	run := wholeRun()
	run.Warnings[0].Message = "comma, \"quote\"\nand line"
	require.NoError(t, r.Add(run))
	require.NoError(t, r.SetWarnings(0, []Warning{{"set", "all"}}))
	dir := filepath.Join(t.TempDir(), "new", "export")
	for _, format := range Formats {
		files, err := r.Export(context.Background(), dir, format)
		require.NoError(t, err)
		for _, file := range files {
			require.FileExists(t, file)
		}
	}
	counts := map[string]int{
		"runs": 1, "factors": 2, "metrics": 6, "results": 3, "windows": 2, "histograms": 2,
		"host_samples": 2, "warnings": 3,
	}
	require.Len(t, counts, len(Tables))
	for table, want := range counts {
		lines, err := csv.NewReader(open(t, dir, table, CSV)).ReadAll()
		require.NoError(t, err)
		require.Len(t, lines, 1+want, table)
		var array []map[string]any
		require.NoError(t, json.NewDecoder(open(t, dir, table, JSON)).Decode(&array))
		require.Len(t, array, want, table)
		decoder := json.NewDecoder(open(t, dir, table, JSONL))
		for i := range want {
			var object map[string]any
			require.NoError(t, decoder.Decode(&object))
			require.Equal(t, array[i], object)
			require.Len(t, object, len(lines[0]))
		}
		require.False(t, decoder.More())
	}

	lines, err := csv.NewReader(open(t, dir, "histograms", CSV)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"run", "source", "metric", "command", "lower", "upper", "count"},
		{"7", "client", "response_time", "get", "0", "0.0001", "9223372036854775807"},
		{"7", "client", "response_time", "get", "0.0001", "inf", "3"},
	}, lines)
	text, err := os.ReadFile(filepath.Join(dir, "warnings.jsonl"))
	require.NoError(t, err)
	require.Equal(t, `{"run": 7, "code": "first", "message": "comma, \"quote\"\nand line"}
{"run": 7, "code": "second", "message": "two"}
{"run": null, "code": "set", "message": "all"}
`, string(text))
}

func open(t *testing.T, dir, table, format string) *bytes.Reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, table+"."+format))
	require.NoError(t, err)
	return bytes.NewReader(text)
}

func TestAnEmptyRecordExportsEmptyTables(t *testing.T) {
	r := newRecord(t)
	dir := t.TempDir()
	_, err := r.Export(context.Background(), dir, JSON)
	require.NoError(t, err)
	var array []any
	require.NoError(t, json.NewDecoder(open(t, dir, "runs", JSON)).Decode(&array))
	require.Empty(t, array)
	_, err = r.Export(context.Background(), dir, JSONL)
	require.NoError(t, err)
	require.Zero(t, open(t, dir, "runs", JSONL).Len())
}

func TestAnExportReplacesNothing(t *testing.T) {
	r := newRecord(t)
	dir := t.TempDir()
	_, err := r.Export(context.Background(), dir, "parquet")
	require.ErrorContains(t, err, `format "parquet": expected one of [csv json jsonl text]`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "results.csv"), []byte("mine"), 0o644))
	_, err = r.Export(context.Background(), dir, CSV)
	require.ErrorIs(t, err, ErrExists)
	require.ErrorContains(t, err, "results.csv")
	text, err := os.ReadFile(filepath.Join(dir, "results.csv"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}

func TestARecordThatIsKeptAsTextIsReadLikeAnother(t *testing.T) {
	r := newRecord(t)
	want := wholeRun()
	want.Results = append(want.Results, Value{SourceClient + ":0", "throughput", 3})
	want.HostSamples = append(want.HostSamples, Window{SourceHost, 1, 3, "cpu_user", 0.75})
	failed := Run{
		ID: 8, Started: want.Started, State: Failed, Error: "no, \"really\"",
		Factors: map[string]string{"workers": "8"},
	}
	want.Windows = append(want.Windows, Window{SourceMiddleware, 0, 1, "throughput", 9})
	set := []Warning{{"set", "all, \"really\""}}
	require.NoError(t, r.Add(want))
	require.NoError(t, r.Add(failed))
	require.NoError(t, r.SetWarnings(0, set))
	dir := filepath.Join(t.TempDir(), "kept")
	files, err := r.Export(context.Background(), dir, Text)
	require.NoError(t, err)
	for i, name := range []string{"manifest.json", "record.csv", "record-windows.csv", "record-warnings.csv"} {
		require.Equal(t, filepath.Join(dir, name), files[i])
	}
	_, err = r.Export(context.Background(), dir, Text)
	require.ErrorIs(t, err, ErrExists)
	require.NoError(t, r.Add(Run{State: Failed, Factors: map[string]string{"seconds": "1"}}))
	_, err = r.Export(context.Background(), t.TempDir(), Text)
	require.ErrorContains(t, err, `the factor "seconds" can't be kept as text`)

	kept, err := Open(dir)
	require.NoError(t, err)
	require.Equal(t, []any{dir, r.Manifest()}, []any{kept.Dir(), kept.Manifest()})
	runs := runsOf(t, kept)
	require.Len(t, runs, 2)
	require.Equal(t, []any{failed.State, failed.Error, failed.Factors},
		[]any{runs[0].State, runs[0].Error, runs[0].Factors})
	got := runs[1]
	got.HostSamples, err = kept.HostSamples(7)
	require.NoError(t, err)
	got.Windows, err = kept.Windows(7)
	require.NoError(t, err)
	warnings, err := kept.Warnings(context.Background())
	require.NoError(t, err)
	require.Equal(t, set, warnings)
	want.Started, want.Histograms = want.Started.Truncate(time.Second), nil
	want.Windows = slices.DeleteFunc(want.Windows, func(w Window) bool { return w.Source != SourceClient })
	want.Results = []Value{
		{SourceClient, "throughput", 12345.7},
		{SourceClient, "throughput_get", 1},
		{"server:a", "service_time_mean", 1e-4},
	}
	want.HostSamples = []Window{{SourceHost, 0, 1, "cpu_user", 0.625}, {"memcached", 0, 1, "process_cpu", 0.5}}
	want.Warnings = []Warning{{"first", "the text has only the code"}, {"second", "the text has only the code"}}
	require.Equal(t, want, got)

	require.ErrorIs(t, kept.Add(Run{State: Complete, Point: 9}), ErrReadOnly, "it is only read")
	tables := t.TempDir()
	_, err = kept.Export(context.Background(), tables, CSV)
	require.NoError(t, err)
	lines, err := csv.NewReader(open(t, tables, "results", CSV)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"7", "client", "throughput", "12345.7"}, lines[1])
	require.NoError(t, kept.Close())
}

func TestARecordThatIsKeptAsTextSaysWhichLineIsWrong(t *testing.T) {
	const header = "id,point,repetition,position,started,seconds,state,error,warnings,workers,client.throughput\n"
	for text, want := range map[string]string{
		"1,0,0,0,2026-01-02T03:04:05Z,60,complete,,,8,many\n": `not a record of mcmwlab: line 2 of record.csv: ` +
			`client.throughput is "many"; expected a number`,
		"1,0,1.5,0,2026-01-02T03:04:05Z,60,complete,,,8,1\n": `repetition is "1.5"; expected a whole number`,
		"1,0,0,0,yesterday,60,complete,,,8,1\n":              `started is "yesterday"; expected a time such as`,
		"1,0,0,0,2026-01-02T03:04:05Z,60,over,,,8,1\n":       `state is "over"; expected complete or failed`,
		"1,0,0,0,2026-01-02T03:04:05Z,60,complete,,,8,NaN\n": `client.throughput is "NaN"; expected a number`,
		"1,0,0,0,2026-01-02T03:04:05Z,60,failed,,,8,1\n1,0,1,1,2026-01-02T03:04:05Z,60,failed,,,8,1\n": `line 3 of ` +
			`record.csv: run 1 of point 0, repetition 1 is there twice`,
		"1,0,0,0,2026-01-02T03:04:05Z,60,complete,,,8,1\n2,0,0,1,2026-01-02T03:04:05Z,60,complete,,,8,1\n": `run 2 of ` +
			`point 0, repetition 0 is there twice`,
		"1,0,0\n": "wrong number of fields",
	} {
		requireNoRecord(t, map[string]string{textName: header + text}, want)
	}
	const run = header + "1,0,0,0,2026-01-02T03:04:05Z,60,complete,,,8,1\n"
	for windows, want := range map[string]string{
		"1,0,one,5\n":        `line 2 of record-windows.csv: seconds is "one"; expected a number`,
		"1,0,1,5\n1,1,1,?\n": `line 3 of record-windows.csv: client.throughput is "?"; expected a number`,
		"1,0,1,5\n1,0,1,6\n": "line 3 of record-windows.csv: run 1 has two windows that start at 0",
		"2,0,1,5\n":          "line 2 of record-windows.csv: run is 2; expected one of those in record.csv",
	} {
		requireNoRecord(t, map[string]string{
			textName: run, textWindowsName: "run,start,seconds,client.throughput\n" + windows,
		}, want)
	}
	requireNoRecord(t, map[string]string{textName: run, textWindowsName: "run,start,seconds,client.speed\n1,0,1,5\n"},
		`unknown metric "speed"; expected those of docs/record.md`)
	requireNoRecord(t, map[string]string{textName: run, textWindowsName: "run,start,run\n"}, "it has two columns run")
	requireNoRecord(t, map[string]string{textName: ""}, "record.csv: not a record of mcmwlab: it is empty")
	requireNoRecord(t, map[string]string{textName: run, textWarningsName: "code\nset\n"},
		"line 2 of record-warnings.csv: expected the columns code, message")
}

// requireNoRecord asks that a directory with a manifest and files can't be opened.
func requireNoRecord(t *testing.T, files map[string]string, why string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, writeManifest(dir, Manifest{Name: "kept"}))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	_, err := Open(dir)
	require.ErrorIs(t, err, ErrNoRecord)
	require.ErrorContains(t, err, why)
}
