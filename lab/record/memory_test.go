package record

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARecordInMemoryIsReadLikeAStoredOne(t *testing.T) {
	run, other := wholeRun(), Run{ID: 3, Point: 1, State: Failed, Factors: map[string]string{"connections": "8"}}
	stored := newRecord(t)
	for _, one := range []Run{run, other} {
		require.NoError(t, stored.Add(one))
	}
	run.Results = append(run.Results, Value{SourceClient, "response_time_mean", math.NaN()})
	run.Windows = append(run.Windows, Window{SourceClient, 2, 1, "throughput", math.Inf(1)})
	for _, list := range [][]Window{run.Windows, run.HostSamples} {
		slices.Reverse(list)
	}
	slices.Reverse(run.Results)
	slices.Reverse(run.Histograms)
	memory, err := InMemory("file.json", Manifest{Name: "test"}, []Run{run, other}, nil)
	require.NoError(t, err)
	for _, r := range []*Record{stored, memory} {
		require.NoError(t, r.SetWarnings(3, []Warning{{"third", "three"}}))
		require.NoError(t, r.SetWarnings(0, []Warning{{"set", "all"}}))
	}
	require.Equal(t, stored.Manifest(), memory.Manifest())
	require.Equal(t, runsOf(t, stored), runsOf(t, memory))
	for _, read := range []func(r *Record) (any, error){
		func(r *Record) (any, error) { return r.Windows(7) },
		func(r *Record) (any, error) { return r.HostSamples(7) },
		func(r *Record) (any, error) { return r.Histograms(7) },
		func(r *Record) (any, error) { return r.Windows(3) },
		func(r *Record) (any, error) { return r.Warnings(context.Background()) },
	} {
		want, err := read(stored)
		require.NoError(t, err)
		got, err := read(memory)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.ErrorIs(t, memory.Add(Run{State: Complete, Point: 9}), ErrReadOnly)
}
