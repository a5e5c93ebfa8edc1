package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// linesOf returns the objects in a file of JSON lines.
func linesOf(t *testing.T, path string) (lines []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object), line)
		lines = append(lines, object)
	}
	return lines
}

func TestServeWritesTheStatisticsAndRequestLogsToTheirEnd(t *testing.T) {
	dir := t.TempDir()
	statsFile, requestLog := filepath.Join(dir, "stats.jsonl"), filepath.Join(dir, "requests.jsonl")
	server := mctest.StartMemcached(t)
	for range 2 { // a second run is appended
		s := start(t, "serve", "-p", "0", "-t", "1", "-m", server.Addr(), "--admin", "off", "--stats-file", statsFile,
			"--stats-window", "1h",
			"--sample", "1/2", "--request-log", requestLog, "--log-keys")
		client := mctest.MustDial(t, awaitEntry(t, s.stderr, "ready").Listen[0])
		for range 5 {
			client.MustDo(t, "get key\r\n")
		}
		s.stop()
		require.Equal(t, exitOK, s.exitCode(t))
	}

	for _, path := range []string{statsFile, requestLog} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o007, "%s: %v", path, info.Mode())
	}
	lines := linesOf(t, statsFile)
	require.Len(t, lines, 6)
	for i, kind := range []string{"start", "window", "summary", "start", "window", "summary"} {
		require.Equal(t, kind, lines[i]["type"])
	}
	require.EqualValues(t, 5, lines[5]["requests"])
	require.EqualValues(t, 5, lines[5]["arrivals"])
	require.EqualValues(t, 5, lines[5]["misses"])

	requests := linesOf(t, requestLog)
	require.Len(t, requests, 4)
	for _, r := range requests {
		require.Equal(t, "key", r["key"])
		require.Equal(t, server.Addr(), r["server"])
		moments := []float64{0}
		for _, name := range []string{"enqueued", "dequeued", "sent", "received", "replied"} {
			moments = append(moments, r[name].(float64))
		}
		require.IsNonDecreasing(t, moments)
	}
}

func TestSlowRequestsGoToTheLogIfNoFileIsGiven(t *testing.T) {
	s := start(t, "serve", "-p", "0", "-m", mctest.StartMemcached(t).Addr(), "--admin", "off", "--slow", "1us")
	client := mctest.MustDial(t, awaitEntry(t, s.stderr, "ready").Listen[0])
	client.MustDo(t, "get key\r\n")
	awaitEntry(t, s.stderr, "request")
	s.stop()
	require.Equal(t, exitOK, s.exitCode(t))
	require.NotContains(t, s.stderr.String(), `"key"`)
}

func TestALogFileThatCannotBeOpenedIsNamed(t *testing.T) {
	for _, args := range [][]string{
		{"--stats-file", "/nowhere/stats"},
		{"--request-log", "/nowhere/requests", "--sample", "1/10"},
	} {
		code, _, stderr := execute(t, append([]string{"serve", "-p", "0", "-m", "127.0.0.1:1", "--admin", "off"},
			args...)...)
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr, args[1])
	}
}
