package mctest

import "testing"

// Why tests are skipped under the race detector.
const (
	Allocates = "it counts allocations, and the race detector makes some"
	Measures  = "it measures memory, and the race detector needs some of its own"
	Computes  = "one goroutine computes for long: there is nothing to race, and it takes ten times as long under the detector"
)

// RaceSkips skips a test under the race detector, because of why. The round memory, which finds these tests by this name, runs it without.
func RaceSkips(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skip(why + "; the round memory runs it without")
	}
}
