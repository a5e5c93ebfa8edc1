// Package stats records where the time of every request goes.
//
// Each worker owns one *Worker recorder and is its only writer; counters are atomics, so that a reader may take a
// Snapshot at any time without a lock. A worker writes to its journal and counts what is there from time to time; a
// Snapshot has both, and what it has of a request it has in every place. Histograms have fixed boundaries (see Histogram); all multiples of 100 us from
// 0 to 200 ms are among them. All times are monotonic nanoseconds as Now returns them.
package stats
