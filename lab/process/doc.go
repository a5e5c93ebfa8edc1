// Package process runs the programs that the lab measures, memcached, mcmw and others. Each has an address of its own,
// is stopped in order and is never left behind.
package process
