package record

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunsAreGroupedByTheLevelsOfTheirFactors(t *testing.T) {
	run := func(id int64, state State, throughput float64, workers string) Run {
		return Run{ID: id, State: state, Factors: map[string]string{"workers": workers, "depth": "1"}, Results: []Value{{SourceClient, "throughput", throughput}}}
	}
	runs := []Run{run(1, Complete, 10, "8"), run(2, Complete, 30, "64"), run(3, Failed, 5, "8"), run(4, Complete, 12, "8")}
	points := Points(runs)
	require.Len(t, points, 2)
	require.Equal(t, []float64{10, 12}, points[0].Values(SourceClient, "throughput"), "without the failed run")
	require.Len(t, points[0].Runs, 3)
	require.Empty(t, points[1].Values(SourceClient, "misses"))
	require.Equal(t, []string{"workers"}, Varying(runs))
	require.Equal(t, map[string]string{"depth": "1"}, Constant(runs))
	require.Equal(t, "workers=8", Label(points[0].Factors, []string{"workers", "pool"}))
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
	levels := []string{"shared", "128", "8", "none", "64", "1e1", "8.0"}
	slices.SortFunc(levels, CompareLevels)
	require.Equal(t, []string{"8", "8.0", "1e1", "64", "128", "none", "shared"}, levels)
}
