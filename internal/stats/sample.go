package stats

import (
	"context"
	"sync/atomic"
	"time"
)

// SamplePeriod is the time between two samples of how many requests wait and are in service.
const SamplePeriod = 10 * time.Millisecond

// samples are sums of the samples, so that the mean over any window is a difference of sums. Written by Sample's caller.
type samples struct {
	count, waiting, serving atomic.Uint64
}

// Sample takes one sample of how many requests wait in the queue and how many are in service. It may be called by one
// goroutine at a time.
func (r *Registry) Sample() {
	// Requests arrive while the workers are read: count half of them.
	before, abandoned := r.net.arrived()
	r.mu.RLock()
	taken, answered := r.progress()
	r.mu.RUnlock()
	after, _ := r.net.arrived()
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

// progress returns how many requests were taken from the queue, and answered.
func (r *Registry) progress() (taken, answered uint64) {
	for _, w := range r.workers {
		answered += w.answered.Load()
		taken += w.taken.Load()
	}
	return taken, answered
}
