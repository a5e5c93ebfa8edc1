package admin

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"mcmw/internal/stats"
)

// metricBounds are the upper bounds of the buckets of the exported classic histograms. All of them are boundaries of
// stats.Histogram, so the exported counts are exact.
var metricBounds = []time.Duration{
	10 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 10 * time.Second,
}

// A native histogram's bucket i holds the times t, in seconds, with base^(i-1) < t <= base^i, where base =
// 2^(2^-schema). With schema 3 there are 8 buckets per doubling, each 9 % wide.
//
// The recorded buckets have other boundaries. Each recorded bucket is always counted as a whole in the native bucket
// that contains its middle, so that the counts are integers and never decrease. A time is then at most half a recorded
// bucket away from the native bucket that counts it: 0.5 us below 100 us, 5 us below 10 ms, 50 us below 200 ms, and 3 %
// beyond. A quantile of the native histogram is off by at most this plus the width of a native bucket.
const (
	nativeSchema = 3
	// nativeZero is the upper bound of the zero bucket in seconds. It is that of the first recorded bucket, so the
	// count is exact.
	nativeZero = 1e-6
)

// nativeIndex is the native bucket of each recorded bucket except the first.
var nativeIndex = func() (index [stats.NumBuckets]int) {
	for i := 1; i < stats.NumBuckets; i++ {
		middle := stats.Bound(i)
		if i+1 < stats.NumBuckets {
			middle += (stats.Bound(i+1) - middle) / 2
		}
		index[i] = int(math.Ceil(math.Log2(time.Duration(middle).Seconds()) * (1 << nativeSchema)))
	}
	return index
}()

// bothHistogram is a metric that is both a classic and a native histogram of the same times.
type bothHistogram struct {
	classic, native prometheus.Metric
}

// Desc implements prometheus.Metric.
func (b *bothHistogram) Desc() *prometheus.Desc { return b.native.Desc() }

// Write implements prometheus.Metric.
func (b *bothHistogram) Write(out *dto.Metric) error {
	var classic dto.Metric
	if err := b.classic.Write(&classic); err != nil {
		return err
	}
	if err := b.native.Write(out); err != nil {
		return err
	}
	out.Histogram.Bucket = classic.Histogram.Bucket
	return nil
}

// bothHistograms returns h, which counts since created, as both a classic and a native histogram.
func bothHistograms(d *prometheus.Desc, h *stats.Histogram, created time.Time, labels ...string) prometheus.Metric {
	classic := make(map[float64]uint64, len(metricBounds))
	for _, b := range metricBounds {
		classic[b.Seconds()] = h.AtMost(int64(b))
	}
	var zero uint64
	native := map[int]int64{}
	for i, n := range h.Buckets() {
		if i == 0 {
			zero = n
		} else {
			native[nativeIndex[i]] += int64(n)
		}
	}
	count, sum := h.Count(), seconds(h.Sum())
	return &bothHistogram{
		classic: prometheus.MustNewConstHistogram(d, count, sum, classic, labels...),
		native: prometheus.MustNewConstNativeHistogram(d, count, sum, native, nil, zero, nativeSchema, nativeZero,
			created, labels...),
	}
}
