package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestObjectivesAreMetOrMissed(t *testing.T) {
	r := &Result{Total: CommandResult{Requests: 10, OpsPerSec: 5000, Misses: 2, Latency: Latency{Mean: time.Millisecond, P99: 2 * time.Millisecond, P999: 3 * time.Millisecond}}}
	for text, missed := range map[string]string{
		"p99<2.5ms":         "",
		"p99<2ms":           "p99<2ms: p99 is 2ms",
		"p99 <= 2ms":        "",
		"p99.9<1ms":         "p99.9<1ms: p99.9 is 3ms",
		"mean > 500us":      "",
		"throughput>=5000":  "",
		"throughput > 5000": "throughput > 5000: throughput is 5000/s",
		"errors<1":          "",
		"misses<=1":         "misses<=1: misses is 2",
	} {
		o, err := ParseObjective(text)
		require.NoError(t, err, text)
		require.Equal(t, missed, o.Missed(r), text)
	}
	o, err := ParseObjective("p99<1s")
	require.NoError(t, err)
	require.Equal(t, "p99<1s: no request was answered", o.Missed(&Result{}))
	r.Pace = &PaceResult{Unsent: 3}
	require.Equal(t, "p99<1s: 3 requests were due but could not be sent; without them p99 is 2ms", o.Missed(r))
	for text, want := range map[string]string{
		"": "expected a name, an operator", "p99": "expected a name, an operator", "p99=1ms": "expected a name, an operator", "p98<1ms": `"p98" is not one of mean, p50`, "p99<1": "expected a duration", "p99<-1ms": "expected a duration",
		"errors<few": "expected a number", "errors<-1": "expected a number",
	} {
		_, err := ParseObjective(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseObjective(f *testing.F) {
	f.Add("p99<1ms")
	f.Add("throughput>=1e5")
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := ParseObjective(text); err == nil {
			o.Missed(&Result{Total: CommandResult{Requests: 1}})
		}
	})
}
