package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
)

// oneServer makes a record of an experiment such as kuechler/01-one-server.yaml, with a server that limits the
// throughput, and returns its directory.
func oneServer(t *testing.T, name string, limit float64) string {
	var runs []record.Run
	for i, clients := range []int{6, 72, 192} {
		for repetition := range 2 {
			x := limit + float64(repetition)
			runs = append(runs, record.Run{
				Point: i, Repetition: repetition, Seconds: 10,
				Factors: map[string]string{
					"clients": strconv.Itoa(clients),
					"ratio":   "0:1",
				},
				Results: results("client", map[string]float64{
					"throughput":         x,
					"response_time_mean": float64(clients) / x,
				}),
			})
		}
	}
	return makeRecord(t, record.Manifest{Name: name, Title: "One server", Testbed: "vm"}, runs...)
}

func TestAReportIsComparedWithTheRecordsOfItsExperiments(t *testing.T) {
	dir, out := oneServer(t, "kuechler-01-one-server", 3010), t.TempDir()
	stdout, stderr, err := lab(context.Background(), "report", "--paper", "kuechler", dir, "--out", out)
	require.NoError(t, err)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "by construction      2.1  Reads of one server saturate at about 3,000 ops/s")
	assert.Contains(t, stdout, "there is no record of kuechler-08-multigets")
	assert.Regexp(t, `one memcached server +2962 +3010`, stdout)
	assert.Contains(t, stdout, "Of 22 findings of the report: confirmed 1, by construction 1, not comparable 20.")
	page, err := os.ReadFile(filepath.Join(out, "kuechler.html"))
	require.NoError(t, err)
	for _, part := range []string{
		"<svg", "Küchler", "not comparable",
		"Made by <code>mcmwlab report --paper kuechler " + dir,
	} {
		assert.Contains(t, string(page), part)
	}
	require.FileExists(t, filepath.Join(out, "kuechler-01-one-server-throughput.svg"))
}

func TestWithoutANameAllReportsOfTheRecordsAreWritten(t *testing.T) {
	out := t.TempDir()
	_ = output(t, "report", "--paper", oneServer(t, "kuechler-01-one-server", 2000),
		oneServer(t, "cetin-01-one-server", 2900), "--out", out)
	require.FileExists(t, filepath.Join(out, "kuechler.html"))
	require.FileExists(t, filepath.Join(out, "cetin.html"))
}

func TestOneFigureOrTableOfAReportCanBeMade(t *testing.T) {
	dir, out := oneServer(t, "kuechler-01-one-server", 3010), filepath.Join(t.TempDir(), "out")
	stdout := output(t, "report", "--paper", "kuechler", filepath.Dir(dir), "--table", "findings", "--out", out)
	assert.Contains(t, stdout,
		"| 2.1 | Reads of one server saturate at about 3,000 ops/s, the upload bandwidth of its machine. | by "+
			"construction |", "of all records in a directory")
	assert.NotContains(t, stdout, "maximum throughput without middleware")
	stdout = output(t, "report", "--paper", dir, "--figure", "kuechler-01-one-server-throughput", "--out", "-")
	assert.True(t, strings.HasPrefix(stdout, "<svg"), stdout[:min(len(stdout), 40)])
	assert.NoDirExists(t, out)
}

func TestADirectoryStandsForTheRecordsAnywhereInIt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kuechler-01-one-server", "cetin-01-one-server"} {
		require.NoError(t, os.Symlink(oneServer(t, name, 3000), filepath.Join(dir, name)))
	}
	below := filepath.Join(dir, "0.4ms")
	require.NoError(t, os.MkdirAll(below, 0o755))
	require.NoError(t, os.Rename(oneServer(t, "pungas-01-maximum", 3000), filepath.Join(below, "pungas-01-maximum")))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	records, err := recordsIn([]string{link})
	require.NoError(t, err)
	assert.Equal(t, []string{
		filepath.Join(link, "0.4ms", "pungas-01-maximum"), filepath.Join(link, "cetin-01-one-server"),
		filepath.Join(link, "kuechler-01-one-server"),
	}, records)
	records, err = recordsIn(records[:1])
	require.NoError(t, err)
	assert.Len(t, records, 1)
}

func TestWrongRecordsAndFlagsOfAReportAreRefused(t *testing.T) {
	claims := filepath.Join(t.TempDir(), "claims.yaml")
	require.NoError(t, os.WriteFile(claims, []byte("findings: [{section: a}]\n"), 0o644))
	claimsDir := filepath.Dir(claims)
	record, other := oneServer(t, "kuechler-01-one-server", 3000), oneServer(t, "cetin-01-one-server", 3000)
	for arguments, want := range map[string]string{
		"":                              "--paper: no records",
		"kuechler":                      "--paper: no records",
		"/no/such/record":               "/no/such/record: expected a record, or a directory of records: ",
		claimsDir:                       "there is no record in it",
		sweep(t):                        "no record is one of a report's experiments",
		record + " " + record:           "are both records of kuechler-01-one-server",
		record + " --out -":             "--out -: expected exactly one --figure or --table",
		record + " --figure throughput": `--figure "throughput": expected one of kuechler-01-one-server-throughput, `,
		record + " --table maximum":     `--table "maximum": expected one of findings, baseline, `,
		record + " --x clients":         "other flags are for the report of one record",
		record + " --format latex":      "--format: expected with --paper only together with --table",
		record + " " + other + " --table findings":   "expected its name after --paper: kuechler or cetin",
		"kuechler " + record + " --claims /no/such":  "no such file",
		"kuechler " + record + " --claims " + claims: "expected section, text and holds",
	} {
		_, _, err := lab(t.Context(), append([]string{"report", "--paper"}, strings.Fields(arguments)...)...)
		require.ErrorContains(t, err, want, arguments)
	}
}

// The page names the commands that made its tables, from records that are kept beside it.
func TestThePageOfTheReportsHasTheTablesOfItsRecords(t *testing.T) {
	t.Chdir("../../..")
	text, err := os.ReadFile("docs/results/paper.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile(`(?s)<!-- \$ mcmwlab (report [^>]*--table [^>]*) -->\n(.*?)<!-- end -->`).
		FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.Equal(t, strings.TrimSpace(output(t, strings.Fields(block[1])...)), strings.TrimSpace(block[2]),
			"make lab-paper-page writes %s", block[1])
	}
}
