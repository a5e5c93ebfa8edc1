package stats

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestALimiterLetsOneLinePerSecondPassAndCountsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limiter{next: Now()} // the clock of the bubble is behind the start of the process
		pass := func(suppressed int, ok bool) {
			t.Helper()
			n, passes := l.Pass()
			assert.Equal(t, ok, passes)
			assert.Equal(t, suppressed, n)
		}
		pass(0, true)
		pass(0, false)
		time.Sleep(time.Second - 1)
		pass(0, false)
		time.Sleep(time.Nanosecond)
		pass(2, true)
		pass(0, false)
		time.Sleep(time.Hour)
		pass(1, true)
	})
}
