package admin

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

func TestASummaryHoldsTheRatesAndMeansOfItsWindow(t *testing.T) {
	r := stats.New(stats.Options{
		Servers: []string{"a", "b"}, Workers: 4,
		Queues: []stats.Queue{{Name: "shared", Capacity: 8, Length: func() int { return 5 }}},
	})
	w := r.Worker(2)
	w.Request(protocol.Get, stats.ResultServerError, 1, 0, times(time.Second, 0, 0, 0, 0)) // before the window
	before := r.Snapshot()

	us := time.Microsecond
	for range 100 {
		w.Request(protocol.Get, stats.ResultPartial, 4, 3, times(us, 20*us, 3*us, 40*us, 5*us))
		w.Server(0, int64(40*us))
	}
	w.Request(protocol.Set, stats.ResultServerError, 1, 0, times(us, 20*us, 3*us, 40*us, 5*us))
	w.ServerError(1, stats.ReasonTimeout)
	w.Bytes(1000, 3000)
	w.Begin(0)
	w.Round(101, int64(time.Second))
	r.Net().Arrivals().Hot(20, 0, 200, 600)
	after := r.Snapshot()
	after.At = before.At + int64(2*time.Second)

	s := Summarize(after.Sub(before))
	require.EqualValues(t, 101, s.Count)
	require.InDelta(t, 60.5, s.Rate, 1e-9)
	require.InDelta(t, 10, s.Hot, 1e-9)
	require.InDelta(t, 0.5, s.Errors, 1e-9)
	require.InDelta(t, 210, s.Keys, 1e-9)
	require.InDelta(t, 50, s.Misses, 1e-9)
	require.InDelta(t, 600, s.Received, 1e-9)
	require.InDelta(t, 1800, s.Sent, 1e-9)
	require.InDelta(t, 101, s.Batch, 1e-9)
	require.InDelta(t, 101*20e-6/2, s.Waiting, 1e-9)
	require.Equal(t, 5, s.Batches)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(text), `"batches":5,"bursts":5`, "the previous name stays")
	require.InDelta(t, 0.5, s.Busy, 1e-9)
	require.InDelta(t, 69e3, s.Mean, 1e-6)
	require.InDelta(t, 69.5e3, s.P50, 510)
	require.InDelta(t, 69.9e3, s.P90, 510)
	require.InDelta(t, 70e3, s.P99, 510)
	require.InDelta(t, 70e3, s.P999, 510)
	require.Equal(t, [stats.NumStages]float64{1e3, 20e3, 3e3, 40e3, 5e3}, s.Stages)
	require.InDelta(t, 50, s.Classes[stats.ClassMultiGet].Rate, 1e-9)
	require.InDelta(t, 0.5, s.Classes[stats.ClassSet].Rate, 1e-9)
	require.InDelta(t, 50, s.Servers[0].Rate, 1e-9)
	require.InDelta(t, 40e3, s.Servers[0].Mean, 1e-6)
	require.InDelta(t, 41e3, s.Servers[0].P99, 10e3)
	require.InDelta(t, 0.5, s.Servers[1].Errors, 1e-9)
}

func TestNoMoreWorkersAreBusyThanThereAre(t *testing.T) {
	r := stats.New(stats.Options{Workers: 2})
	before := r.Snapshot()
	r.Worker(0).Begin(0)
	r.Worker(0).Round(1, int64(time.Hour)) // a round that began long before the window
	after := r.Snapshot()
	after.At = before.At + int64(time.Second)
	require.InDelta(t, 2, Summarize(after.Sub(before)).Busy, 1e-9)
}

func TestAWindowWithoutLengthHasFiniteRates(t *testing.T) {
	s := stats.New(stats.Options{Workers: 1}).Snapshot()
	require.Zero(t, Summarize(s.Sub(s)).Rate)
}

func TestHistBoundsAreBoundariesOfTheHistogram(t *testing.T) {
	bounds := HistBounds()
	require.Len(t, bounds, 61)
	require.EqualValues(t, 10*time.Microsecond, bounds[0])
	require.EqualValues(t, 10*time.Second, bounds[60])
	require.True(t, slices.IsSorted(bounds))
	bucket := 0
	for _, b := range bounds {
		for stats.Bound(bucket) < b {
			bucket++
		}
		require.Equal(t, b, stats.Bound(bucket), "%v", time.Duration(b))
	}
}
