package mctest

import "testing"

// RaceSkips skips a test in which one goroutine computes for long: it has nothing to race, and takes ten times as long under the detector. The round
// memory runs it without.
func RaceSkips(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine computes for long: nothing to race, and the round memory runs it without the detector")
	}
}
