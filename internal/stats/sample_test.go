package stats

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/mctest"
	"mcmw/internal/protocol"
)

func TestASampleCountsRequestsThatWaitAndThatAreInService(t *testing.T) {
	r := New(Options{Workers: 2})
	a, b := r.Net().Arrivals(), r.Net().Arrivals()
	a.Add(5)
	b.Add(7)
	r.Worker(0).Take(3)
	r.Worker(1).Take(1)
	r.Sample()
	r.Worker(1).Request(protocol.Get, ResultOK, 1, 1, &Times{})
	r.Net().Change(func(n *NetRecord) { n.Abandoned += 2 })
	r.Sample()

	s := r.Snapshot()
	require.EqualValues(t, 12, s.Arrived)
	require.EqualValues(t, 2, s.Samples)
	require.EqualValues(t, 8+6, s.SampledWaiting)
	require.EqualValues(t, 4+3, s.SampledServing)
	require.EqualValues(t, 6, s.Waiting())
	require.EqualValues(t, 3, s.Serving())
}

func TestSamplingContinuesUntilTheContextEnds(t *testing.T) {
	r := New(Options{Workers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var sampler sync.WaitGroup
	sampler.Go(func() { r.KeepSampling(ctx) })
	require.Eventually(t, func() bool { return r.Snapshot().Samples >= 3 }, mctest.Patience, mctest.Tick)
	cancel()
	sampler.Wait()
}

func TestRequestsAnsweredTogetherAreRecordedLikeSingleOnes(t *testing.T) {
	alone, together := New(Options{Servers: []string{"a"}, Workers: 1}),
		New(Options{Servers: []string{"a"}, Workers: 1})
	kinds := []struct {
		command protocol.Command
		result  Result
		keys    int
	}{
		{protocol.Get, ResultOK, 1},
		{protocol.Get, ResultMiss, 3},
		{protocol.Set, ResultOK, 1},
		{protocol.Set, ResultServerError, 1},
	}
	for i := range 1000 {
		k := kinds[i/3%len(kinds)]
		times := timesOf(time.Microsecond, 5*time.Microsecond, time.Duration(i/7), time.Duration(i/5*1000),
			time.Microsecond)
		times.Created = int64(i / 2)
		times.Enqueued = times.Created + 10
		alone.Worker(0).Request(k.command, k.result, k.keys, 0, times)
		alone.Worker(0).Server(0, int64(i/4))
		alone.Worker(0).Flush()
		together.Worker(0).Count(k.command, k.result, k.keys, 0, times)
		together.Worker(0).Server(0, int64(i/4))
		if i%32 == 31 {
			together.Worker(0).Flush()
		}
	}
	together.Worker(0).Flush()
	a, b := alone.Snapshot(), together.Snapshot()
	for _, s := range []*Snapshot{a, b} {
		s.At, s.Uptime, s.ProcessorTime = 0, 0, 0
	}
	require.Equal(t, a, b)
}

func TestRoundsAreCountedByPowersOfTwo(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 4096: 12, 4097: 13, 1 << 30: 13} {
		require.Equal(t, want, roundSizeOf(n), "%d requests", n)
		if want < NumRoundSizes-1 {
			require.LessOrEqual(t, uint64(n), RoundSizeBound(want))
		}
	}
}

func TestAHistogramIsCountedBetweenBounds(t *testing.T) {
	bounds := []int64{10_000, 12_000, int64(10 * time.Second)}
	h := histogramOf(9999, 10000, 11999, 12000, 10*time.Second, time.Minute)
	require.Equal(t, []uint64{1, 2, 1, 2}, h.Between(bounds))
	var empty Histogram
	require.Equal(t, make([]uint64, 4), empty.Between(bounds))
	require.Zero(t, empty.Low(1))
	for rank, want := range map[uint64]time.Duration{
		1: 9000, 2: 10_000, 3: 11_000, 4: 12_000, 5: 10 * time.Second,
		7: 0,
	} {
		require.EqualValues(t, want, h.Low(rank), "rank %d", rank)
	}
}

// threadTime returns the processor time that the calling thread has used. Other programs do not influence it.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(unix.RUSAGE_THREAD, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkRecordingARequest(b *testing.B) {
	r := New(Options{Servers: []string{"a"}, Workers: 1})
	w := r.Worker(0)
	arrivals := r.Net().Arrivals()
	for _, batch := range []int{1, 8, 32} {
		b.Run(map[int]string{1: "alone", 8: "of8", 32: "of32"}[batch], func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			times := timesOf(3*time.Microsecond, 20*time.Microsecond, 9*time.Microsecond, 45*time.Microsecond,
				6*time.Microsecond)
			used := threadTime(b)
			for n := 0; n < b.N; n += batch {
				arrivals.Add(batch)
				w.Begin(int64(n))
				w.Take(batch)
				w.Waited(0, 40_000)
				for range batch {
					w.Server(0, 45_000)
				}
				for range batch {
					w.Count(protocol.Get, ResultOK, 1, 1, times)
				}
				w.Flush()
				w.Bytes(batch*30, batch*100)
				w.Round(batch, int64(n+1))
			}
			b.ReportMetric(float64(threadTime(b)-used)/float64(b.N), "cpu-ns/op")
		})
	}
}
