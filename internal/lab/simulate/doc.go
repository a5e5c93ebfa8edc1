// Package simulate runs queueing networks event by event: those that package queueing solves, as a check of both, and those that
// have no closed form: replicated writes that wait for several servers, workers that take several requests at a time,
// requests dealt out in turn, service times of any distribution, also of one that was measured.
//
//	System (stations, classes with their paths) -> program -> events in order of time -> batches -> Result
//
// A run depends on its seed alone. The means of consecutive batches of a run, long enough to be nearly independent, give the
// confidence intervals (R. Jain, "The Art of Computer Systems Performance Analysis" (1991), section 25.5.2); what comes
// before the first batch, the warm-up, is left out. Symbols and units are those of package queueing.
package simulate
