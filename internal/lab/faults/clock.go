package faults

// errNoClock is why the wall clock of one process can't be set.
type errNoClock struct{ error }
