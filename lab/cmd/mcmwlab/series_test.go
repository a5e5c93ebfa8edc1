package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
	"mcmw/lab/table"
)

// shortExperiment writes an experiment of two short runs under a name, and returns its path.
func shortExperiment(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".yaml")
	require.NoError(t, os.WriteFile(path,
		[]byte("name: "+name+"\nfactors: {clients: [2, 4]}\nrepetitions: 1\nconstants: {middlewares: 0, keys: 50, "+
			"think_time: 5ms}\n"+
			"run: {warm_up: 0s, duration: 500ms}\n"), 0o644))
	return path
}

func TestSeveralExperimentsAreRunOneAfterTheOtherAndResumed(t *testing.T) {
	dir := t.TempDir()
	first, second := shortExperiment(t, "first"), shortExperiment(t, "second")
	stdout, stderr, err := lab(context.Background(), "run", first, "--out-dir", dir, "--program", "mcmw=true")
	require.NoError(t, err, stderr)
	assert.Contains(t, stdout, filepath.Join(dir, "first")+": 2 runs complete\n")

	both := []string{"run", first, second, "--out-dir", dir, "--program", "mcmw=true"}
	_, _, err = lab(context.Background(), both...)
	require.ErrorIs(t, err, record.ErrExists, "nothing is run if one record exists")
	require.NoDirExists(t, filepath.Join(dir, "second"))

	stdout, stderr, err = lab(context.Background(), append(both, "--resume")...)
	require.NoError(t, err, stderr)
	for _, name := range []string{"first", "second"} {
		assert.Contains(t, stdout, filepath.Join(dir, name, "report", "index.html")+"\n")
	}
	assert.Contains(t, stdout, filepath.Join(dir, "first")+": 2 runs complete (2 before this call)\n")
	assert.Regexp(t, `(?m)^second \(2 of 2\): run 1 of 2: clients=\d, repetition 1; about \d+s left, \d+s for all$`,
		stderr)
	require.Len(t, recorded(t, filepath.Join(dir, "second")), 2)
}

func TestASeriesContinuesAfterAFailedExperiment(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad,
		[]byte("name: bad\nconstants: {middlewares: 0, keys: 50, load_flags: --no-such-flag}\nrepetitions: 1\nrun: "+
			"{warm_up: 0s, duration: 500ms}\n"), 0o644))
	stdout, _, err := lab(context.Background(), "run", bad, shortExperiment(t, "good"), "--out-dir", dir, "--program",
		"mcmw=true")
	require.ErrorContains(t, err, "bad (1 of 2): ")
	assert.Contains(t, stdout, filepath.Join(dir, "good")+": 2 runs complete")
}

func TestInvalidSeriesAreRefused(t *testing.T) {
	first := shortExperiment(t, "first")
	for arguments, want := range map[string]string{
		"run":                 "takes the files of experiments, got []",
		"run A A --out-dir x": "have the same name first; expected different names",
		"run A B --out x": "--out is the directory of one record, but there are 2 experiments; expected " +
			"--out-dir",
		"run A --out x --out-dir y":   "--out and --out-dir: expected only one of them",
		"run A /no/such.yaml --quick": "no such file",
		"check":                       "takes the files of experiments, got []",
	} {
		fields := strings.Fields(arguments)
		for i, field := range fields {
			switch field {
			case "A":
				fields[i] = first
			case "B":
				fields[i] = shortExperiment(t, "second")
			}
		}
		requireRefused(t, exitUsage, want, fields...)
	}
}

func TestCheckGoesOnAfterAMissingFileAndFails(t *testing.T) {
	stdout, _, err := lab(t.Context(), "check", "/no/such.yaml", shortExperiment(t, "first"))
	require.ErrorContains(t, err, "no such file")
	assert.Equal(t, exitUsage, exitCode(err, io.Discard))
	assert.Contains(t, stdout, "experiment   first\n")
}

func TestCheckAddsUpTheTimesOfSeveralExperiments(t *testing.T) {
	stdout := output(t, "check", shortExperiment(t, "first"), shortExperiment(t, "second"))
	assert.Contains(t, stdout, "together\nruns  4 at most, about 8s\n")
}

func TestCheckWritesThePlansInEveryFormat(t *testing.T) {
	first, second := shortExperiment(t, "first"), shortExperiment(t, "second")
	var tables []table.Table
	require.NoError(t, json.Unmarshal([]byte(output(t, "check", first, second, "--format", "json")), &tables))
	require.Len(t, tables, 3)
	assert.Equal(t, []string{"experiment", "first"}, tables[0].Rows[0])
	assert.Equal(t, "together", tables[2].Caption)
	assert.Contains(t, output(t, "check", first, "--format", "csv"), "\nexperiment,first\n")
	assert.Contains(t, output(t, "check", first, "--format", "markdown"), "| experiment | first |\n")
}
