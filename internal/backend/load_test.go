package backend

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/stats"
)

func TestTheLoadIsTheNumberOfCallsTimesTheCostOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		var fast, slow work
		for range 50 {
			fast.Took(int64(2*time.Millisecond), false)
			slow.Took(int64(20*time.Millisecond), false)
		}
		assert.Less(t, fast.Load(0), slow.Load(0))
		now := stats.Now()
		begin := func(w *work, calls int) {
			for range calls {
				w.Begin(1, now)
			}
		}
		begin(&fast, 4)
		assert.Less(t, fast.Load(0), slow.Load(0))
		begin(&fast, 20)
		assert.Greater(t, fast.Load(0), slow.Load(0), "24 fast calls take longer than a slow one")
		assert.Greater(t, slow.Load(10), slow.Load(0))
	})
}

func TestServersOfSimilarSpeedDifferInLoadByTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		var a, b work
		for range 50 {
			a.Took(1_100_000, false)
			b.Took(1_900_000, false)
		}
		assert.Equal(t, a.Load(0), b.Load(0))
		a.Begin(1, stats.Now())
		assert.Greater(t, a.Load(0), b.Load(0))
	})
}

func TestAReplyThatWaitedToBeReadDoesNotRaiseTheCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		var w work
		w.Took(1000, false)
		before := w.Load(0)
		for range 100 {
			w.Took(1_000_000, true)
		}
		assert.Equal(t, before, w.Load(0))
		for range 100 {
			w.Took(100, true)
		}
		assert.Less(t, w.Load(0), before)
	})
}

func TestAServerThatWasSlowIsTriedAgainWithOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w work
		w.Took(int64(20*time.Millisecond), false)
		slow := w.Load(0)
		time.Sleep(5 * time.Second)
		assert.Less(t, w.Load(0), slow/16)
		w.Begin(1, stats.Now())
		assert.GreaterOrEqual(t, w.Load(0), 2*slow)
	})
}

func TestTheCostOfACallIsAtLeastTheTimeAReplyHasBeenOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stalled, alive work
		stalled.Took(1000, false)
		alive.Took(1_000_000, false)
		assert.Less(t, stalled.Load(0), alive.Load(0))
		stalled.Begin(1, stats.Now())
		time.Sleep(2 * time.Millisecond)
		assert.Greater(t, stalled.Load(0), alive.Load(0))
		stalled.End(stats.Now())
		assert.Less(t, stalled.Load(0), alive.Load(0))
	})
}
