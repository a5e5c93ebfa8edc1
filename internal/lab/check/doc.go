// Package check says whether measurements can be believed: it holds the runs of a record to laws that every system obeys, to
// steadiness, and to conditions such as a load generator that was not the limit. It is pure, but for Record.
//
// Each check takes a run, or all runs of a set, and returns a warning for what is violated. What a check needs and the run
// doesn't have is not checked. A warning is no proof that the system is at fault: the laws hold for every system, so
// a violated law says that something was measured wrongly, or that the parts didn't see the same requests.
//
// The laws are those of operational analysis: P. J. Denning and J. P. Buzen, "The operational analysis of queueing network
// models", ACM Computing Surveys 10 (1978); R. Jain, "The Art of Computer Systems Performance Analysis", Wiley 1991, chapter 33.
//
// docs/checks.md has the codes, the limits and the reasons for these for whoever reads a warning.
package check
