package compare

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/condition"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

// runs makes runs of a point, one per throughput. The response time follows from the interactive law for 64 requests.
func runs(factors map[string]string, throughputs ...float64) []record.Run {
	var runs []record.Run
	for i, x := range throughputs {
		runs = append(runs, record.Run{Repetition: i, State: record.Complete, Factors: factors, Results: []record.Value{
			{Source: "client", Metric: "throughput", Value: x},
			{Source: "client", Metric: "response_time_mean", Value: 64 / x},
			{Source: "client", Metric: "errors", Value: 0},
		}})
	}
	return runs
}

func levels(pairs ...string) map[string]string {
	factors := map[string]string{}
	for _, pair := range pairs {
		name, level, _ := strings.Cut(pair, "=")
		factors[name] = level
	}
	return factors
}

// twoRecords have two points in common, and one more each.
func twoRecords() (a, b []record.Run) {
	a = append(a, runs(levels("workers=64", "pool=shared", "depth=1"), 9000, 9100, 8950)...)
	a = append(a, runs(levels("workers=8", "pool=shared", "depth=1"), 5000, 5010, 4990)...)
	a = append(a, runs(levels("workers=128", "pool=shared", "depth=1"), 9500)...)
	b = append(b, runs(levels("workers=8", "pool=per-server", "depth=1"), 4500, 4490, 4530)...)
	b = append(b, runs(levels("workers=64", "pool=per-server", "depth=1"), 9050, 9000, 9120)...)
	b = append(b, runs(levels("workers=16", "pool=per-server", "depth=1"), 7000)...)
	b[0].Warnings = []record.Warning{{Code: "misses"}}
	return a, b
}

func TestPointsAreMatchedByTheirFactors(t *testing.T) {
	a, b := twoRecords()
	c := New(a, b, Options{})
	require.Equal(t, map[string][2]string{"pool": {"shared", "per-server"}}, c.Differs)
	require.Len(t, c.Points, 2)
	require.Equal(t, "workers=8", c.Points[0].Label, "levels are ordered by size")
	require.Equal(t, "workers=64", c.Points[1].Label)
	require.Equal(t, []string{"workers=128"}, c.OnlyA)
	require.Equal(t, []string{"workers=16"}, c.OnlyB)
	require.Equal(t, Warnings{0, 1}, c.Points[0].Warnings)
	slower, same := c.Points[0].Metrics[0], c.Points[1].Metrics[0]
	require.Equal(t, "throughput", slower.Name)
	require.InDelta(t, -0.0987, float64(slower.Change), 1e-4)
	require.False(t, slower.ChangeInterval.Contains(0))
	require.Less(t, float64(slower.WelchP), 0.001)
	require.InDelta(t, 0.1, float64(slower.RankP), 1e-12)
	require.Less(t, float64(slower.Effect), -10.0)
	require.True(t, same.ChangeInterval.Contains(0))
}

func TestAFactorThatOnlyOneRecordHasIsIgnored(t *testing.T) {
	c := New(runs(levels("workers=8"), 1, 2),
		append(runs(levels("workers=8", "rate=1"), 1, 2), runs(levels("workers=8", "rate=2"), 3)...), Options{})
	require.Len(t, c.Points, 1)
	require.Len(t, c.Points[0].Metrics[0].B.Values, 3)
	require.Empty(t, c.Points[0].Label)
}

func TestTheTextIsThatOfTheGoldenFile(t *testing.T) {
	a, b := twoRecords()
	var text strings.Builder
	require.NoError(t, table.Page{Blocks: New(a, b, Options{}).Blocks("before", "after")}.Write(&text, table.Text))
	golden(t, "testdata/compare.txt", text.String())
	text.Reset()
	require.NoError(t, table.Page{Blocks: New(a, nil, Options{}).Blocks("before", "nothing")}.Write(&text, table.Text))
	require.Contains(t, text.String(), "The records have no point in common.")
}

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file, which -update writes.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func TestUnknownNumbersAreNullInJSON(t *testing.T) {
	c := New(runs(levels("workers=8"), 100), runs(levels("workers=8"), 110),
		Options{Metrics: []string{"throughput", "misses"}})
	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.JSONEq(t,
		`{"source": "client", "confidence": 0.95, "points": [{"label": "", "factors": {}, "warnings": {"a": 0, "b": 0}, "metrics": [{
		"name": "throughput",
		"a": {"values": [100], "mean": 100, "stddev": null, "interval": [null, null]},
		"b": {"values": [110], "mean": 110, "stddev": null, "interval": [null, null]},
		"change": 0.10000000000000009, "change_interval": [null, null], "effect_size": null, "welch_p": null, "rank_p": 1}]}]}`, string(text))
}

