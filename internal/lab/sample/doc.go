// Package sample has the statistics of repeated measurements. It is pure: functions of numbers, in whatever unit these have.
//
// # From requests to a statement
//
//  1. What requests took is summed up where it is measured: a count, a mean and a sum of squares (Moments), and a histogram
//     (Histogram). Windows, threads and processes are put together by their merge, which equals computing it all at once.
//  2. Whether a run was in steady state is asked of its windows (Trend).
//  3. A run gives one number per metric. The numbers of the repetitions are the sample from which intervals are made
//     (MeanInterval); windows of one run and requests are not independent of each other, and would make them too narrow.
//  4. Two sets of runs are compared by the interval of their difference and ratio (Welch, RatioInterval), by ranks where nothing is known
//     of the distribution (MannWhitney), and by how large the difference is against the spread (EffectSize).
//
// What a sample is too small for is NaN, or an interval without ends: never a number that looks like knowledge.
//
// Symbols: n number of values; x their mean; s their standard deviation with n-1 in the denominator; t[p; v] the p-quantile of
// Student's distribution with v degrees of freedom; z[p] that of the normal distribution. "Jain" is R. Jain, "The Art of
// Computer Systems Performance Analysis", Wiley 1991.
package sample
