//go:build race

package mctest

// Race: the race detector is at work. It allocates on its own and lets sync.Pool forget, so memory isn't measured.
const Race = true
