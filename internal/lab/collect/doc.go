// Package collect makes a run of the record of what the programs of a run wrote.
//
//	load results (JSON)        -> clients: results, windows, histograms; and when the measured window was
//	statistics logs (lines)    -> middlewares and servers: results, windows, histograms
//	samples of hosts (lines)   -> processor time and network of hosts and processes
//
// The measured window begins when the last load process has begun to record and ends when the first has ended. Of the others, what lies
// inside it counts: windows of the statistics logs, those at the ends by the part that lies inside; differences of samples. A run in the record has base units, seconds above all;
// the outputs stay as they came in the record's raw directory, so that this can be done again.
package collect
