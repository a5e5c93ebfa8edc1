//go:build !race

package mctest

// Race: the race detector is not at work.
const Race = false
