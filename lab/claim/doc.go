// Package claim decides key findings of reports from records of the repeated experiments.
//
//	claims.yaml -> Parse -> claims -> Decide(evidence) -> verdicts, with their numbers
//
// A claim has a rule about records: whether a line of throughput converges to a range, where it saturates, the ratio of
// two points, a factor's share of the variation, the order of such shares, the error of a queueing model near saturation and away from
// it, the interactive law, or the bottleneck of a point. docs/results/paper.md describes the rules.
//
// Only valid runs count: those without violations of the checks in invalid. Runs that saturated the processors of the machine that
// emulates the others decide no claim about throughput or time: they show the limit of the emulation.
package claim
