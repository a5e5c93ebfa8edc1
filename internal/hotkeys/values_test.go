package hotkeys

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served returns Values that keep hot's, and its entry.
func served(t *testing.T, age time.Duration) (*Values, *Entry) {
	t.Helper()
	v := NewValues(age)
	v.Serve([]string{"hot"})
	require.Nil(t, v.Get([]byte("hot"), 1))
	wanted := v.Wanted(nil)
	require.Len(t, wanted, 1)
	return v, wanted[0]
}

// fill keeps reply for e, asked for at asked.
func fill(t *testing.T, v *Values, e *Entry, reply string, asked int64) {
	t.Helper()
	token, ok := v.Token(e)
	require.True(t, ok)
	v.Put(e, token, []byte(reply), asked)
}

func TestAValueCountsUntilItIsTooOldOrItsKeyIsWritten(t *testing.T) {
	v, e := served(t, 100)
	fill(t, v, e, "x", 1000)
	assert.Equal(t, "x", string(v.Get([]byte("hot"), 1099)))
	assert.Nil(t, v.Get([]byte("hot"), 1100))
	assert.Nil(t, v.Get([]byte("cold"), 1000))
	stripe := v.Begin([]byte("hot"))
	assert.Nil(t, v.Get([]byte("hot"), 1001))
	_, ok := v.Token(e)
	assert.False(t, ok, "a write is under way")
	v.End(stripe)
	assert.Nil(t, v.Get([]byte("hot"), 1002), "the value is that before the write")
	fill(t, v, e, "y", 1003)
	assert.Equal(t, "y", string(v.Get([]byte("hot"), 1003)))
	v.Serve([]string{"hot", "other"})
	assert.Equal(t, "y", string(v.Get([]byte("hot"), 1003)))
	v.Serve(nil)
	assert.Nil(t, v.Get([]byte("hot"), 1003))
}

func TestAFlushEndsAllValuesAndOneOfLaterUntilItIsDone(t *testing.T) {
	v, e := served(t, time.Second)
	fill(t, v, e, "x", 0)
	v.BeginFlush()
	assert.Nil(t, v.Get([]byte("hot"), 1))
	_, ok := v.Token(e)
	assert.False(t, ok)
	v.EndFlush([]byte("flush_all"), 0)
	assert.Nil(t, v.Get([]byte("hot"), 1))
	fill(t, v, e, "y", 2)
	assert.NotNil(t, v.Get([]byte("hot"), 2))

	v.BeginFlush()
	v.EndFlush([]byte("flush_all 10"), 0)
	for seconds, want := range map[int64]bool{1: false, 10: false, 11: false, 13: true} {
		now := seconds * int64(time.Second)
		fill(t, v, e, "z", now)
		assert.Equal(t, want, v.Get([]byte("hot"), now) != nil, "%d s", seconds)
	}
	v.BeginFlush()
	v.EndFlush([]byte("flush_all 2000000000"), 0)
	fill(t, v, e, "z", int64(time.Hour))
	assert.Nil(t, v.Get([]byte("hot"), int64(time.Hour)))
}

func TestAReportTellsHowMuchIsAnsweredFromMemory(t *testing.T) {
	k := New()
	k.Served = NewValues(time.Second)
	worker, reader := k.Sketch(0).Sampler(), k.Served.Sampler()
	for range 20_000 {
		worker.Saw([]byte("hot"), 1, 1)
		worker.Saw([]byte("cold"), 1, 1)
		reader.Saw([]byte("hot"), 1, 1)
		reader.Saw([]byte("hot"), 1, 1)
	}
	r := k.Report(2, true, 1, nil, func([]byte) []string { return nil })
	assert.InDelta(t, 0.75, r.Top1, 0.05)
	assert.InDelta(t, 0.5, r.Served1, 0.05)
	assert.InDelta(t, 1, r.Top10, 1e-9)
	assert.Equal(t, r.Served1, r.Served10)
	assert.Equal(t, r.Served1, r.Served100)
}

func TestAValueIsWantedAgainBeforeItIsTooOld(t *testing.T) {
	v, e := served(t, 100)
	assert.Empty(t, v.Wanted(nil), "it is being fetched")
	require.Nil(t, v.Get([]byte("hot"), 1))
	assert.Empty(t, v.Wanted(nil), "it is being fetched")
	for _, reply := range [][]byte{[]byte("x"), nil} { // nil: what is not kept need not be found out again at once
		token, _ := v.Token(e)
		v.Put(e, token, reply, 2000)
		e.Done()
		assert.Equal(t, reply, v.Get([]byte("hot"), 2086))
		assert.Empty(t, v.Wanted(nil))
		assert.Equal(t, reply, v.Get([]byte("hot"), 2087))
		assert.Len(t, v.Wake(), 1)
		assert.Len(t, v.Wanted(nil), 1)
	}
}
