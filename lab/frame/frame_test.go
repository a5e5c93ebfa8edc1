package frame_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/frame"
	"mcmw/lab/record"
)

func run(state record.State, throughput float64, factors map[string]string) record.Run {
	return record.Run{
		State: state, Factors: factors,
		Results: []record.Value{{Source: record.SourceClient, Metric: "throughput", Value: throughput}},
	}
}

func levels(workers, depth string) map[string]string {
	return map[string]string{"workers": workers, "depth": depth}
}

func TestRunsAreGroupedByTheLevelsOfTheirFactors(t *testing.T) {
	runs := []record.Run{
		run(record.Complete, 10, levels("8", "1")), run(record.Complete, 30, levels("64", "1")),
		run(record.Failed, 5, levels("8", "1")), run(record.Complete, 12, levels("8", "1")),
	}
	f := frame.Of(runs, 0.95)
	require.Len(t, f.Points, 2)
	first := f.Points[0]
	require.Equal(t, levels("8", "1"), first.Levels)
	require.Len(t, first.Failed, 1)
	require.Equal(t, []float64{10, 12}, first.Values(record.SourceClient, "throughput"), "without the failed run")
	require.Equal(t, 11.0, first.Estimate(record.SourceClient, "throughput").Mean)
	require.False(t, first.Estimate(record.SourceClient, "misses").OK())
	require.Len(t, f.Runs(), 3)

	merged := frame.By(runs, []string{"depth"}, 0.95)
	require.Len(t, merged.Points, 1)
	require.Equal(t, map[string]string{"depth": "1"}, merged.Points[0].Levels)
	require.Equal(t, []float64{10, 30, 12}, merged.Points[0].Values(record.SourceClient, "throughput"))
}

func TestAFailedRunCountsAsTriedIfItsPointHasNoOther(t *testing.T) {
	f := frame.Of([]record.Run{
		run(record.Failed, 1, levels("8", "1")), run(record.Complete, 2, levels("8", "1")),
		run(record.Failed, 3, levels("64", "1")),
	}, 0.95)
	tried := f.Tried()
	require.Len(t, tried, 2)
	require.Equal(t, []record.State{record.Complete, record.Failed}, []record.State{tried[0].State, tried[1].State})
}

func TestWhereRefusesUnknownFactorsAndLevels(t *testing.T) {
	f := frame.Of([]record.Run{run(record.Complete, 1, levels("64", "1")), run(record.Complete, 1, levels("8", "1"))},
		0.95)
	some, err := f.Where(map[string]string{"workers": "8"})
	require.NoError(t, err)
	require.Len(t, some.Points, 1)
	require.Len(t, f.Points, 2)
	_, err = f.Where(map[string]string{"worker": "8"})
	require.EqualError(t, err, `there is no factor "worker": expected one of depth, workers`)
	_, err = f.Where(map[string]string{"workers": "9"})
	require.EqualError(t, err, `factor workers has no level "9": expected one of 8, 64`)
}

func TestLinesAndTheirPointsAreInTheOrderOfTheirLevels(t *testing.T) {
	var runs []record.Run
	for _, depth := range []string{"10ms", "5ms"} {
		for _, workers := range []string{"64", "8", "128"} {
			runs = append(runs, run(record.Complete, 1, levels(workers, depth)))
		}
	}
	var got []string
	for _, l := range frame.Of(runs, 0.95).Lines("workers", []string{"depth"}) {
		for _, p := range l.Points {
			got = append(got, l.Levels["depth"]+" "+p.Levels["workers"])
		}
	}
	require.Equal(t, []string{"5ms 8", "5ms 64", "5ms 128", "10ms 8", "10ms 64", "10ms 128"}, got)
}

func TestAMetricHasASource(t *testing.T) {
	for text, want := range map[string]frame.Metric{
		"client.throughput":                {Source: "client", Name: "throughput"},
		"throughput":                       {Source: "middleware", Name: "throughput"},
		"server:10.0.0.1:11211.throughput": {Source: "server:10.0.0.1:11211", Name: "throughput"},
	} {
		got, err := frame.ParseMetric(text, "middleware")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "throughput", ".throughput", "client.", "client.speed"} {
		_, err := frame.ParseMetric(text, "")
		require.EqualError(t, err, fmt.Sprintf("%q: expected a source and a metric such as client.response_time_p99",
			text))
	}
}

func TestTheInteractiveLawNeedsAClosedLoop(t *testing.T) {
	r := run(record.Complete, 100, map[string]string{"clients": "8", "pipeline": "2", "think_time": "10ms"})
	l, ok := frame.LoopOf(r)
	require.True(t, ok)
	require.Equal(t, frame.Loop{N: 16, Z: 0.01}, l)
	require.InDelta(t, 0.15, l.ResponseTime(100), 1e-12)
	require.InDelta(t, 100, l.Throughput(0.15), 1e-9)
	_, _, ok = frame.ByLaw(r, record.SourceClient)
	require.False(t, ok, "no response time was measured")
	r.Results = append(r.Results, record.Value{Source: record.SourceClient, Metric: "response_time_mean", Value: 0.16})
	predicted, measured, ok := frame.ByLaw(r, record.SourceClient)
	require.True(t, ok)
	require.InDelta(t, 0.01, measured-predicted, 1e-12)

	r.Factors["rate"] = "1000"
	_, ok = frame.LoopOf(r)
	require.False(t, ok, "an open loop")
}
