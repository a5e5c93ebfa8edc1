package paper

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
)

func TestBrokenCellsAreRefusedWithTheirLine(t *testing.T) {
	const header = "table,row,column,printed,here,times,decimals\n"
	for text, want := range map[string]string{
		"table,row\n": "line 1: table,row: expected " +
			"table,row,column,printed,here,times,decimals",
		header + "a,b\n":                      "record on line 2: wrong number of fields",
		header + "b,r,c,1,throughput[x],,0\n": "line 2, table b: the file has no such table",
		header +
			"a,r,c,1,speed[x],,0\n": `line 2, table a: "speed[x]", character 1: expected a metric such as throughput or p99`,
		header + "a,r,c,1,throughput,,0\n":          "expected the runs of an experiment in brackets after the metric",
		header + "a,r,c,1,throughput[x],many,0\n":   `parsing "many"`,
		header + "a,r,c,1,throughput[x],,several\n": `parsing "several"`,
	} {
		r := &Report{Tables: []Table{{Name: "a"}}}
		require.ErrorContains(t, r.read([]byte(text)), want, text)
	}
}

// Every kind of term is measured from one point of 48 clients and 8 workers, and one of 96.
func TestEachTermIsMeasured(t *testing.T) {
	r, err := record.Create(filepath.Join(t.TempDir(), "r"), record.Manifest{
		Name: "kuechler-07-writes", Testbed: "vm",
		Path: []record.Value{{Source: record.SourcePath, Metric: "round_trip_time_mean", Value: 1e-3}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	for point, clients := range []string{"48", "96"} {
		for repetition := range 2 {
			x := 4000 + 2000*float64(point) + float64(repetition)
			require.NoError(t, r.Add(record.Run{
				Point: point, Repetition: repetition, State: record.Complete, Seconds: 3,
				Factors: map[string]string{"clients": clients, "workers": "8"},
				Results: []record.Value{
					{Source: "client", Metric: "throughput", Value: x},
					{Source: "client", Metric: "response_time_mean", Value: 0.0125},
					{Source: "client", Metric: "hits", Value: 990},
					{Source: "client", Metric: "misses", Value: 10},
					{Source: "middleware", Metric: "throughput", Value: x},
					{Source: "middleware", Metric: "response_time_mean", Value: 0.011},
				},
			}))
		}
	}
	e, err := NewEvidence(t.Context(), []*record.Record{r})
	require.NoError(t, err)
	of, err := Load("kuechler", "")
	require.NoError(t, err)
	s := Of(of, e)
	const at = "[kuechler-07-writes, clients=48, workers=8]"
	cells := [][2]string{
		{"middleware.throughput" + at, "4000 ± 6"},
		{"miss_rate(misses" + at + ")", "0"},
		{"derived(middleware.response_time_mean" + at + ")", "4000 ± 0"}, // 48/(11 ms + 1 ms)
		{"1000 predicted(throughput" + at + ")", "12"},
		{"100 predicted_error(throughput" + at + ")", "4"}, // 12.5 ms instead of 12 ms
		{"1e6 law_difference(middleware.throughput" + at + ")", "501"},
		{"100 ratio(throughput" + at + ", [kuechler-07-writes, workers=8, highest])", "67"},
		// was not measured, so the highest is shown
		{"throughput[kuechler-07-writes, clients=49, workers=8]", "(6000 ± 6)"},
		{"throughput[kuechler-07-writes, workers=9]", "–"},
		{"effect(throughput[kuechler-07-writes], S)", "–"},
	}
	s.Report.Tables = []Table{{Name: "a", OrHighest: true}}
	text := "table,row,column,printed,here,times,decimals\n"
	for _, cell := range cells {
		times, term, scaled := strings.Cut(cell[0], " ")
		if !scaled || strings.Contains(times, "[") {
			times, term = "", cell[0]
		}
		text += fmt.Sprintf("a,r,%q,1,%q,%s,0\n", cell[0], term, times)
	}
	require.NoError(t, s.Report.read([]byte(text)))
	page, err := s.Page(nil)
	require.NoError(t, err)
	for i, cell := range cells {
		require.Equal(t, cell[1], strings.ReplaceAll(page.Tables[1].Rows[0][2+2*i], "\u00a0", " "), cell[0])
	}
}
