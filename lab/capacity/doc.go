// Package capacity finds the highest load within a quality of service: the highest level of a factor, such as the
// number of clients, up to which a metric, such as the 99th percentile of the response time, stays below a limit.
//
//  1. Find groups the complete runs of a record into lines: the combinations of the other factors' levels.
//  2. Every level of the raised factor gets a verdict from its repetitions: it holds, it breaks, or it is open.
//  3. The highest load of a line is the highest level for which it and all lower levels hold.
//
// It is pure.
package capacity
