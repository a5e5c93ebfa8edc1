// Package compare compares two records point by point, such as those from before and after a change. It is pure.
//
//	runs of A, runs of B -> New: points matched by their factors -> per point and metric: both samples, the change with its interval,
//	effect size and tests -> WriteText, JSON, and Judge for conditions such as "throughput < -5%"
//
// A sample has the values of a metric in the repetitions of a point. A change is the ratio of the means, B to A, minus
// 1: 0.1 is an increase by 10 %.
package compare
