package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var oneCommand = Options{Gets: 1}

// reported returns a window of one thread with one request of this latency.
func reported(index int, latency, length time.Duration, last bool) *window {
	w := newWindow(&oneCommand)
	w.index, w.length, w.last = index, length, last
	w.commands[get].requests = 1
	w.commands[get].latency.record(int64(latency))
	return w
}

func TestAWindowIsCompleteWhenEveryThreadHasReportedItOrHasEnded(t *testing.T) {
	s := newSeries(&oneCommand, 3)
	add := func(index int, last bool) bool {
		return s.add(reported(index, time.Millisecond, time.Second, last))
	}
	assert.False(t, add(0, false))
	assert.False(t, add(0, false))
	assert.False(t, add(1, false), "one thread is ahead")
	assert.True(t, add(0, true), "the third thread reports its last window")
	assert.Len(t, s.windows, 1)
	assert.True(t, add(1, false), "only two threads are left")
	assert.False(t, add(2, false))
	assert.True(t, add(2, true))
	assert.True(t, add(3, false), "only one thread is left")
	var requests []uint64
	for i, w := range s.finish() {
		assert.Equal(t, i, w.Index)
		requests = append(requests, w.Requests)
	}
	assert.Equal(t, []uint64{3, 2, 2, 1}, requests)
}

func TestWindowsThatAThreadHasNotReportedAreClosedAtTheEnd(t *testing.T) {
	s := newSeries(&oneCommand, 2)
	s.add(reported(1, 4*time.Millisecond, time.Second, false))
	s.add(reported(0, 2*time.Millisecond, time.Second, false))
	s.add(reported(0, 6*time.Millisecond, time.Second, false))
	s.add(reported(2, 8*time.Millisecond, 250*time.Millisecond, true))
	windows := s.finish()
	assert.Len(t, windows, 3)
	assert.Equal(t, 4*time.Millisecond, windows[0].Latency.Mean)
	assert.InDelta(t, float64(6*time.Millisecond), float64(windows[0].Latency.Max), float64(6*time.Microsecond))
	assert.InDelta(t, 2, windows[0].OpsPerSec, 1e-9)
	assert.InDelta(t, 4, windows[2].OpsPerSec, 1e-9, "one request in a quarter of a second")
}

func TestTheMeanOfSlipsIsExact(t *testing.T) {
	paced := Options{Gets: 1, Schedule: Constant(1)}
	w := newWindow(&paced)
	w.slip.record(1_234_567)
	assert.Equal(t, 1_234_567*time.Nanosecond, w.summary(&paced).Slip.Mean)
}

func TestTheSeriesOfAnEndlessRunKeepsTheLastDay(t *testing.T) {
	s := newSeries(&oneCommand, 1)
	s.windows, s.next = make([]Window, maxWindows), maxWindows
	for i := range s.windows {
		s.windows[i].Index = i
	}
	assert.True(t, s.add(reported(maxWindows, time.Millisecond, time.Second, false)))
	assert.Len(t, s.windows, maxWindows)
	assert.Equal(t, 1, s.windows[0].Index)
	assert.Equal(t, maxWindows, s.windows[maxWindows-1].Index)
}
