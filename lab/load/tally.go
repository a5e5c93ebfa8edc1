package load

import (
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Range of the latency histograms, ns: latencies up to an hour, with three significant digits.
const (
	maxLatency    = int64(time.Hour)
	latencyDigits = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, latencyDigits) }

// record adds a latency to a histogram. A latency outside the histogram's range counts as the nearest value in it.
func record(h *hdrhistogram.Histogram, latency int64) {
	_ = h.RecordValue(inRange(latency)) // the only possible error is a value out of range
}

// inRange returns the value in the range of the histograms that is nearest to a latency.
func inRange(latency int64) int64 { return min(max(latency, 1), maxLatency) }

type counts struct {
	requests uint64 // complete replies, errors included
	keys     uint64 // requested keys, except those of failed requests
	hits     uint64 // keys found
	failures uint64 // replies that are errors
	latency  int64  // sum over requests, ns
}

func (c *counts) add(d *counts) {
	c.requests += d.requests
	c.keys += d.keys
	c.hits += d.hits
	c.failures += d.failures
	c.latency += d.latency
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
