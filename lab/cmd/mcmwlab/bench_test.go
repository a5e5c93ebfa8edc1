package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

func TestSystemsAreMeasuredInTurnsOnOneProcessor(t *testing.T) {
	dir, mcmw := filepath.Join(t.TempDir(), "record"), mcmwPath(t)
	stdout, stderr, err := lab(t.Context(), "bench", "twemproxy", mcmw+" --procs=1", "--systems", "direct,go-floor",
		"--loads", "mixed-1", "--rounds", "2",
		"--duration", "500ms", "--cpus", "0", "--out", dir)
	other := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9_]+`).ReplaceAllString(mcmw+" --procs=1", "-"), "-")
	if _, slower := err.(conditionError); !slower {
		require.NoError(t, err, stderr)
	}
	var systems []string
	for _, line := range regexp.MustCompile(`(?m)^ +\d of 8: case=mixed-1 system=(\S+), `).
		FindAllStringSubmatch(stderr, -1) {
		systems = append(systems, line[1])
	}
	assert.Equal(t, []string{"twemproxy", other, "direct", "go-floor", other, "direct", "go-floor", "twemproxy"},
		systems)
	assert.Regexp(t, `(?m)^load +system +throughput +ratio to twemproxy +verdict +CPU/request +p99$`, stdout)
	assert.Regexp(t, `(?m)^mixed-1 +direct +[\d,]+/s ± .* +(-|[\d.]+ \[.*\]) +\S.* +– +[\d.]+ .s`, stdout,
		"there is no processor time of a middleware")
	for _, run := range recorded(t, dir) {
		assert.Equal(t, "0", run.Factors["load_cpus"]+run.Factors["server_cpus"][1:]+run.Factors["middleware_cpus"][1:])
		misses, known := run.Value("client", "misses")
		assert.True(t, known)
		assert.Zero(t, misses, run.Factors["system"])
	}

	again := output(t, "bench", "twemproxy", mcmw+" --procs=1", "--systems", "direct,go-floor", "--loads", "mixed-1",
		"--rounds", "2",
		"--duration", "500ms", "--cpus", "0", "--out", dir, "--resume", "--format", "benchstat")
	assert.Regexp(t,
		`^goos: linux\ncpu: .*\nUnit ops/s better=higher\n(BenchmarkRequest/load=mixed-1/system=\S+-1\t\d+( *\t[\d.]+ \S+)+\n){8}$`, again)
	verdicts := output(t, "compare", dir, "--by", "system=go-floor,direct", "--verdicts", "--format", "csv")
	assert.Regexp(t,
		`^load,system,throughput,ratio to go-floor,verdict,CPU/request,p99\nmixed-1,go-floor,.*,1,,.*\nmixed-1,direct,.*\n$`,
		verdicts)
	requireRefused(t, exitUsage, "--verdicts: expected with --by system=A,B", "compare", dir, "--by", "case=a,b",
		"--verdicts")
	ratios := output(t, "compare", dir, "--by", "system=twemproxy,direct,"+other, "--ratios")
	assert.Regexp(t, `(?m)^direct +all runs +[\d.]+ \[.+?\] +- `, ratios)
	assert.Regexp(t, `(?m)^`+other+` +all runs( +[\d.]+ \[[^]]+\]){8}$`, ratios)
}

func TestAnInterruptedBenchEndsWhatItStarted(t *testing.T) {
	var progress mctest.Output
	stdout := new(strings.Builder)
	err := run(cancelOnce(t, progress.Written("1 of 4: ")),
		[]string{"bench", mcmwPath(t), "floor", "--loads", "mixed-1", "--rounds", "2", "--duration", "500ms"}, stdout,
		&progress)
	require.EqualError(t, err, "interrupted; without --out the measurements are dropped")
	assert.Empty(t, stdout.String())
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	for line, want := range map[string]string{
		"bench mcmw":                                      `bench takes at least two systems, got ["mcmw"]`,
		"bench no-such-revision direct":                   `"no-such-revision": expected the path of an mcmw, a revision of the repository in this directory, or one of mcmw, twemproxy, proxy, direct, floor, go-floor`,
		"bench direct direct":                             `"direct": it occurs twice`,
		"bench floor direct --loads mixed-65":             `case "mixed-65"; expected one of those under cases: get-4k, `,
		"bench floor direct --cpus x":                     "server_cpus",
		"bench floor direct --rounds 0":                   `repetitions: "0"`,
		"bench floor proxy --program proxy=true":          "is built without memcached's proxy",
		"bench floor direct --format pdf":                 `format "pdf": expected one of`,
		"bench floor direct --confidence 1":               "--confidence 1: expected more than 0",
		"bench mcmw direct --program mcmw=/no/such/mcmw":  "build it first",
		"bench direct floor --program memcached=/no/such": "install it",
	} {
		requireRefused(t, exitUsage, want, strings.Fields(line)...)
	}
}
