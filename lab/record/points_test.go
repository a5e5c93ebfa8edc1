package record

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFactorsVaryOrAreConstant(t *testing.T) {
	run := func(id int64, state State, throughput float64, workers string) Run {
		return Run{
			ID: id, State: state, Factors: map[string]string{"workers": workers, "depth": "1"},
			Results: []Value{{SourceClient, "throughput", throughput}},
		}
	}
	runs := []Run{
		run(1, Complete, 10, "8"), run(2, Complete, 30, "64"), run(3, Failed, 5, "8"),
		run(4, Complete, 12, "8"),
	}
	require.Equal(t, []string{"workers"}, Varying(runs))
	require.Equal(t, map[string]string{"depth": "1"}, Constant(runs))
	require.Equal(t, "workers=8", Label(runs[0].Factors, []string{"workers", "pool"}))
	require.Empty(t, Varying(nil))
	require.Empty(t, Constant(nil))

	runs[1].Factors["pool"] = "shared"
	require.Equal(t, []string{"pool", "workers"}, Varying(runs), "a factor that only some runs have varies")
	workers, ok := runs[0].Number("workers")
	require.True(t, ok)
	require.Equal(t, 8.0, workers)
	_, ok = runs[1].Number("pool")
	require.False(t, ok)
}

func TestLevelsAreOrderedBySizeThenAlphabetically(t *testing.T) {
	for _, want := range [][]string{
		{"8", "8.0", "1e1", "64", "128", "none", "shared"},
		{"0s", "500us", "5ms", "10ms", "1s", "1m"},
		{"64", "1KiB", "4 KiB", "1MiB"},
		{"0:1", "1:8:1", "1:9", "1:1", "1:0", "many"},
		{"4", "default"},
	} {
		levels := slices.Clone(want)
		slices.Reverse(levels)
		slices.SortFunc(levels, CompareLevels)
		require.Equal(t, want, levels)
	}
}

func TestALevelIsANumberInBaseUnits(t *testing.T) {
	for level, want := range map[Level]float64{"64": 64, "10ms": 0.01, "1.5s": 1.5, "4KiB": 4096, "2 MiB": 2 << 20} {
		got, ok := level.Number()
		require.True(t, ok, level)
		require.InEpsilon(t, want, got, 1e-12, level)
	}
	for _, level := range []Level{"", "shared", "1:9", "NaN", "Inf", "KiB", "default"} {
		_, ok := level.Number()
		require.False(t, ok, level)
	}
}

func TestADefaultIsTheNumberThatTheMiddlewareReports(t *testing.T) {
	r := Run{Factors: map[string]string{"workers": "default"}}
	_, ok := r.Number("workers")
	require.False(t, ok)
	r.Results = []Value{{Source: SourceMiddleware, Metric: "workers", Value: 2}}
	workers, ok := r.Number("workers")
	require.True(t, ok)
	require.Equal(t, 2.0, workers)
}
