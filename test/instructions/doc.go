// Package instructions compares the instructions that mcmw executes for a request with stored values, under valgrind's
// cachegrind. The round instructions of .ci/test sets MCMW_INSTRUCTIONS to check; with store the measured values become
// the stored ones, in testdata, a file for each version of Go and each architecture.
//
// What is counted is user mode alone: in the functions of mcmw, and in all, with the runtime and the libraries. Time
// costs instructions, too: mcmw asks servers in intervals, and the runtime looks for goroutines to run. So the
// instructions of few requests in a process that then idles are subtracted from those of many requests in a process as
// old, and the median of three such differences is judged.
//
// Spread of single differences in 4 runs on two processors that other programs used (a load average of 12): for 64
// connections all 1.0 %, of mcmw 0.4 %; replicated 0.9 % and 0.6 %; for one connection of mcmw 0.3 %, but all 6 %,
// because an idle runtime spins. So all is not judged for one connection.
package instructions
