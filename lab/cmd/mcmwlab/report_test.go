package main

import (
	"context"
	"encoding/xml"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
)

// sweep makes a record of a sweep over clients, and returns its directory.
func sweep(t *testing.T) string {
	var runs []record.Run
	for i, clients := range []int{8, 16, 32} {
		x := float64(4000 - 16000/clients)
		runs = append(runs, record.Run{
			Point: i, Seconds: 10, Factors: map[string]string{"clients": strconv.Itoa(clients), "workers": "8"},
			Results: results("client", map[string]float64{"throughput": x, "response_time_mean": float64(clients) / x}),
		})
	}
	return makeRecord(t, record.Manifest{Name: "sweep"}, runs...)
}

func TestReportWritesAPageAndFigures(t *testing.T) {
	dir := sweep(t)
	stdout, stderr, err := lab(context.Background(), "report", dir, "--format", "html,markdown,latex")
	require.NoError(t, err)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "Not saturated: the throughput still grew")
	for _, name := range []string{"index.html", "report.md", "tables.tex", "throughput.svg", "response-time.svg"} {
		text, err := os.ReadFile(filepath.Join(dir, "report", name))
		require.NoError(t, err)
		assert.NotEmpty(t, text)
	}
	_, err = os.Stat(filepath.Join(dir, "report", "stages.svg"))
	assert.ErrorIs(t, err, os.ErrNotExist, "the record has no stages")
}

func TestReportWritesOneFigureOrTable(t *testing.T) {
	dir := sweep(t)
	figure := output(t, "report", dir, "--figure", "throughput", "--out", "-")
	require.NoError(t, xml.Unmarshal([]byte(figure), new(struct{ XMLName xml.Name })))
	out := t.TempDir()
	stdout := output(t, "report", dir, "--figure", "throughput", "--out", out)
	assert.Equal(t, filepath.Join(out, "throughput.svg")+"\n", stdout)
	again, err := os.ReadFile(filepath.Join(out, "throughput.svg"))
	require.NoError(t, err)
	assert.Equal(t, figure, string(again))

	stdout = output(t, "report", dir, "--table", "law")
	assert.Contains(t, stdout, "### Interactive response time law\n\n| clients | throughput |")
	stdout = output(t, "report", dir, "--table", "law", "--format", "latex")
	assert.Contains(t, stdout, `\begin{tabular}{lrrrrr}`)
	stdout = output(t, "report", dir, "--list")
	assert.Contains(t, stdout, "figure  throughput            Throughput\n")
	assert.NotContains(t, stdout, "stages")
}

func TestReportRefusesWrongFlagsAndRecords(t *testing.T) {
	dir := sweep(t)
	notWritable := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(notWritable, nil, 0o644))
	for _, tc := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"report"}, "takes the directory of one record, got []", exitUsage},
		{
			[]string{"report", dir, "--figure", "thruput"},
			`--figure "thruput": expected one of throughput, response-time,`, exitUsage,
		},
		{[]string{"report", dir, "--table", "laws"}, `--table "laws": expected one of configuration,`, exitUsage},
		{
			[]string{"report", dir, "--format", "pdf"},
			`--format "pdf": expected one of text, markdown, latex, html, csv, json`, exitUsage,
		},
		{
			[]string{"report", dir, "--confidence", "95"},
			"--confidence 95: expected more than 0 and less than 1",
			exitUsage,
		},
		{[]string{"report", dir, "--where", "workers"}, `workers must be formatted as key=value`, exitUsage},
		{[]string{"report", dir, "--select", "workers=8"}, `--select is now --where`, exitUsage},
		{
			[]string{"report", dir, "--command", "delete"},
			`--command "delete": expected one of get, set, multiget`,
			exitUsage,
		},
		{[]string{"report", dir, "--out", "-"}, "--out -: expected exactly one --figure or --table", exitUsage},
		{
			[]string{"report", dir, "--where", "workers=9"},
			`factor workers has no level "9": expected one of 8`,
			exitFailed,
		},
		{
			[]string{"report", dir, "--x", "worker"},
			`there is no factor "worker": expected one of clients, workers`,
			exitFailed,
		},
		{
			[]string{"report", dir, "--figure", "stages"},
			"figure stages: the record does not have the measurements for it", exitFailed,
		},
		{[]string{"report", t.TempDir()}, "not a record", exitFailed},
		{[]string{"report", dir, "--out", filepath.Join(notWritable, "report")}, "not a directory", exitFailed},
	} {
		requireRefused(t, tc.code, tc.want, tc.args...)
	}
}
