// Package foreign reads what other programs measured and takes it into records: the outputs of memtier_benchmark (decoded
// by package memtier), of memaslap ([ParseMemaslap]) and of dstat ([ParseDstat]), and the experiments behind a report of 2018,
// trees of memtier's and a middleware's outputs whose folders say the settings ([ReadTree]).
//
// Values come in base units; what an output doesn't have is NaN or missing.
package foreign
