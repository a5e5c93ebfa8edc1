package stats

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func histogramOf(times ...time.Duration) (h Histogram) {
	for _, d := range times {
		h.record(int64(d), 1)
	}
	return h
}

func TestAnEmptyHistogramAnswersZero(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Count())
	require.Zero(t, h.Mean())
	require.Zero(t, h.Quantile(0.99))
	require.Zero(t, h.Max())
	counts, beyond, err := h.Linear(time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, make([]uint64, 200), counts)
	require.Zero(t, beyond)
}

func TestSumCountAndMeanAreExact(t *testing.T) {
	h := histogramOf(1234, 5*time.Millisecond+1, 3*time.Hour)
	require.EqualValues(t, 3, h.Count())
	require.EqualValues(t, 1234+5*time.Millisecond+1+3*time.Hour, h.Sum())
	require.InDelta(t, float64(h.Sum())/3, h.Mean(), 1e-6)
}

func TestQuantilesInterpolateWithinTheBucket(t *testing.T) {
	us := time.Microsecond
	h := histogramOf(10*us, 10*us, 10*us, 10*us, 500*us, 500*us, 15*time.Millisecond, 300*time.Millisecond)
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{
		{0, 10 * us},
		{0.25, 10*us + us/2},
		{0.5, 11 * us},
		{0.75, 510 * us},
		{0.875, 15*time.Millisecond + 100*us},
		{1, 312500 * us},
		{7, 312500 * us},
		{-1, 10 * us},
	} {
		require.InDelta(t, float64(c.want), h.Quantile(c.q), 1, "q=%v", c.q)
	}
}

func TestQuantilesOfAFineGridAreWithinABucketOfTheExactOnes(t *testing.T) {
	var h Histogram
	const n = 20000
	for i := range n {
		h.record(int64(i)*int64(17*time.Microsecond), 1) // evenly spread from 0 to 340 ms
	}
	for _, q := range []float64{0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999} {
		exact := q * n * float64(17*time.Microsecond)
		width := float64(Bound(bucketOf(int64(exact))+1) - Bound(bucketOf(int64(exact))))
		require.LessOrEqual(t, math.Abs(h.Quantile(q)-exact), width, "q=%v", q)
	}
}

func TestTimesBeyondTheLastBoundaryAreKeptAndBounded(t *testing.T) {
	h := histogramOf(5 * time.Minute)
	require.EqualValues(t, 102400*time.Millisecond, h.Max())
	require.InDelta(t, float64(102400*time.Millisecond), h.Quantile(0.5), 1)
}

func TestLinearCountsAreExact(t *testing.T) {
	times := []time.Duration{
		0, 99_999, 100_000, 199_999, 200_000, 10 * time.Millisecond, 10*time.Millisecond - 1,
		200*time.Millisecond - 1, 200 * time.Millisecond, time.Minute, 10 * time.Minute,
	}
	h := histogramOf(times...)
	for _, step := range []time.Duration{
		100 * time.Microsecond, 300 * time.Microsecond, time.Millisecond, 7 * time.Millisecond, 200 * time.Millisecond,
	} {
		want := make([]uint64, 200*time.Millisecond/step)
		var wantBeyond uint64
		for _, d := range times {
			if i := int(d / step); i < len(want) {
				want[i]++
			} else {
				wantBeyond++
			}
		}
		counts, beyond, err := h.Linear(step)
		require.NoError(t, err)
		require.Equal(t, want, counts, "step %v", step)
		require.Equal(t, wantBeyond, beyond, "step %v", step)
	}
}

func TestLinearRefusesStepsThatAreNotOnBoundaries(t *testing.T) {
	var h Histogram
	for _, step := range []time.Duration{0, -time.Millisecond, time.Microsecond, 150 * time.Microsecond, time.Second} {
		_, _, err := h.Linear(step)
		require.ErrorContains(t, err, "want a multiple of 100µs up to 200ms", "step %v", step)
	}
}

func TestPlusAndSubAreInverse(t *testing.T) {
	a := histogramOf(time.Microsecond, time.Millisecond)
	b := histogramOf(time.Millisecond, time.Second)
	both := a.Plus(&b)
	require.EqualValues(t, 4, both.Count())
	require.Equal(t, b, both.Sub(&a))
	require.Equal(t, Histogram{}, both.Sub(&both), "an empty window holds no memory")

	var empty Histogram
	require.Equal(t, a, a.Plus(&empty))
	require.Equal(t, a, a.Sub(&empty))
}
