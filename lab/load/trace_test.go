package load

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestATraceHasRequestsWithTimes(t *testing.T) {
	trace,
		err := ParseTrace(strings.NewReader("time,command,key,size\n\n-1.5,set,a,10\n-1, get " +
		",b\n0.5,GET,a,12\n0.5,set,b,0\n"))
	require.NoError(t, err)
	assert.Equal(t, []float64{0, 0.5, 2, 2, never},
		[]float64{trace.due(0), trace.due(1), trace.due(2), trace.due(3), trace.due(4)})
	assert.Equal(t, []float64{0, 1, 2, 4},
		[]float64{trace.count(0), trace.count(0.5), trace.count(2), trace.count(math.Inf(1))})
	assert.Equal(t, []string{"", "a", "b"}, trace.keys)
	assert.Equal(t, 12, trace.size(1, 32), "the last size in the trace")
	assert.Equal(t, 32, trace.size(2, 32), "the trace has no size for it")
	sets, gets := trace.ratio()
	assert.Equal(t, [2]int{2, 2}, [2]int{sets, gets})
}

func TestAMalformedTraceIsRefusedWithTheNumberOfTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "no request; expected lines of time, command, key and size",
		"time,command,key,size\n":   "no request",
		"1,get\n":                   "line 1: 2 fields; expected time, command, key and size",
		"1,get,a\nsoon,get,a":       `line 2: time "soon": expected seconds`,
		"NaN,get,a":                 `line 1: time "NaN"`,
		"1,delete,a":                `line 1: command "delete": expected get or set`,
		"1,get,a b":                 `line 1: key "a b": expected 1 to 250 bytes`,
		"1,get,":                    `line 1: key ""`,
		"1,set,a":                   "line 1: a set without a size",
		"1,set,a,":                  "line 1: a set without a size",
		"1,set,a,-1":                `line 1: size "-1": expected bytes`,
		"2,get,a\n1,get,a":          "line 2: its time is before that of the previous line",
		strings.Repeat("x", 10_000): "token too long",
	} {
		_, err := ParseTrace(strings.NewReader(text))
		assert.ErrorContains(t, err, want, text)
	}
}

func TestATraceCannotBeCombinedWithOptionsThatItReplaces(t *testing.T) {
	trace, err := ParseTrace(strings.NewReader("1,get,a\n"))
	require.NoError(t, err)
	for want, o := range map[string]Options{
		"a trace with a warm-up":            {WarmUp: time.Second},
		"a trace with verified values":      {Verify: true},
		"a trace with several keys per GET": {KeysPerGet: 2},
		"a trace with an expiry":            {ExpiryMin: 1, ExpiryMax: 2},
	} {
		o.Targets, o.Schedule = []string{"a:1"}, &Schedule{Trace: trace}
		_, err := o.Complete()
		assert.ErrorContains(t, err, want)
	}
}

func FuzzAnyTraceIsReadOrRefused(f *testing.F) {
	f.Add("time,command,key,size\n0.5,get,a,1\n1e3,set,b,5\n")
	f.Add("1,get,a\n1,get,a\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ParseTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		require.EqualValues(t, len(trace.requests), trace.count(math.Inf(1)))
		for i, q := range trace.requests {
			require.NotEmpty(t, trace.keys[q.key])
			require.GreaterOrEqual(t, q.due, 0.0)
			require.LessOrEqual(t, q.size, trace.largest)
			require.Less(t, trace.count(q.due), float64(i+1))
		}
	})
}
