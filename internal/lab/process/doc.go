// Package process runs the programs that the lab measures: memcached, mcmw and others, each on an address of its own,
// stopped in order and never left behind.
package process
