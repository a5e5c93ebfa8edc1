// Package collect makes a run of the record from the outputs of a run's programs.
//
//	load results (JSON)        -> clients: results, windows, histograms; and when the measured window was
//	statistics logs (lines)    -> middlewares and servers: results, windows, histograms
//	samples of hosts (lines)   -> processor time and network of hosts and processes
//
// The measured window begins when the last load process has begun to record and ends when the first has ended. From the
// other outputs the part inside it counts: windows of the statistics logs, those at its ends in proportion; differences of
// samples. A run in the record has base units, especially seconds; the outputs are kept unchanged in the record's raw
// directory, so that this can be repeated.
package collect
