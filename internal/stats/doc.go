// Package stats records where the time of every request goes.
//
// Each worker owns one *Worker recorder and is its only writer; counters are atomics, so that a reader may take a
// Snapshot at any time without a lock. A worker appends to its journal and moves the entries to its counters in bulk. A
// Snapshot reads both; it counts each request either in all counters or in none. Histograms have fixed boundaries (see
// Histogram), among them all multiples of 100 us from 0 to 200 ms. All times are monotonic nanoseconds as returned by Now.
package stats
