package stats

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestALimiterLetsOneLinePerSecondPassAndCountsTheOthers(t *testing.T) {
	limits(t, 0, time.Second)
}

func TestALimiterCanBeGivenALongerTime(t *testing.T) { limits(t, time.Minute, time.Minute) }

func limits(t *testing.T, every, want time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := Limiter{Every: every, next: Now()} // the clock of the bubble is behind the start of the process
		pass := func(suppressed int, ok bool) {
			t.Helper()
			n, passes := l.Pass()
			assert.Equal(t, ok, passes)
			assert.Equal(t, suppressed, n)
		}
		pass(0, true)
		pass(0, false)
		time.Sleep(want - 1)
		pass(0, false)
		time.Sleep(time.Nanosecond)
		pass(2, true)
		pass(0, false)
		time.Sleep(time.Hour)
		pass(1, true)
	})
}
