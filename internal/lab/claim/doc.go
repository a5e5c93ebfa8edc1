// Package claim decides key findings of reports from records of the reports' experiments, made again.
//
//	claims.yaml -> Parse -> claims -> Decide(evidence) -> verdicts, with the numbers they rest on
//
// A claim has a rule, a small language over records: whether a line of throughput converges to a range, where it saturates, the ratio of
// two points, a factor's share of the variation, the order of such shares, the error of a queueing model near saturation and away from
// it, the interactive law. docs/results/paper.md describes it.
//
// Only runs that violate no check which makes a run worthless count (see invalid). A claim about throughput or time isn't decided by runs in which the
// processors of the machine that emulates all others were used up: what they show is the limit of the emulation.
package claim
