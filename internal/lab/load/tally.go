package load

import (
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Geometry of the latency histograms, ns: any latency up to an hour, to three decimal digits.
const (
	maxLatency    = int64(time.Hour)
	latencyDigits = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, latencyDigits) }

// record adds a latency to a histogram; one beyond its range counts as the greatest it can hold.
func record(h *hdrhistogram.Histogram, latency int64) {
	// The only error is a value out of range, which this value isn't.
	_ = h.RecordValue(min(max(latency, 1), maxLatency))
}

type counts struct {
	requests uint64 // complete replies, errors included
	keys     uint64 // asked for, in requests that were not answered by an error
	hits     uint64 // of keys
	failures uint64 // replies that are an error text
	latency  int64  // sum over requests, ns
}

func (c *counts) add(d *counts) {
	c.requests += d.requests
	c.keys += d.keys
	c.hits += d.hits
	c.failures += d.failures
	c.latency += d.latency
}

// traffic counts the bytes of the sockets.
type traffic struct {
	in, out uint64
}

// liveCounts are a thread's totals since the start, which it publishes for others now and then.
type liveCounts struct {
	requests, keys, hits, failures, in, out atomic.Uint64
}

// publish is called by the thread alone.
func (l *liveCounts) publish(commands *[numCommands]counts, t traffic) {
	var total counts
	for i := range commands {
		total.add(&commands[i])
	}
	l.requests.Store(total.requests)
	l.keys.Store(total.keys)
	l.hits.Store(total.hits)
	l.failures.Store(total.failures)
	l.in.Store(t.in)
	l.out.Store(t.out)
}
