package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// program runs the program and returns its output.
func program(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	err = run(ctx, args, &out, &errs)
	return out.String(), errs.String(), err
}

func TestFaultsListsRunsAndWritesItsSection(t *testing.T) {
	stdout, _, err := program(t.Context(), "--list")
	require.NoError(t, err)
	for _, s := range Scenarios() {
		assert.Contains(t, stdout, s.Name+" ")
	}
	dir, mcmw := t.TempDir(), mctest.Build(t, "mcmw/cmd/mcmw")
	page, jsonFile := filepath.Join(dir, "page.md"), filepath.Join(dir, "faults.json")
	require.NoError(t, os.WriteFile(page, []byte("before\n<!-- faults -->\nold\n<!-- end of faults -->\nafter\n"),
		0o644))
	stdout, stderr, err := program(t.Context(), "--mcmw", mcmw, "--only", "bytewise",
		"--seed", "3",
		"--json-out-file", jsonFile, "--markdown", page)
	if err != nil {
		// A machine that is busy with other tests may not keep up with the timeouts.
		require.EqualError(t, err, "1 of 1 failed; the report has the reasons")
	}
	assert.Contains(t, stdout, "| bytewise |")
	assert.Contains(t, stderr, "seed 3\n1 of 1: bytewise: ")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^before\n<!-- faults -->\nMeasured on .*\| bytewise \|.*<!-- end of faults -->\nafter\n$`,
		string(text))
	assert.NotContains(t, string(text), "old")
	var report Report
	text, err = os.ReadFile(jsonFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Results, 1)
	assert.Empty(t, report.Results[0].Broken)
	assert.Positive(t, report.Results[0].Reads.Succeeded)

	require.NoError(t, os.WriteFile(page, []byte("no such lines"), 0o644))
	for file, want := range map[string]string{
		page:       "expected lines <!-- faults --> and <!-- end of faults -->",
		page + "x": "no such file",
	} {
		_, _, err := program(t.Context(), "--mcmw", mcmw, "--only", "bytewise", "--quiet", "--markdown", file)
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(usageError))
	}
}

func TestAnInterruptedSoakReportsItsCompleteRounds(t *testing.T) {
	var out bytes.Buffer
	var progress mctest.Output
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-progress.Written("round 1 of 4: server-")
		cancel()
	}()
	err := run(ctx, []string{"soak", "--mcmw", mctest.Build(t, "mcmw/cmd/mcmw"), "--duration", "1h"}, &out, &progress)
	require.ErrorIs(t, err, context.Canceled)
	assert.Contains(t, out.String(), "    go -C test/faults run . soak --mcmw ")
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"--only flood --mcmw true":       `scenario "flood": expected one of kill-any`,
		"--mcmw /no/mcmw":                "build it first",
		"soak --duration 0s --mcmw true": "duration 0s: expected more than 0",
		"soak now":                       `got ["now"], expected flags only`,
		"--no-such-flag":                 "unknown flag: --no-such-flag",
	} {
		stdout, _, err := program(t.Context(), strings.Fields(line)...)
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(usageError))
		assert.Empty(t, stdout)
	}
}
