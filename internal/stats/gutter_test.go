package stats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/stats"
)

func TestAWindowCountsTheRequestsThatWentToEachGutter(t *testing.T) {
	counts := []*stats.Sum[stats.Diverted]{{}, {}}
	r := stats.New(stats.Options{State: func(s *stats.Snapshot) {
		s.Gutters = []stats.GutterSnapshot{
			{Pool: "a", Gutter: "c", Diverted: counts[0].Load(), Away: 1, Open: 2},
			{Pool: "b", Gutter: "c", Diverted: counts[1].Load()},
		}
	}})
	counts[0].Add(stats.Diverted{Reads: 5, Writes: 1})
	before := r.Snapshot()
	counts[0].Add(stats.Diverted{Reads: 2})
	counts[1].Add(stats.Diverted{Writes: 7})
	require.Equal(t, []stats.GutterSnapshot{
		{Pool: "a", Gutter: "c", Diverted: stats.Diverted{Reads: 2}, Away: 1, Open: 2},
		{Pool: "b", Gutter: "c", Diverted: stats.Diverted{Writes: 7}},
	}, r.Snapshot().Sub(before).Gutters)
	require.Equal(t, uint64(7), r.Snapshot().Gutters[0].Reads)
}
