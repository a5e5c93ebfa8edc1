// Package memtier reads what memtier_benchmark writes, its text ([ParseText]) and its JSON ([ParseJSON]) with the latency histograms in it,
// and runs a load with it where it is installed ([Program.Run]). That load's result is one of package load.
//
//	load.Options -> memtier's flags -> a process -> its JSON -> load.Result
//
// Values come in base units: seconds, bytes, operations per second, shares from 0 to 1. memtier's KB are 1024 bytes. What
// an output doesn't have is NaN, or missing.
package memtier
