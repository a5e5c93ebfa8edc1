package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/check"
	"mcmw/lab/record"
)

var update = flag.Bool("update", false, "write the outputs of the commands into docs/results/analysis.md")

// The page shows commands as "    $ mcmwlab ...", with their output below, both indented.
func TestTheDocumentationHasTheOutputsOfTheCommands(t *testing.T) {
	t.Chdir("../../..")
	const page, prompt, indent = "docs/results/analysis.md", "    $ mcmwlab ", "    "
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var made strings.Builder
	commands := 0
	lines := strings.SplitAfter(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		made.WriteString(lines[i])
		command, ok := strings.CutPrefix(strings.TrimRight(lines[i], "\n"), prompt)
		if !ok {
			continue
		}
		commands++
		out, _, err := lab(t.Context(), strings.Fields(command)...)
		require.NoError(t, err, command)
		made.WriteString("\n")
		for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
			made.WriteString(strings.TrimRight(indent+line, " ") + "\n")
		}
		made.WriteString("\n")
		// The old output ends before the first line that is neither indented nor empty.
		for i+1 < len(lines) && (strings.HasPrefix(lines[i+1], indent) && !strings.HasPrefix(lines[i+1], prompt) ||
			lines[i+1] == "\n") {
			i++
		}
	}
	require.Equal(t, 2, commands)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(made.String()), 0o644))
	}
	assert.Equal(t, made.String(), string(text),
		"go -C lab test ./cmd/mcmwlab -run Documentation -update writes the outputs")
}

// twoByTwo makes a record of two factors, two repetitions.
func twoByTwo(t *testing.T) string {
	var runs []record.Run
	for i, y := range []float64{100, 102, 200, 202, 400, 398, 800, 804} {
		runs = append(runs, record.Run{
			Point: i / 2, Repetition: i % 2, Position: i,
			Results: results("client", map[string]float64{"throughput": y}),
			Factors: map[string]string{"workers": strconv.Itoa(8 << (i / 2 % 2)), "servers": strconv.Itoa(1 + i/4)},
		})
	}
	return makeRecord(t, record.Manifest{Name: "2k"}, runs...)
}

