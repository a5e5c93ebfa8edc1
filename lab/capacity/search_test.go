package capacity

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"mcmw/lab/condition"
	"mcmw/lab/record"
)

// search searches a system whose 99th percentile reaches 1 ms at limit requests per second, as that of an M/M/1 queue
// grows, with some noise.
func search(t require.TestingT, limit, first, noise float64, seed uint64) (c *Capacity, runs int, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	s := &Search{
		Rule: DefaultRule(), First: first, Step: 1.05, Most: 8, Progress: func(float64, record.Run, condition.Verdict) {
			runs++
		},
		Measure: func(rate float64) (run record.Run, err error) {
			errors := 0.0
			if rate >= 2*limit {
				errors = 1
			}
			tail := 1e-3 * limit / max(2*limit-rate, limit/100) * (1 + noise*random.NormFloat64())
			run.Results = []record.Value{
				{Source: "client", Metric: "response_time_p99", Value: tail},
				{Source: "client", Metric: "throughput", Value: rate},
				{Source: "client", Metric: "errors", Value: errors},
			}
			return run, nil
		},
	}
	c, err = s.Find()
	return c, runs, err
}

func TestTheHighestRateIsFoundToOneStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, first := rapid.Float64Range(2.1, 1e6).Draw(t, "limit"), rapid.Float64Range(1, 1e6).Draw(t, "first")
		noise := rapid.Float64Range(0, 0.02).Draw(t, "noise")
		c, runs, err := search(t, limit, first, noise, rapid.Uint64().Draw(t, "seed"))
		require.NoError(t, err)
		top, ok := c.Lines[0].Top()
		require.True(t, ok)
		require.GreaterOrEqual(t, top.Runs, 2)
		require.InEpsilon(t, limit, top.Throughput.Mean, 0.051+5*noise, "one step")
		require.Less(t, runs, 120)
		above, ok := c.Lines[0].Above()
		require.True(t, ok)
		require.NotEqual(t, condition.Holds, above.Verdict)
	})
}

func TestTheSearchEndsWhereNothingCanBeFound(t *testing.T) {
	_, _, err := search(t, 1e12, 1000, 0, 1)
	require.ErrorContains(t, err, "is still fulfilled at")
	_, _, err = search(t, 0.1, 1000, 0, 1)
	require.ErrorContains(t, err, "client.response_time_p99 < 1ms is still broken at 1.0802 requests per second")
}

func TestASearchForAMetricThatIsNotMeasuredEndsWithTheFirstRun(t *testing.T) {
	measured := 0
	s := &Search{
		Rule: DefaultRule(), First: 1000, Step: 1.05, Most: 2,
		Measure: func(float64) (run record.Run, err error) {
			measured++
			run.Results = []record.Value{
				{Source: "client", Metric: "throughput", Value: 1000}, {Source: "client", Metric: "errors"},
			}
			return run, nil
		},
		Progress: func(float64, record.Run, condition.Verdict) {},
	}
	_, err := s.Find()
	require.EqualError(t, err, "at 1000 requests per second client.response_time_p99 was not measured: "+
		"expected a metric of the clients and of requests that they send")
	require.Equal(t, 1, measured)
}

func TestTheSearchSaysWhatItFound(t *testing.T) {
	c, _, err := search(t, 20000, 1000, 0.001, 1)
	require.NoError(t, err)
	require.Regexp(t,
		`^up to \d+ requests/s, [\d,]+/s ± 0.0 %; (\d+ requests/s break it|at \d+ requests/s it is undecided) \(`,
		c.Words(c.Lines[0]))
}
