//go:build race

package mctest

// Race: the race detector is on. It allocates, and makes sync.Pool drop objects, so memory isn't measured.
const Race = true