func TestFactorialAnalysesARecord(t *testing.T) {
	dir := twoByTwo(t)
	figures := filepath.Join(t.TempDir(), "figures")
	out := output(t, "factorial", dir, "--factors", "W,S", "--confidence", "0.9", "--out", figures)
	assert.Contains(t, out, "Effects and allocation of variation, additive model: throughput [ops/s]")
	assert.Contains(t, out, "W workers: 8 (-1), 16 (+1)")
	assert.Contains(t, out, "The multiplicative model fits better")
	for _, name := range []string{"qq.svg", "residuals.svg"} {
		assert.FileExists(t, filepath.Join(figures, name))
	}

	out = output(t, "factorial", dir, "--factors", "W,S", "--model", "multiplicative", "--format", "json")
	var result struct {
		Unit     string
		Analysis struct {
			Model string
			Terms []struct {
				Name        string
				Multiplier  float64
				Significant bool
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	assert.Equal(t, "1/s", result.Unit)
	assert.Equal(t, "multiplicative", result.Analysis.Model)
	assert.InDelta(t, 1.41, result.Analysis.Terms[1].Multiplier, 0.01)
	assert.False(t, result.Analysis.Terms[3].Significant)

	out = output(t, "factorial", dir, "--factors", "W,S", "--model", "anova", "--format", "html")
	assert.Contains(t, out, "<caption>Analysis of variance: throughput [ops/s]</caption>")
	assert.Contains(t, out, "<svg")
}

func TestFactorialReadsACSVFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.csv")
	require.NoError(t, os.WriteFile(path, []byte("workers,throughput\n8,1\n16,2\n8,3\n16,5\n"), 0o644))
	out := output(t, "factorial", path, "--factors", "workers")
	assert.Contains(t, out, "workers: 8 (-1), 16 (+1)")
	require.NoError(t, os.WriteFile(path, []byte("workers,throughput\n8,1\n16,2\n32,3\n"), 0o644))
	requireRefused(t, exitUsage, "only has the additive model", "factorial", path, "--factors", "workers", "--model",
		"multiplicative")
}

func TestAnErrorNamesAFileOnce(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, "file"), filepath.Join(dir, "data.csv")
	require.NoError(t, os.WriteFile(file, []byte("nothing"), 0o600))
	require.NoError(t, os.WriteFile(data, []byte("workers,throughput\n8\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "not", "manifest.json"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "not.csv"), 0o700))
	text := filepath.Join(dir, "text") // a record as text whose table is a directory
	output(t, "show", twoByTwo(t), "--export", "text", "--out", text)
	require.NoError(t, os.Remove(filepath.Join(text, "record.csv")))
	require.NoError(t, os.Mkdir(filepath.Join(text, "record.csv"), 0o700))
	memtier := filepath.Join("..", "..", "memtier", "testdata", "get.json")
	for _, args := range [][]string{
		{"factorial", "--factors", "W", filepath.Join(dir, "nothing")},
		{"factorial", "--factors", "W", filepath.Join(dir, "nothing.csv")},
		{"factorial", "--factors", "W", dir},
		{"factorial", "--factors", "W", data},
		{"factorial", "--factors", "W", filepath.Join(dir, "not.csv")},
		{"load", "--rate", "trace:" + dir},
		{"factorial", "--factors", "W", twoByTwo(t)},
		{"show", filepath.Join(dir, "not")},
		{"show", file},
		{"show", text},
		{"import", memtier, "--out", filepath.Join(file, "record")},
		{"show", twoByTwo(t), "--export", "csv", "--out", filepath.Join(file, "tables")},
		{"model", filepath.Join(dir, "nothing")},
		{"capacity", filepath.Join(dir, "nothing")},
	} {
		_, _, err := lab(t.Context(), args...)
		require.Error(t, err, args)
		assert.Equal(t, 1, strings.Count(err.Error(), filepath.Dir(dir)), err)
	}
}

func TestAnalysesRefuseWrongArguments(t *testing.T) {
	dir := twoByTwo(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"factorial"}, exitUsage, "takes a record or a CSV file"},
		{[]string{"factorial", dir}, exitUsage, "--factors is missing"},
		{
			[]string{"factorial", dir, "--factors", "W,S", "--format", "word"},
			exitUsage,
			`--format "word": expected one of text, markdown, latex, html, csv, json`,
		},
		{
			[]string{"factorial", dir, "--factors", "W,S", "--model", "cubic"},
			exitFailed,
			`model "cubic": expected additive or multiplicative`,
		},
		{
			[]string{"factorial", dir, "--factors", "W,S", "--model", "multiplicative:0"},
			exitUsage,
			"--model multiplicative:0: expected a base above 1, such as multiplicative:10",
		},
		{
			[]string{"factorial", dir, "--factors", "W,S", "--model", "multiplicative:inf"},
			exitUsage,
			"--model multiplicative:inf: expected a base above 1",
		},
		{[]string{"factorial", dir, "--factors", "W,S", "--confidence", "2"}, exitUsage, "--confidence 2: expected"},
		{[]string{"factorial", dir, "--factors", "W,S", "--confidence", "0"}, exitUsage, "--confidence 0: expected"},
		{[]string{"factorial", dir, "--factors", "W"}, exitFailed, "factor servers varies, too (1, 2)"},
		{
			[]string{"factorial", dir, "--factors", "W,S", "--model", "anova:10"},
			exitUsage,
			"expected a base only as in multiplicative:10",
		},
		{[]string{"factorial", filepath.Join(dir, "nothing"), "--factors", "W,S"}, exitFailed, "nothing"},
		{[]string{"factorial", filepath.Join(dir, "nothing.csv"), "--factors", "W,S"}, exitFailed, "no such file"},
		{
			[]string{"paper", "ribeiro", "--table", "3"},
			exitUsage,
			"there is no command paper any more: a test recomputes the reports' tables",
		},
	} {
		requireRefused(t, c.code, c.want, c.args...)
	}
}

func TestImportMakesARecordOfFiles(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../foreign/testdata/memaslap.txt")
	require.NoError(t, err)
	var paths []string
	for _, name := range []string{"workers=8/a.txt", "workers=8/b.txt", "workers=16/a.txt"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, text, 0o644))
		paths = append(paths, path)
	}
	target := filepath.Join(dir, "record")
	out := output(t, append([]string{"import", "--out", target, "--factor", "servers=3"}, paths...)...)
	assert.Contains(t, out, "3 runs imported into "+target)
	r, err := record.Open(target)
	require.NoError(t, err)
	defer r.Close()
	assert.Equal(t, "memaslap", r.Manifest().Imported)
	runs, err := r.Runs(t.Context())
	require.NoError(t, err)
	require.Len(t, runs, 3)
	assert.Equal(t, "3", runs[0].Factors["servers"])
	assert.Equal(t, []int{0, 1}, []int{runs[0].Repetition, runs[1].Repetition})
	assert.Equal(t, "16", runs[2].Factors["workers"])
	set, err := r.Warnings(t.Context())
	require.NoError(t, err)
	require.Len(t, set, 1, "import makes the checks, too")
	assert.Equal(t, check.TooFewRepetitions, set[0].Code)

	_, _, err = lab(t.Context(), append([]string{"import", "--out", target}, paths...)...)
	assert.ErrorContains(t, err, "never replaced")
}

func TestImportRefusesUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.txt")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o644))
	target := filepath.Join(dir, "record")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "takes files, got"},
		{[]string{junk}, exitUsage, "--out is missing"},
		{[]string{"--out", target, junk}, exitFailed, "as memtier: no table"},
		{[]string{"--out", target, "--format", "memaslap", junk}, exitFailed, "as memaslap: no result"},
		{[]string{"--out", target, "--format", "word", junk}, exitFailed, "expected one of auto"},
		{[]string{"--out", target, filepath.Join(dir, "nothing")}, exitFailed, "no such file"},
		{[]string{"--out", target, dir}, exitUsage, "is a directory: expected files"},
		{[]string{"--summary", "-", junk}, exitUsage, "--summary is now a test"},
	} {
		requireRefused(t, c.code, c.want, append([]string{"import"}, c.args...)...)
		assert.NoDirExists(t, target)
	}
}
