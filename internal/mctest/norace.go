//go:build !race

package mctest

// Race: the race detector is off.
const Race = false
