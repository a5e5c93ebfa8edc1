// Package memtier reads what memtier_benchmark writes: its text ([ParseText]) and its JSON ([ParseJSON]) with the
// latency histograms in it.
//
// Values come in base units: seconds, bytes, operations per second, shares from 0 to 1. memtier's KB are 1024 bytes. What
// an output doesn't have is NaN, or missing.
package memtier
