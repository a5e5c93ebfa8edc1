// Package capacity finds the highest load within a quality of service: how far a factor of an experiment, such as the number of clients, can be
// raised until a metric, such as the 99th percentile of the response time, is no longer below a limit.
//
//  1. Find groups the complete runs of a record into lines: the combinations of the other factors' levels.
//  2. Every level of the raised factor gets a verdict from its repetitions: it holds, it breaks, or it is undecided.
//  3. The highest load of a line is the highest level such that it and all lower ones hold.
//
// It is pure.
package capacity
