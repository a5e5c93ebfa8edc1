package mctest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Long reports whether tests run at their full length, for which MCMW_LONG=1 asks.
func Long() bool { return os.Getenv("MCMW_LONG") == "1" }

// Seed returns the seed of a test's random choices: MCMW_SEED if it is set. The test's log has it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("MCMW_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal("MCMW_SEED must be a number from 0 to 18446744073709551615")
		}
	}
	t.Logf("seed %d; run again with MCMW_SEED=%d", seed, seed)
	return seed
}
