package mctest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Long reports whether MCMW_LONG=1 asks for the long form of tests.
func Long() bool { return os.Getenv("MCMW_LONG") == "1" }

// Seed returns a seed for a test's random choices: MCMW_SEED if it is set, otherwise a random one. It logs the seed.
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
