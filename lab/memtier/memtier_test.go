package memtier

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// open opens a file of testdata, an output of memtier_benchmark against memcached 1.6.18.
func open(t testing.TB, name string) *os.File {
	file, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func TestTextOfARunIsRead(t *testing.T) {
	out, err := ParseText(open(t, "get.txt"))
	require.NoError(t, err)
	assert.Equal(t, 2, out.Threads)
	assert.Equal(t, 4, out.Connections)
	assert.Equal(t, 8, out.Clients())
	assert.InDelta(t, 5, out.Duration, 0)
	require.Len(t, out.Results, 1)
	result := out.Overall()
	assert.Equal(t, "ALL STATS", result.Title)
	gets, ok := result.Row("Gets")
	require.True(t, ok)
	assert.InDelta(t, 70667.99, gets.Throughput, 0)
	assert.InDelta(t, 70667.99, gets.Hits, 0)
	sets, ok := result.Row("Sets")
	require.True(t, ok)
	assert.True(t, math.IsNaN(sets.Hits))
	assert.True(t, math.IsNaN(sets.Mean))
	distribution := result.Distributions["GET"]
	require.NotEmpty(t, distribution)
	assert.InDelta(t, 1, distribution[len(distribution)-1].Share, 1e-12)
	assert.InDelta(t, 8.095e-3, distribution[len(distribution)-1].Seconds, 1e-12)
}

func TestTextOfSeveralRunsHasBestWorstAndAverage(t *testing.T) {
	out, err := ParseText(open(t, "mixed-3runs.txt"))
	require.NoError(t, err)
	var titles []string
	for _, result := range out.Results {
		titles = append(titles, result.Title)
	}
	assert.Equal(t, []string{"BEST RUN RESULTS", "WORST RUN RESULTS", "AGGREGATED AVERAGE RESULTS (3 runs)"}, titles)
	totals, ok := out.Overall().Row("Totals")
	require.True(t, ok)
	assert.InDelta(t, 66591.71, totals.Throughput, 0)
	assert.InDelta(t, 0.12040e-3, totals.Mean, 1e-15)
	assert.InDelta(t, 0.14300e-3, totals.Percentile(0.75), 1e-15)
	assert.InDelta(t, 2.079e-3, totals.Percentile(0.999), 1e-15)
	assert.True(t, math.IsNaN(totals.Percentile(0.123)))
}

func TestTextOfOldReleasesIsRead(t *testing.T) {
	out, err := ParseText(strings.NewReader("[RUN #1 100%,  70 secs]  0 threads:  49485 ops\r[RUN #1] done" + `
1         Threads
32        Connections per thread
70        Seconds


ALL STATS
========================================================================
Type        Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec 
------------------------------------------------------------------------
Sets         706.93          ---          ---     45.91600      2855.59 
Gets           0.00         0.00         0.00      0.00000         0.00 
Totals       706.93         0.00         0.00     45.91600      2855.59 


Request Latency Distribution
Type     <= msec         Percent
------------------------------------------------------------------------
SET      21.000         0.00
SET      45.000        53.73
SET     170.000       100.00
---
GET       0.000       100.00
---
`))
	require.NoError(t, err)
	sets, ok := out.Overall().Row("Sets")
	require.True(t, ok)
	assert.InDelta(t, 45.916e-3, sets.Mean, 1e-15)
	assert.Empty(t, sets.Percentiles)
	assert.Equal(t, []Quantile{{0, 0.021}, {0.5373, 0.045}, {1, 0.17}}, out.Overall().Distributions["SET"])
}

func TestJSONAgreesWithTheTextOfTheSameRun(t *testing.T) {
	for _, name := range []string{"get", "set", "multiget9", "mixed-3runs"} {
		text, err := ParseText(open(t, name+".txt"))
		require.NoError(t, err)
		object, err := ParseJSON(open(t, name+".json"))
		require.NoError(t, err)
		assert.Equal(t, text.Clients(), object.Clients())
		assert.InDelta(t, text.Duration, object.Duration, 0)
		require.Len(t, object.Results, len(text.Results))
		for i, result := range text.Results {
			other := object.Results[i]
			assert.Equal(t, result.Title, other.Title)
			require.Len(t, other.Rows, len(result.Rows))
			for j, row := range result.Rows {
				same := other.Rows[j]
				assert.Equal(t, row.Name, same.Name)
				assert.InDelta(t, row.Throughput, same.Throughput, 0)
				if !math.IsNaN(row.Hits) {
					assert.InDelta(t, row.Hits, same.Hits, 0)
				}
			}
			for command, distribution := range result.Distributions {
				require.Len(t, other.Distributions[command], len(distribution))
				for j, q := range distribution {
					assert.InDelta(t, q.Seconds, other.Distributions[command][j].Seconds, 1e-12)
					assert.InDelta(t, q.Share, other.Distributions[command][j].Share, 1e-9)
				}
			}
		}
	}
}

func TestJSONHasCountsSecondsAndHistograms(t *testing.T) {
	out, err := ParseJSON(open(t, "get.json"))
	require.NoError(t, err)
	assert.Equal(t, "memcache_text", out.Configuration["protocol"])
	assert.Equal(t, "10000", out.Configuration["key_maximum"])
	result := out.Overall()
	assert.Equal(t, 5*time.Second, result.Finish.Sub(result.Start))
	gets, ok := result.Row("Gets")
	require.True(t, ok)
	assert.EqualValues(t, 353360, gets.Count)
	assert.InDelta(t, 8.095e-3, gets.Max, 1e-15)
	require.NotEmpty(t, gets.Seconds)
	var counted uint64
	for i, second := range gets.Seconds {
		counted += second.Count
		assert.InDelta(t, i, second.Start, 0)
	}
	assert.Equal(t, gets.Count, counted)
	require.NotEmpty(t, gets.Histogram)
	for i, bin := range gets.Histogram {
		if i > 0 {
			assert.GreaterOrEqual(t, bin.Lower, gets.Histogram[i-1].Upper-1e-12)
		}
	}
	assert.EqualValues(t, gets.Count, gets.Histogram.Total())
	assert.InEpsilon(t, gets.Mean, gets.Histogram.Mean(), 0.02)
}

func TestAMeanOfTotalsInWholeMillisecondsIsReplacedByThatOfTheRows(t *testing.T) {
	for totals, want := range map[string]float64{"5.000": 5.75e-3, "5.700": 5.7e-3, "6.000": 6e-3, "nan": math.NaN()} {
		object,
			err := ParseJSON(strings.NewReader(`{"ALL STATS":{"Sets":{"Ops/sec":100,"Latency":5.0},"Gets":{"Ops/sec":300,"Latency":6.0},"Waits":{"Ops/sec":0,"Latency":0},"Totals":{"Ops/sec":400,"Latency":` + totals + `}}}`))
		require.NoError(t, err)
		text,
			err := ParseText(strings.NewReader("ALL STATS\n======\nType     Ops/sec     Latency\n------\nSets     " +
			"100     5.0\nGets     300     6.0\nTotals     400     " + totals + "\n"))
		require.NoError(t, err)
		for _, out := range []*Output{object, text} {
			row, ok := out.Overall().Row("Totals")
			require.True(t, ok)
			assert.Equal(t, math.IsNaN(want), math.IsNaN(row.Mean))
			if !math.IsNaN(want) {
				assert.InDelta(t, want, row.Mean, 1e-12, totals)
			}
		}
	}
}

func TestMeansInWholeMillisecondsAreReplacedByThoseOfSumsAndHistograms(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "multiget9.json"))
	require.NoError(t, err)
	want, err := ParseJSON(bytes.NewReader(text))
	require.NoError(t, err)
	cut := regexp.MustCompile(`("(?:Average )?Latency": )0\.\d+`).ReplaceAll(text, []byte("${1}0.000"))
	for name, text := range map[string][]byte{
		"sums":       cut,
		"histograms": regexp.MustCompile(`"Accumulated Latency": \d+`).ReplaceAll(cut, []byte(`"Other": 1`)),
	} {
		got, err := ParseJSON(bytes.NewReader(text))
		require.NoError(t, err)
		for _, row := range []string{"Sets", "Gets", "Totals"} {
			exact, _ := want.Overall().Row(row)
			replaced, _ := got.Overall().Row(row)
			assert.InEpsilon(t, exact.Mean, replaced.Mean, 0.02, "%s of %s", row, name)
		}
	}
}

