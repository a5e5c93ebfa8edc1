// Package compare compares two records point by point, before and after a change. It is pure.
//
//	runs of A, runs of B -> New: points matched by their factors -> per point and metric: both samples, the change with its interval,
//	effect size and tests -> WriteText, JSON, and Judge for conditions such as "throughput < -5%"
//
// A sample is a metric's values in the repetitions of a point. A change is the ratio of the means, B to A, less 1: 0.1 is 10
// % more. Whether more is better is up to the reader.
package compare
