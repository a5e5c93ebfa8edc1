// Package stats records how long each request takes in each stage, and counts everything that the metrics show.
//
// Each worker owns one *Worker and records there without a lock what it does. When it answers a client, and at the end
// of a round, it adds that to its counts under the lock of the *Worker, which a Snapshot also takes. So a Snapshot has
// each request in all counts or in none, and a request of a client sees those before it counted. A worker waits for a
// Snapshot at most as long as that takes to add up the counts of one worker: some 20 us, and 1 us per server.
//
// Histograms have fixed boundaries (see Bound), which include all multiples of 100 us from 0 to 200 ms. All times are
// monotonic nanoseconds as returned by Now.
package stats
