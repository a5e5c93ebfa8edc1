// Package driver makes loads with other people's generators: memtier_benchmark, where it is installed. The result is that
// of package load, so that whatever reads the one reads the other, and [Compare] tells how far the two agree.
//
//	load.Options -> memtier's flags -> a process -> its JSON, by package memtier -> load.Result
package driver
