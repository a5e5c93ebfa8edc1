// Package foreign imports other programs' measurements into records: the outputs of memtier_benchmark (decoded by package
// memtier), of memaslap ([ParseMemaslap]) and of dstat ([ParseDstat]), and the experiments behind a report of 2018,
// directories of outputs of memtier and a middleware whose folders name the settings ([ReadTree]).
//
// Values come in base units; what an output doesn't have is NaN or missing.
package foreign
