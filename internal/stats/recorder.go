package stats

import "sync/atomic"

// pageBuckets is the number of buckets allocated together: 1 KiB of counters. A histogram of 3,000 buckets of which a
// worker ever touches a few hundred then costs a few KiB instead of 25.
const pageBuckets = 128

const numPages = (NumBuckets + pageBuckets - 1) / pageBuckets

type page [pageBuckets]atomic.Uint64

// recorder is the histogram one worker writes. Single writer, any number of readers.
type recorder struct {
	pages [numPages]atomic.Pointer[page] // nil until the first time that falls into it
	sum   atomic.Uint64                  // ns
}

// record counts one time. It allocates only for the first time that falls into a page.
func (r *recorder) record(ns int64) {
	i := bucketOf(ns)
	p := r.pages[i/pageBuckets].Load()
	if p == nil {
		p = new(page)
		r.pages[i/pageBuckets].Store(p)
	}
	p[i%pageBuckets].Add(1)
	r.sum.Add(uint64(max(ns, 0)))
}

// addTo adds what was recorded so far to h.
func (r *recorder) addTo(h *Histogram) {
	for i := range r.pages {
		p := r.pages[i].Load()
		if p == nil {
			continue
		}
		if h.counts == nil {
			h.counts = make([]uint64, NumBuckets)
		}
		first := i * pageBuckets
		for j := range min(pageBuckets, NumBuckets-first) {
			n := p[j].Load()
			h.counts[first+j] += n
			h.count += n
		}
	}
	h.sum += r.sum.Load()
}