func TestNaNsAndInfinitiesAreMissing(t *testing.T) {
	out,
		err := ParseJSON(strings.NewReader(`{"ALL STATS":{"Totals":{"Ops/sec":-nan,"Latency":nan,"Hits/sec":inf,"Misses/sec":1.5,"note nan":"nan \" nan"}}}`))
	require.NoError(t, err)
	row := out.Overall().Rows[0]
	assert.True(t, math.IsNaN(row.Throughput))
	assert.True(t, math.IsNaN(row.Mean))
	assert.True(t, math.IsNaN(row.Hits))
	assert.InDelta(t, 1.5, row.Misses, 0)
}

func TestMalformedOutputsAreRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "no table of memtier_benchmark"},
		{"hello\nworld\n", "no table of memtier_benchmark"},
		{"ALL STATS\nType Ops/sec\n", "ends before the rows"},
		{"-1 Threads\n", "line 1: Threads: -1: expected 0"},
		{"ALL STATS\nType    Ops/sec    Latency\nSets  1.0\n", "line 3: 2 columns: expected 3"},
		{"ALL STATS\nType    Ops/sec    Latency\nSets  x 1.0\n", `line 3: Ops/sec of Sets: "x"`},
		{
			"ALL STATS\nType    Ops/sec\nSets  1.0\n\nType   <= msec   Percent\nSET 2 50\nSET 1 60\n",
			"line 7: SET: 60 % within 0.001 s comes after 50 %",
		},
		{"ALL STATS\nType    Ops/sec\nSets  1.0\n\nType   <= msec   Percent\nSET 2 150\n", "line 6: SET: 150 %"},
	} {
		_, err := ParseText(strings.NewReader(c.text))
		assert.ErrorContains(t, err, c.want, c.text)
	}
	for _, c := range []struct{ text, want string }{
		{"", "expected the JSON of memtier_benchmark"},
		{"{}", "no result of memtier_benchmark"},
		{`{"ALL STATS":{}}`, "no rows"},
		{`{"ALL STATS":{"Sets":{"Count":-1}}}`, `"ALL STATS": "Sets": count: -1`},
		{`{"ALL STATS":{"Sets":{},"Runtime":{"Time unit":"HOURS"}}}`, "expected MILLISECONDS"},
		{`{"ALL STATS":{"Sets":{"Time-Serie":{"x":{}}}}}`, "the number of a second"},
		{
			`{"ALL STATS":{"Sets":{"Percentile Latencies":{"Histogram log format":{"Compressed Histogram":"AAAA"}}}}}`,
			"histogram:",
		},
		{`{"ALL STATS":{"Sets":{},"SET":[{"<=msec":1,"percent":101}]}}`, "expected 0 to 100 %"},
		{`{"configuration":{"a":[]},"ALL STATS":{"Sets":{}}}`, "neither text nor a number"},
		{`{"run information":{"Threads":-1},"ALL STATS":{"Sets":{}}}`, "expected 0 to"},
	} {
		_, err := ParseJSON(strings.NewReader(c.text))
		assert.ErrorContains(t, err, c.want, c.text)
	}
}
