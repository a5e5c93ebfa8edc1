// Package check decides whether measurements are plausible. It checks the runs of a record against laws that hold for
// every system, for steady state, and for conditions, such as that the load generator was not the limit. It is pure,
// except for Record and RecordUnchecked.
//
// Each check takes a run, or all runs of a set, and returns a warning for every violation. A check is skipped if the
// run doesn't have its input. A warning does not blame the system: the laws hold for every system, so a violated law
// means that a measurement is wrong, or that the parts didn't count the same requests.
//
// The laws are those of operational analysis: P. J. Denning and J. P. Buzen, "The operational analysis of queueing
// network models", ACM Computing Surveys 10 (1978); R. Jain, "The Art of Computer Systems Performance Analysis", Wiley
// 1991, chapter 33.
//
// docs/checks.md explains the codes, the limits and their reasons.
package check
