// Package experiment reads experiment files and schedules their runs.
//
//	YAML file -> Read (with the file that it includes) -> Parse (strict; all problems with their lines) -> Experiment: points, repetitions, phases
//	Experiment -> Schedule -> one Slot after the other: which point, which repetition
//
// A point is one combination of levels: every setting of the system and of the load has a value. A full factorial
// design has a point for every combination of the factors' levels, a fractional design (2^(k-p), Jain, The Art of
// Computer Systems Performance Analysis, chapter 19) has some of these points, and a listed design has the points that
// the file lists.
//
// The order of the runs depends only on the file, so that an interrupted experiment continues with the same runs.
//
// The package only computes. Package testbed runs experiments.
package experiment
