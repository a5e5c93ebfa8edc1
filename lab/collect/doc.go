// Package collect makes a run of a record from the outputs of the run's programs.
//
//	load results (JSON)        -> clients: results, windows, histograms; and when the measured window was
//	statistics logs (lines)    -> middlewares and servers: results, windows, histograms
//	samples of hosts (lines)   -> processor time and network of hosts and processes
//
// The measured window begins when the last load process begins to record and ends when the first one ends. Of the other
// outputs only the part inside it counts: windows of the statistics logs that are partly inside count in proportion,
// counters of the samples by their growth in it. Values are in base units, times in seconds. The record's raw directory
// keeps the unchanged outputs, so that a run can be collected again.
package collect
