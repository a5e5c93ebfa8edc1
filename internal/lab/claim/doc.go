// Package claim decides key findings of reports from records of the repeated experiments.
//
//	claims.yaml -> Parse -> claims -> Decide(evidence) -> verdicts, with the numbers behind them
//
// A claim has a rule, a small language over records: whether a line of throughput converges to a range, where it saturates, the ratio of
// two points, a factor's share of the variation, the order of such shares, the error of a queueing model near saturation and away from
// it, the interactive law. docs/results/paper.md describes it.
//
// Only runs without a violated check that makes a run worthless count (see invalid). A claim about throughput or time isn't
// decided by runs that saturated the processors of the machine which emulates the others: they show the limit of the
// emulation.
package claim
