// Package stats records where the time of every request goes.
//
// Each worker owns one *Worker recorder and is its only writer; counters are atomics, so that a reader may take a
// Snapshot at any time without a lock. Histograms have fixed boundaries (see Histogram); all multiples of 100 us from
// 0 to 200 ms are among them. All times are monotonic nanoseconds as Now returns them.
package stats
