// Package sample has the statistics of repeated measurements. It is pure: functions of numbers, in whatever unit these
// have.
//
// # From requests to a conclusion
//
//  1. Requests are summarized in histograms (Histogram). MergeHistograms adds up those of windows, threads and
//     processes.
//  2. The windows of a run show whether it was in steady state (TrendOf).
//  3. A run gives one number per metric. The numbers of its repetitions are the sample, summarized by Moments, from
//     which Estimate makes the mean with its interval. Single requests, or the windows of one run, would make it too
//     narrow: they are not independent.
//  4. Two samples are compared by the interval of the difference and the ratio of their means (Welch, Ratio), by ranks
//     if the distribution is unknown (MannWhitney), and by the difference relative to the spread (EffectSize).
//
// A sample that is too small gives NaN or an unbounded interval, never a misleading number.
//
// Symbols: n is the number of values; x their mean; s their standard deviation with n-1 in the denominator; t[p; v] the
// p-quantile of Student's distribution with v degrees of freedom. "Jain" is R. Jain, "The Art of Computer Systems
// Performance Analysis", Wiley 1991.
package sample
