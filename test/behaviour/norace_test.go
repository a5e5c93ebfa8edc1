//go:build !race

package behaviour_test

const raceEnabled = false
