// Package experiment reads experiments from files and says which runs they consist of.
//
//	YAML file -> Parse (strict; all problems with their lines) -> Experiment: points, repetitions, phases
//	Experiment -> Schedule -> one Slot after the other: which point, which repetition
//
// A point is one combination of levels: every setting of the system and of the load has a value. A full factorial design has a
// point for every combination of the factors' levels, a fractional one (2^(k-p), Jain, The Art of Computer Systems Performance
// Analysis, chapter 19) for some of them, and a listed one has the points that the file gives.
//
// The order of the runs depends on the file alone, so that an experiment that was interrupted goes on where it was.
//
// The package does nothing but compute. Where an experiment runs is up to package testbed.
package experiment
