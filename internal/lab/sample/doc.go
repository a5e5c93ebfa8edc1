// Package sample has the statistics of repeated measurements. It is pure: functions of numbers, in whatever unit these have.
//
// # From requests to a conclusion
//
//  1. Requests are summarized where they are measured: a count, a mean and a sum of squares (Moments), and a histogram
//     (Histogram). Windows, threads and processes are merged, which equals computing everything at once.
//  2. Whether a run was in steady state is tested on its windows (Trend).
//  3. A run gives one number per metric. The numbers of the repetitions are the sample from which intervals are made
//     (MeanInterval); windows of one run and requests are not independent of each other, and would make them too narrow.
//  4. Two sets of runs are compared by the interval of their difference and ratio (Welch, RatioInterval), by ranks if the
//     distribution is unknown (MannWhitney), and by the difference relative to the spread (EffectSize).
//
// The result for too small a sample is NaN, or an unbounded interval, never a misleading number.
//
// Symbols: n number of values; x their mean; s their standard deviation with n-1 in the denominator; t[p; v] the p-quantile of
// Student's distribution with v degrees of freedom; z[p] that of the normal distribution. "Jain" is R. Jain, "The Art of
// Computer Systems Performance Analysis", Wiley 1991.
package sample
