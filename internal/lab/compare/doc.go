// Package compare puts two records side by side: the same points, before and after a change. It is pure.
//
//	runs of A, runs of B -> New: points matched by their factors -> per point and metric: both samples, the change with its interval,
//	effect size and tests -> WriteText, JSON, and Judge for conditions such as "throughput < -5%"
//
// A sample is what a metric came to in the repetitions of a point. A change is one of the means, B to A, as a ratio: 0.1 is
// 10 % more. Whether more is better is for the reader to know.
package compare
