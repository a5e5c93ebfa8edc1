// Package bench says which of several systems is faster, from runs that were made in turns.
//
//	Find   what an argument of `mcmwlab bench` names: a program, a revision of the repository, or a known system
//	Build  the programs that don't exist yet: revisions, and the floors (floor/floor.c, gofloor.go)
//	Judge  runs -> the ratios of each system to the first under each load, with verdicts
package bench
