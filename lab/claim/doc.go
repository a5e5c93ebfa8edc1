// Package claim decides the findings of reports from records of the repeated experiments.
//
//	reports/NAME.yaml -> Parse -> findings, with conditions -> Decide(evidence) -> verdicts, with their numbers
//
// Only valid runs count: those without violations of the checks in invalid. Runs that saturated the processors of the
// machine that emulates the others decide no finding about throughput or time: they show the limit of the emulation.
package claim
