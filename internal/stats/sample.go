package stats

import (
	"context"
	"sync/atomic"
	"time"
)

// SamplePeriod is the time between two samples of the numbers of requests that wait and that are in service.
const SamplePeriod = 10 * time.Millisecond

// samples holds the sums of all samples, so that the mean over any window follows from two differences. Sample writes
// it.
type samples struct {
	count, waiting, serving atomic.Uint64
}

// Sample takes one sample of the numbers of requests that wait in the queue and that are in service. Only one goroutine
// at a time may call it.
func (r *Registry) Sample() {
	// Of the requests that arrive while the workers are read, half are counted.
	abandoned, before := r.net.Load().Abandoned, r.net.arrived()
	r.mu.RLock()
	taken, answered := r.progress()
	r.mu.RUnlock()
	after := r.net.arrived()
	r.samples.waiting.Add(uint64(max(int64(before+(after-before)/2-abandoned-taken), 0)))
	r.samples.serving.Add(uint64(max(int64(taken-answered), 0)))
	r.samples.count.Add(1)
}

// KeepSampling samples every SamplePeriod until ctx is done.
func (r *Registry) KeepSampling(ctx context.Context) {
	tick := time.NewTicker(SamplePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.Sample()
		}
	}
}

// progress returns the numbers of requests that were taken from the queue, and that were answered.
func (r *Registry) progress() (taken, answered uint64) {
	for _, w := range r.workers {
		answered += w.answered.Load()
		taken += w.taken.Load()
	}
	return taken, answered
}
