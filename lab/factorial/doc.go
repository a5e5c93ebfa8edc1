// Package factorial analyses designed experiments: which factors affect a response, by how much, and with what
// confidence.
//
//  1. A [Design] has the responses: one [Cell] per combination of levels, with r repetitions each.
//  2. [Analyze] computes effects, sums of squares, shares of variation and confidence intervals of a two-level design,
//     full (2^k r) or fractional (2^(k-p) r), with the sign table.
//  3. [Compare] decides whether the additive or the multiplicative model describes the design better, with reasons.
//  4. [Anova] computes the analysis of variance of a full design with any number of levels.
//
// Symbols are those of R. Jain, The Art of Computer Systems Performance Analysis (Wiley, 1991), chapters 17 to 23: q
// the effects, y the responses, SS the sums of squares, s_e the standard deviation of the errors, t the quantile of
// Student's distribution. An effect is half the difference between the means of the two levels.
//
// All functions are pure. Responses can have any unit; effects have the same unit, sums of squares its square,
// and variations are ratios from 0 to 1.
package factorial
