package mctest

import "testing"

// Reasons to skip a test under the race detector.
const (
	Allocates = "it counts allocations, and the race detector adds some"
	Measures  = "it measures memory, and the race detector uses some"
	Computes  = "it computes for a long time in one goroutine: there are no races, and it takes ten times as long " +
		"under the race detector"
)

// RaceSkips skips a test under the race detector, for the reason why. The rounds models and memory of .ci/test run
// these tests without the race detector: they find them by the texts mctest.Computes and mctest.Race.
func RaceSkips(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skip(why + "; the rounds models and memory run it without the race detector")
	}
}
