package vm

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// send queues a frame until due.
func send(t require.TestingT, frames *travelling, data []byte, due time.Time) {
	room := frames.room()
	require.NotNil(t, room)
	frames.add(copy(room, data), due)
}

func TestFramesLeaveWhenTheyAreDueInTheOrderOfTheirArrival(t *testing.T) {
	var frames travelling
	start := time.Unix(0, 0)
	assert.True(t, frames.empty())
	assert.Nil(t, frames.next(start))
	send(t, &frames, []byte("a"), start.Add(10))
	send(t, &frames, []byte("b"), start.Add(10))
	send(t, &frames, []byte("c"), start.Add(20))
	assert.Nil(t, frames.next(start.Add(9)))
	assert.False(t, frames.empty())
	assert.Equal(t, "a", string(frames.next(start.Add(10))))
	assert.Equal(t, "b", string(frames.next(start.Add(19))))
	assert.Nil(t, frames.next(start.Add(19)))
	assert.Equal(t, "c", string(frames.next(start.Add(30))))
	assert.Nil(t, frames.next(start.Add(30)))
	assert.True(t, frames.empty())
}

func TestFramesAreUnchangedHoweverManyAreInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var frames travelling
		var sent [][]byte
		due := func(i int) time.Time { return time.Unix(int64(i), 0) }
		arrived, left := 0, 0
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "arrives") {
				data := bytes.Repeat([]byte{byte(step)},
					rapid.SampledFrom([]int{1, 60, 1514, 16 << 10, longest}).Draw(t, "size"))
				for range rapid.IntRange(1, 20).Draw(t, "frames") {
					send(t, &frames, data, due(arrived))
					sent = append(sent, data)
					arrived++
				}
				continue
			}
			until := rapid.IntRange(left, arrived).Draw(t, "until")
			for ; left < until; left++ {
				require.Equal(t, sent[left], frames.next(due(until-1)))
			}
			require.Nil(t, frames.next(due(until-1)))
		}
		for ; left < arrived; left++ {
			require.Equal(t, sent[left], frames.next(due(arrived)))
		}
		require.Nil(t, frames.next(due(arrived)))
		require.True(t, frames.empty())
	})
}

func TestFramesInFlightUseBoundedMemory(t *testing.T) {
	var frames travelling
	n := 0
	for ; frames.room() != nil; n++ {
		frames.add(longest, time.Time{})
	}
	assert.Equal(t, mostBuffer/longest, n)
	// There is room again once half of the frames have left.
	for left := range n {
		require.Equal(t, 2*left >= n, frames.room() != nil)
		require.Len(t, frames.next(time.Time{}), longest)
	}
}

func TestFramesInFlightCauseNoGarbage(t *testing.T) {
	var frames travelling
	data := make([]byte, 4096)
	exchange := func() {
		for range 1000 {
			send(t, &frames, data, time.Time{})
		}
		for frames.next(time.Time{}) != nil {
		}
	}
	exchange()
	assert.Zero(t, testing.AllocsPerRun(10, exchange))
}
