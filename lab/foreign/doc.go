// Package foreign imports measurements of other programs into records: the outputs of memtier_benchmark (decoded by
// package memtier), of memaslap ([ParseMemaslap]) and of dstat ([ParseDstat]).
//
// Values are in base units. Values that an output doesn't have are NaN or missing.
package foreign
