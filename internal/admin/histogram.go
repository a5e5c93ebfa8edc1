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
var metricBounds = []int64{ // ns
	10e3, 50e3, 100e3, 200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 20e6, 50e6, 100e6, 200e6, 500e6, 1e9, 2.5e9, 10e9,
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
	var below uint64
	for i, n := range h.Between(metricBounds)[:len(metricBounds)] {
		below += n
		classic[time.Duration(metricBounds[i]).Seconds()] = below
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
