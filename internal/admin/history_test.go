package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

func times(net, queue, worker, server, reply time.Duration) *stats.Times {
	t := &stats.Times{Enqueued: int64(net)}
	t.Dequeued = t.Enqueued + int64(queue)
	t.Sent = t.Dequeued + int64(worker)
	t.Received = t.Sent + int64(server)
	t.Replied = t.Received + int64(reply)
	return t
}

// snapshotAt returns a snapshot that was taken at the given time.
func snapshotAt(r *stats.Registry, at time.Duration) *stats.Snapshot {
	s := r.Snapshot()
	s.At = int64(at)
	return s
}

func TestAPointCoversTheTimeSinceThePreviousOne(t *testing.T) {
	r := stats.New(stats.Options{Servers: []string{"a"}, Workers: 1})
	request := func() {
		r.Worker(0).Request(protocol.Get, stats.ResultOK, 1, 1, times(1, 2, 3, 4, 5))
		r.Net().Opened()
	}
	request()
	h := newHistory(snapshotAt(r, 10*time.Second))
	for i := range 3 {
		for range i {
			request()
		}
		h.add(time.UnixMilli(int64(1700000000000+i)), snapshotAt(r, time.Duration(12+2*i)*time.Second))
	}

	points, latest := h.now.Load().after(0), h.now.Load().latest()
	require.Len(t, points, 3)
	for i, p := range points {
		require.EqualValues(t, i+1, p.Sequence)
		require.EqualValues(t, 1700000000000+i, p.Time)
		require.EqualValues(t, i, p.Count)
		require.InDelta(t, float64(i)/2, p.Rate, 1e-9)
	}
	require.EqualValues(t, 4, points[2].Open, "gauges are those of the point's end")
	require.Equal(t, int64(16*time.Second), latest.At)
}

func TestASecondWithoutRequestsIsAPointOfZeros(t *testing.T) {
	r := stats.New(stats.Options{Servers: []string{"a"}, Workers: 1})
	h := newHistory(snapshotAt(r, 0))
	h.add(time.UnixMilli(1), snapshotAt(r, time.Second))
	points := h.now.Load().after(0)
	require.Equal(t, []Point{{Sequence: 1, Time: 1, Summary: Summary{
		Hist: make([]uint64, len(HistBounds())+1), Servers: []ServerLoad{{Name: "a"}},
	}}}, points)
}

func TestAPointNamesTheServersOfItsTime(t *testing.T) {
	r := stats.New(stats.Options{Servers: []string{"a", "b"}, Workers: 1})
	h := newHistory(snapshotAt(r, 0))
	r.Worker(0).Server(1, 1000)
	r.Worker(0).Flush()
	h.add(time.UnixMilli(1), snapshotAt(r, time.Second))
	r.Change(stats.Options{Servers: []string{"b"}, Workers: 1})
	h.add(time.UnixMilli(2), snapshotAt(r, 2*time.Second))
	points, latest := h.now.Load().after(0), h.now.Load().latest()
	require.Equal(t, "b", latest.Servers[0].Name)
	require.Equal(t, "a", points[0].Servers[0].Name)
	require.Equal(t, "b", points[0].Servers[1].Name)
	require.InDelta(t, 1, points[0].Servers[1].Rate, 1e-9)
	require.Equal(t, "b", points[1].Servers[0].Name)
}

func TestTheHistoryKeepsTheNewestTwoMinutesInOrder(t *testing.T) {
	r := stats.New(stats.Options{Workers: 1})
	h := newHistory(snapshotAt(r, 0))
	empty := h.now.Load().after(0)
	require.NotNil(t, empty, "no points are an empty list, not null")
	const added = 2*historyLength + 7
	for i := 1; i <= added; i++ {
		h.add(time.UnixMilli(int64(i)), snapshotAt(r, time.Duration(i)*time.Second))
	}
	for _, c := range []struct {
		after int64
		first int64
		count int
	}{
		{0, added - historyLength + 1, historyLength},
		{added - historyLength - 1, added - historyLength + 1, historyLength},
		{added - historyLength, added - historyLength + 1, historyLength},
		{added - 5, added - 4, 5},
		{added - 1, added, 1},
	} {
		points := h.now.Load().after(c.after)
		require.Len(t, points, c.count, "after %d", c.after)
		for i, p := range points {
			require.Equal(t, c.first+int64(i), p.Sequence, "after %d", c.after)
			require.Equal(t, p.Sequence, p.Time)
		}
	}
	for _, after := range []int64{added, added + 1} {
		points := h.now.Load().after(after)
		require.Empty(t, points)
	}
}
