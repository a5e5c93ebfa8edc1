package load

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram is an HDR histogram in JSON, without empty buckets. Bucket i has the values from From[i] to less than
// To[i], ns. The width of a bucket is a power of 2, and at most a 1024th of its values.
type Histogram struct {
	From   []int64  `json:"from_ns"`
	To     []int64  `json:"to_ns"`
	Counts []uint64 `json:"counts"`
}

// newHistogramOf converts h.
func newHistogramOf(h *hdrhistogram.Histogram) *Histogram {
	r := &Histogram{From: []int64{}, To: []int64{}, Counts: []uint64{}}
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			r.From = append(r.From, bar.From)
			r.To = append(r.To, bar.To+1)
			r.Counts = append(r.Counts, uint64(bar.Count))
		}
	}
	return r
}

// NewHistogram returns a histogram of values in ns, where values[i] occurs counts[i] times.
func NewHistogram(values []int64, counts []uint64) *Histogram {
	return newHistogramOf((&Histogram{From: values, Counts: counts}).HDR())
}

// HDR returns the HDR histogram; values are ns.
func (h *Histogram) HDR() *hdrhistogram.Histogram {
	r := newHistogram()
	for i, value := range h.From {
		_ = r.RecordValues(inRange(value), int64(h.Counts[i]))
	}
	return r
}

// percentileTicks is the number of lines in a percentile file per halving of the distance to 100 %, as in memtier's
// files.
const percentileTicks = 5

// WritePercentiles writes the percentiles in the format of HdrHistogram's tools, ms: "Value Percentile TotalCount
// 1/(1-Percentile)".
func (h *Histogram) WritePercentiles(w io.Writer) error {
	_, err := h.HDR().PercentilesPrint(w, percentileTicks, float64(time.Millisecond))
	return err
}

// WriteLog writes a histogram log of one interval as memtier_benchmark does: values in us, and the interval's end where
// format 1.2 has its length.
func (h *Histogram) WriteLog(w io.Writer, title string, started time.Time, elapsed time.Duration) error {
	micros := hdrhistogram.New(1, maxLatency/int64(time.Microsecond), latencyDigits)
	for i, from := range h.From {
		// The middle of the bucket, so that rounding down does not reduce the mean.
		value := (from + h.To[i]) / 2 / int64(time.Microsecond)
		if err := micros.RecordValues(value, int64(h.Counts[i])); err != nil {
			return err
		}
	}
	encoded, err := micros.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return err
	}
	start, end := float64(started.UnixMilli())/1e3, float64(started.Add(elapsed).UnixMilli())/1e3
	_, err = fmt.Fprintf(w, `#[%s HDR latency histogram results]
#[Histogram log format version 1.2]
#[StartTime: %.3f (seconds since epoch), %s]
"StartTimestamp","EndTimestamp","Interval_Max","Interval_Compressed_Histogram"
%.3f,%.3f,%.1f,%s
`, title, start, started.UTC().Format(time.RFC1123), start, end, float64(micros.Max()), encoded)
	return err
}

// Range of the latency histograms, ns: latencies up to an hour, with three significant digits.
const (
	maxLatency    = int64(time.Hour)
	latencyDigits = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, latencyDigits) }

// distribution is a distribution of times, ns, with their exact sum. The zero value takes no times.
type distribution struct {
	h   *hdrhistogram.Histogram
	sum int64
}

func newDistribution() distribution { return distribution{h: newHistogram()} }

// record adds a time. A time outside the histogram's range counts as the nearest value in it.
func (d *distribution) record(ns int64) {
	d.sum += ns
	_ = d.h.RecordValue(inRange(ns)) // the only possible error is a value out of range
}

func (d *distribution) empty() bool { return d.h == nil || d.h.TotalCount() == 0 }

func (d *distribution) add(other *distribution) {
	if !other.empty() {
		d.h.Merge(other.h)
		d.sum += other.sum
	}
}

func (d *distribution) reset() {
	if !d.empty() {
		d.h.Reset()
		d.sum = 0
	}
}

// summary returns the summary; nil for the zero value.
func (d *distribution) summary() *Latency {
	if d.h == nil {
		return nil
	}
	if d.empty() {
		return &Latency{}
	}
	at := func(percentile float64) time.Duration { return time.Duration(d.h.ValueAtPercentile(percentile)) }
	return &Latency{
		Mean: time.Duration(d.sum / d.h.TotalCount()), Min: time.Duration(d.h.Min()),
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: time.Duration(d.h.Max()),
	}
}

// inRange returns the value in the range of the histograms that is nearest to a latency.
func inRange(latency int64) int64 { return min(max(latency, 1), maxLatency) }

type counts struct {
	requests uint64 // complete replies, errors included
	keys     uint64 // requested keys, except those of failed requests
	hits     uint64 // keys found
	failures uint64 // replies that are errors
}

func (c *counts) add(d *counts) {
	c.requests += d.requests
	c.keys += d.keys
	c.hits += d.hits
	c.failures += d.failures
}

// traffic counts the bytes over the sockets.
type traffic struct {
	in, out uint64
}

// liveCounts are a thread's totals since the start, which it publishes from time to time.
type liveCounts struct {
	requests, keys, hits, failures atomic.Uint64
}

// publish is called by the thread alone.
func (l *liveCounts) publish(commands *[numCommands]counts) {
	var total counts
	for i := range commands {
		total.add(&commands[i])
	}
	l.requests.Store(total.requests)
	l.keys.Store(total.keys)
	l.hits.Store(total.hits)
	l.failures.Store(total.failures)
}