func TestConditionsAreJudged(t *testing.T) {
	a, b := twoRecords()
	a, b = a[:6], b[:6] // the points that both have
	single := New(runs(levels(), 100), runs(levels(), 50), Options{})
	c := New(a, b, Options{Metrics: []string{"throughput", "response_time_mean", "errors", "misses"}})
	for text, want := range map[string]struct {
		c         *Comparison
		met, open int
	}{
		"change(throughput) < -5%":        {c, 1, 0},
		"ratio(throughput) < 0.85":        {c, 0, 0},
		"ratio(throughput)<=95e0 %":       {c, 1, 0},
		"change(throughput) > 0.1%":       {c, 0, 0}, // one rose, but not significantly
		"change(response_time_mean) > 5%": {c, 1, 0},
		"response_time_mean > 8ms":        {c, 1, 0},
		"response_time_mean > 1s":         {c, 0, 0},
		"mean > 8e3us":                    {c, 1, 0},
		"throughput < 4600":               {c, 1, 0},
		"errors > 0":                      {c, 0, 0},
		"errors >= 0":                     {c, 2, 0},
		"misses > 0":                      {c, 0, 2},
		"change(throughput) < -10%":       {single, 0, 1},
		"throughput < 60":                 {single, 1, 0},
	} {
		tested, err := condition.Parse(text, Conditions)
		require.NoError(t, err, text)
		v := want.c.Judge([]condition.Condition{tested}, 1)[0]
		require.Len(t, v.Met, want.met, "%s: %v", text, v)
		require.Len(t, v.Open, want.open, "%s: %v", text, v)
	}
	tested, err := condition.Parse("change(throughput) < -5%", Conditions)
	require.NoError(t, err)
	full, other := twoRecords()
	v := New(full, other, Options{}).Judge([]condition.Condition{tested}, 1)[0]
	require.Equal(t, []string{
		"workers=128: only one of the records has this point",
		"workers=16: only one of the records has this point",
	}, v.Open)
	require.Equal(t, []string{"workers=8: change -9.9 % [-10.7, -9.0]"}, v.Met)
}

// Records without any difference meet a condition with a probability of at most 1 - confidence in total, not for each
// comparison.
func TestEqualRecordsWithManyComparisonsSeldomFail(t *testing.T) {
	const trials, points, repetitions = 400, 12, 4
	random := rand.New(rand.NewPCG(20, 5))
	tested, err := condition.Parse("change(throughput) < -0.01%", Conditions)
	require.NoError(t, err)
	other, err := condition.Parse("change(response_time_mean) > 0.01%", Conditions)
	require.NoError(t, err)
	record := func() (all []record.Run) {
		for i := range points {
			x := make([]float64, repetitions)
			for j := range x {
				x[j] = 1000 + 20*random.NormFloat64()
			}
			all = append(all, runs(levels("workers="+strconv.Itoa(i)), x...)...)
		}
		return all
	}
	failed := 0
	for range trials {
		for _, v := range New(record(), record(), Options{}).Judge([]condition.Condition{tested, other}, 1) {
			if v.Met != nil {
				failed++
				break
			}
		}
	}
	require.LessOrEqual(t, failed, trials*8/100, "of %d", trials)

	worse := New(runs(levels(), 1000, 1010, 990, 1005), runs(levels(), 500, 505, 495, 510), Options{})
	require.Len(t, worse.Judge([]condition.Condition{tested}, 1)[0].Met, 1)
}

func TestSwappingTheRecordsInvertsTheGeometricMean(t *testing.T) {
	a := slices.Concat(runs(levels("workers=8"), 100, 101, 99), runs(levels("workers=64"), 1000, 1010, 990),
		runs(levels("workers=32"), 0))
	b := slices.Concat(runs(levels("workers=8"), 200, 202, 198), runs(levels("workers=64"), 500, 505, 495),
		runs(levels("workers=32"), 5))
	there, back := New(a, b, Options{}).Means[0], New(b, a, Options{}).Means[0]
	require.Equal(t, 2, there.Points, "a point whose metric is 0 has no ratio")
	require.InDelta(t, 0, float64(there.Change), 1e-12, "the ratios are 2 and 1/2")
	require.InDelta(t, 1, (1+there.ChangeInterval.Low)*(1+back.ChangeInterval.High), 1e-9)
	// Each of the four means has a relative standard error of 0.01/sqrt(3): half of the interval is t[0.975; 8] 0.01
	// sqrt(4/3)/2.
	require.InDelta(t, 2.306*0.01*math.Sqrt(4.0/3)/2, math.Log(1+there.ChangeInterval.High), 1e-5)
	single := New(slices.Concat(runs(levels("workers=8"), 100), runs(levels("workers=64"), 100)),
		slices.Concat(runs(levels("workers=8"), 110), runs(levels("workers=64"), 110)), Options{}).Means[0]
	require.InDelta(t, 0.1, float64(single.Change), 1e-12)
	require.False(t, single.ChangeInterval.Known())
}

func TestAChangeFromAMeanThatMayBe0IsUnbounded(t *testing.T) {
	var text strings.Builder
	blocks := New(runs(levels(), 10, 100, 1000), runs(levels(), 500, 510, 490), Options{}).Blocks("A", "B")
	require.NoError(t, table.Page{Blocks: blocks}.Write(&text, table.Text))
	require.Contains(t, text.String(), "+35.1 % [unbounded]")
}
