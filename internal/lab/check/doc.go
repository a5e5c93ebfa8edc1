// Package check says whether measurements are plausible: it checks the runs of a record against laws that every system
// obeys, for steady state, and for conditions such as a load generator that was not the limit. It is pure, except for
// Record.
//
// Each check takes a run, or all runs of a set, and returns a warning for every violation. Checks whose input a run doesn't
// have are skipped. A warning does not mean that the system is at fault: the laws hold for every system, so a violated law
// means that something was measured wrongly, or that the parts didn't see the same requests.
//
// The laws are those of operational analysis: P. J. Denning and J. P. Buzen, "The operational analysis of queueing network
// models", ACM Computing Surveys 10 (1978); R. Jain, "The Art of Computer Systems Performance Analysis", Wiley 1991, chapter 33.
//
// docs/checks.md explains the codes, the limits and the reasons for them.
package check
