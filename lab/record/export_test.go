package record

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

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
		require.NoError(t, r.Export(context.Background(), dir, format))
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
	require.NoError(t, r.Export(context.Background(), dir, JSON))
	var array []any
	require.NoError(t, json.NewDecoder(open(t, dir, "runs", JSON)).Decode(&array))
	require.Empty(t, array)
	require.NoError(t, r.Export(context.Background(), dir, JSONL))
	require.Zero(t, open(t, dir, "runs", JSONL).Len())
}

func TestAnExportReplacesNothing(t *testing.T) {
	r := newRecord(t)
	dir := t.TempDir()
	require.ErrorContains(t, r.Export(context.Background(), dir, "parquet"),
		`format "parquet": expected one of [csv json jsonl]`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "results.csv"), []byte("mine"), 0o644))
	err := r.Export(context.Background(), dir, CSV)
	require.ErrorIs(t, err, ErrExists)
	require.ErrorContains(t, err, "results.csv")
	text, err := os.ReadFile(filepath.Join(dir, "results.csv"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}
