package admin

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// native returns the counts of a native histogram by bucket.
func native(h *dto.Histogram) map[int]int64 {
	counts := map[int]int64{}
	bucket, n, delta := 0, int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		bucket += int(span.GetOffset())
		for range span.GetLength() {
			n += h.GetPositiveDelta()[delta]
			delta++
			counts[bucket] = n
			bucket++
		}
	}
	return counts
}

// responses records these response times, and returns their exported histogram.
func responses(t *testing.T, times ...time.Duration) *dto.Histogram {
	t.Helper()
	r := stats.New(stats.Options{Workers: 1})
	for _, d := range times {
		r.Worker(0).Request(protocol.Get, stats.ResultOK, 1, 1, &stats.Times{Replied: int64(d)})
	}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(newCollector(r, "v1")))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "mcmw_request_duration_seconds" {
			for _, m := range f.GetMetric() {
				if m.GetLabel()[0].GetValue() == "get" {
					return m.GetHistogram()
				}
			}
		}
	}
	t.Fatal("there is no histogram of gets")
	return nil
}

func TestAHistogramIsBothClassicAndNative(t *testing.T) {
	h := responses(t, 0, 999, 3*time.Microsecond, 3*time.Microsecond, 400*time.Microsecond, time.Second, time.Hour)
	require.EqualValues(t, 7, h.GetSampleCount())
	require.Len(t, h.GetBucket(), len(metricBounds))
	require.EqualValues(t, 4, h.GetBucket()[0].GetCumulativeCount(), "below 10 us")
	require.EqualValues(t, nativeSchema, h.GetSchema())
	require.InDelta(t, 1e-6, h.GetZeroThreshold(), 1e-18)
	require.EqualValues(t, 2, h.GetZeroCount(), "below 1 us")
	var sum int64
	for bucket, n := range native(h) {
		upper := math.Exp2(float64(bucket) / 8)
		lower := math.Exp2(float64(bucket-1) / 8)
		sum += n
		switch {
		case upper < 1e-5:
			require.True(t, lower < 3.5e-6 && 3.5e-6 <= upper)
			require.EqualValues(t, 2, n)
		case upper < 1e-2:
			require.True(t, lower < 405e-6 && 405e-6 <= upper)
		case upper < 10:
			require.True(t, lower < 1.05 && upper > 1)
		default:
			require.True(t, lower < 102.4*1.1 && upper >= 102.4)
		}
	}
	require.EqualValues(t, 5, sum)
}

// TestNativeBucketsAreAsExactAsDocumented checks every recorded bucket against the error that is documented at
// nativeSchema.
func TestNativeBucketsAreAsExactAsDocumented(t *testing.T) {
	seconds := func(ns int64) float64 { return time.Duration(ns).Seconds() }
	for i := 1; i < stats.NumBuckets-1; i++ {
		low, high := stats.Bound(i), stats.Bound(i+1)
		bound := float64(high-low) / 2 / 1e9
		switch {
		case low < int64(100*time.Microsecond):
			require.LessOrEqual(t, bound, 0.5e-6)
		case low < int64(10*time.Millisecond):
			require.LessOrEqual(t, bound, 5e-6)
		case low < int64(200*time.Millisecond):
			require.LessOrEqual(t, bound, 50e-6)
		default:
			require.LessOrEqual(t, bound, seconds(low)/32+1e-12)
		}
		lower, upper := math.Exp2(float64(nativeIndex[i]-1)/8), math.Exp2(float64(nativeIndex[i])/8)
		require.LessOrEqual(t, lower-bound-1e-12, seconds(low), "bucket %d", i)
		require.GreaterOrEqual(t, upper+bound+1e-12, seconds(high), "bucket %d", i)
		require.GreaterOrEqual(t, nativeIndex[i], nativeIndex[max(i-1, 1)])
	}
}

func TestAQuantileOfTheNativeHistogramIsWithinItsBucketOfTheTrueOne(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	times := make([]time.Duration, 20_000)
	for i := range times {
		times[i] = time.Duration(200e3 * math.Exp(random.NormFloat64()))
	}
	h := responses(t, times...)
	below := map[float64]int{}
	for bucket := range native(h) {
		upper := math.Exp2(float64(bucket) / 8)
		for _, d := range times {
			if d.Seconds() <= upper {
				below[upper]++
			}
		}
	}
	for bucket := range native(h) {
		upper := math.Exp2(float64(bucket) / 8)
		counted := int(h.GetZeroCount())
		for other, n := range native(h) {
			if other <= bucket {
				counted += int(n)
			}
		}
		// Times counted below the bound are below it, except times within half a recorded bucket of it.
		slack := 0
		for _, d := range times {
			if math.Abs(d.Seconds()-upper) <= 10e-6 {
				slack++
			}
		}
		require.InDelta(t, below[upper], counted, float64(slack), "up to %v", upper)
	}
}

func TestThereAreFewerThan650SeriesWithThreeServers(t *testing.T) {
	_, url := serve(t, Options{Control: new(stats.Control), Registry: stats.New(stats.Options{
		Servers: []string{"a", "b", "c"}, Workers: 8, Queues: []stats.Queue{{Name: "shared", Capacity: 1}},
		State: func(s *stats.Snapshot) {
			for i := range s.Servers {
				states := []stats.Transition{{To: "up"}, {To: "stale"}, {To: "down"}}
				s.Servers[i].Health = stats.Health{State: "up", Transitions: states}
			}
		},
	})})
	_, _, body := get(t, "GET", url+"/metrics")
	t.Logf("%d series", seriesIn(body))
	require.Less(t, seriesIn(body), 650)
	require.Greater(t, seriesIn(body), 400)
}
