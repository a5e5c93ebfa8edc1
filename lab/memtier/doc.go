// Package memtier reads the outputs of memtier_benchmark, its text ([ParseText]) and its JSON with latency histograms
// ([ParseJSON]). Where memtier_benchmark is installed it also runs a load with it ([Run]), whose result is one
// of package load.
//
//	load.Options -> memtier's flags -> a process -> its JSON -> load.Result
//
// Values are in base units: seconds, bytes, operations per second, shares from 0 to 1. memtier's KB are 1024 bytes. A
// value that an output lacks is NaN, or missing.
package memtier
