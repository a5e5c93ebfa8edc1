// Package stats records how long each request takes in each stage, and counts everything that the metrics show.
//
// Each worker owns one *Worker recorder and is its only writer. Counters are atomic, so that a reader may take a
// Snapshot at any time without stopping the workers. A worker appends to its journal and adds the entries to its
// counters in bulk. A Snapshot reads both, and counts each request in all counters or in none. Histograms have fixed
// boundaries (see Bound), which include all multiples of 100 us from 0 to 200 ms. All times are monotonic nanoseconds
// as returned by Now.
package stats
