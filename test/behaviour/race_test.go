//go:build race

package behaviour_test

// raceEnabled: the race detector is at work. It allocates on its own and lets sync.Pool forget, so memory isn't measured.
const raceEnabled = true
