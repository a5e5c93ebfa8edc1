// Package driver makes loads with other people's generators: memtier_benchmark, where it is installed. The result is that
// of package load, so that whatever reads the one reads the other.
//
//	load.Options -> memtier's flags -> a process -> its JSON, by package memtier -> load.Result
package driver
