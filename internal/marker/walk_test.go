package marker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// walk follows random events for some steps from the state after the prefix, and returns an error at a stale read. It
// counts in seen what happened, so that walks that show nothing fail.
func (f *fleet) walk(seed uint64, steps int, seen map[string]int) error {
	random := rand.New(rand.NewPCG(seed, 1))
	s := f.begin()
	var last []string
	for range steps {
		type event struct {
			what string
			next *fleetState
		}
		var all []event
		weights := 0
		f.successors(s, func(what string, next *fleetState) {
			weight := 1
			switch {
			case strings.Contains(what, "looks"), what == "the write is answered":
				weight = 40
			case what == "time passes":
				weight = 20
			case strings.Contains(what, "again"), strings.Contains(what, "cleans"):
				weight = 2
			}
			if weights += weight; random.IntN(weights) < weight {
				all = append(all[:0], event{what, next})
			}
		})
		s = all[0].next
		last = append(last, all[0].what)
		seen[strings.TrimLeft(all[0].what, "midlewar 0123456789")]++
		for m := range s.members {
			if me := &s.members[m]; !me.dead && me.agrees && s.now < me.Lease() {
				seen["one server counts"]++
				if all[0].what == "the write is answered" {
					seen["a write is answered while one server counts"]++
				}
			}
		}
		if read := f.stale(s); read != "" {
			return fmt.Errorf("seed %d: %s after %q", seed, read, last[max(0, len(last)-60):])
		}
	}
	return nil
}

func TestNoStaleValueIsReadOnRandomWalks(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	walks := 40
	if mctest.Long() {
		walks = 4_000
	}
	seen, seenOfPair, seed := map[string]int{}, map[string]int{}, mctest.Seed(t)
	for walk := range walks {
		f := fleet{
			members: 2 + walk%2, writes: 1000, cuts: 1000, restarts: 3, deaths: walk % 3 / 2, starts: walk % 2, slow: 5,
			times: 1000,
		}
		if walk%4 != 3 {
			f.prefix = single
		}
		if f.members == 3 {
			f.prefix = nil
		}
		require.NoError(t, f.walk(seed+uint64(walk), 400, seen))
		f.pair = true
		if f.prefix != nil {
			f.prefix = paired
		}
		require.NoError(t, f.walk(seed+uint64(walk), 400, seenOfPair))
	}
	t.Log(seen, seenOfPair)
	var err error
	for walk := uint64(0); walk < 100 && err == nil; walk++ {
		faulty := fleet{members: 2, writes: 1000, cuts: 1000, times: 1000, prefix: single, halves: true}
		err = faulty.walk(walk, 400, map[string]int{})
	}
	require.Error(t, err, "a rule is left out")
	const answered = "a write is answered while one server counts"
	require.NotZero(t, seen[answered]+seenOfPair[answered], "%v %v", seen, seenOfPair)
}
