package load

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drawn returns how often a connection drew each of the keys 10 to 10+n-1.
func drawn(t *testing.T, o Options, n uint64, id, draws int) []float64 {
	t.Helper()
	o.Targets, o.KeyMin, o.KeyMax = []string{"unused:1"}, 10, 10+n-1
	o, err := o.Complete()
	require.NoError(t, err)
	k := newKeySpace(&o)
	state := k.state(o.GetKeys, id)
	rng := rand.NewPCG(7, 8)
	counts := make([]float64, n)
	for range draws {
		counts[k.draw(o.GetKeys, &state, rng)-10]++
	}
	return counts
}

// assertShares compares counts with probabilities by chi-squared, within four standard deviations. The seed is fixed.
func assertShares(t *testing.T, counts []float64, probability func(i int) float64) {
	t.Helper()
	var draws, chi float64
	for _, count := range counts {
		draws += count
	}
	for i, count := range counts {
		want := draws * probability(i)
		chi += (count - want) * (count - want) / want
	}
	freedom := float64(len(counts) - 1)
	assert.InDelta(t, freedom, chi, 4*math.Sqrt(2*freedom))
}

func TestKeysAreDrawnByTheirPattern(t *testing.T) {
	t.Run("uniform", func(t *testing.T) {
		assertShares(t, drawn(t, Options{GetKeys: Uniform}, 50, 0, 100_000), func(int) float64 { return 1.0 / 50 })
	})
	for _, exponent := range []float64{0.3, 0.99, 1, 1.2, 2.5} {
		var sum float64
		for rank := 1; rank <= 100; rank++ {
			sum += math.Pow(float64(rank), -exponent)
		}
		assertShares(t, drawn(t, Options{GetKeys: Zipf, ZipfExponent: exponent}, 100, 0, 1_000_000),
			func(i int) float64 {
				return math.Pow(float64(i+1), -exponent) / sum
			})
	}
	t.Run("Gaussian", func(t *testing.T) {
		// The tails beyond the keys are cut off; 5 deviations from the mean they are negligible.
		below := func(x float64) float64 { return 0.5 * (1 + math.Erf((x-49.5)/10/math.Sqrt2)) }
		counts := drawn(t, Options{GetKeys: Gaussian, KeyStdDev: 10}, 100, 0, 200_000)
		assertShares(t, counts[25:75], func(i int) float64 {
			return (below(float64(i)+25.5) - below(float64(i)+24.5)) / (below(74.5) - below(24.5))
		})
	})
	t.Run("Gaussian around another key", func(t *testing.T) {
		counts := drawn(t, Options{GetKeys: Gaussian, KeyMedian: 10, KeyStdDev: 1}, 10, 0, 1000)
		assert.Greater(t, counts[0], counts[1])
		assert.Greater(t, counts[1], counts[2])
	})
	t.Run("sequential", func(t *testing.T) {
		assertShares(t, drawn(t, Options{GetKeys: Sequential, Connections: 3}, 10, 2, 100),
			func(int) float64 { return 0.1 })
		assert.Equal(t, []float64{2, 2, 1, 1, 1}, drawn(t, Options{GetKeys: Sequential, Connections: 3}, 5, 2, 7),
			"beginning with the first")
	})
	t.Run("in ranges", func(t *testing.T) {
		o := Options{GetKeys: Parallel, Connections: 3}
		assert.Equal(t, []float64{2, 2, 2, 0, 0, 0, 0, 0, 0, 0}, drawn(t, o, 10, 0, 6))
		assert.Equal(t, []float64{0, 0, 0, 2, 2, 2, 0, 0, 0, 0}, drawn(t, o, 10, 1, 6))
		assert.Equal(t, []float64{0, 0, 0, 0, 0, 0, 2, 2, 1, 1}, drawn(t, o, 10, 2, 6))
		assert.Equal(t, []float64{0, 4}, drawn(t, Options{GetKeys: Parallel, Connections: 5}, 2, 4, 4),
			"fewer keys than connections")
	})
}

func TestZipfReachesTheEndOfALargeKeySpace(t *testing.T) {
	z := newZipf(1<<40, 0.5)
	rng := rand.NewPCG(1, 1)
	var beyond int
	for range 10_000 {
		k := z.draw(rng)
		require.True(t, k >= 1 && k <= 1<<40)
		if k > 1<<38 {
			beyond++
		}
	}
	// With the exponent 1/2 the share of the keys up to x is sqrt(x/n).
	assert.InDelta(t, 0.5, float64(beyond)/10_000, 0.02)
}

func TestSizesAreDrawnAsRequested(t *testing.T) {
	const draws = 100_000
	sizes := func(s Sizes) map[int]float64 {
		o, err := Options{Targets: []string{"unused:1"}, Sizes: s, KeyMin: 1, KeyMax: 11}.Complete()
		require.NoError(t, err)
		z, rng := newSizer(&o), rand.NewPCG(5, 5)
		shares := make(map[int]float64)
		for i := range draws {
			shares[z.draw(uint64(1+i%11), rng)] += 1.0 / draws
		}
		return shares
	}
	assert.InDeltaMapValues(t, map[int]float64{64: 0.75, 4096: 0.25},
		sizes(Sizes{List: []WeightedSize{{64, 3}, {1, 0}, {4096, 1}}}), 0.01)
	even := sizes(Sizes{Min: 5, Max: 8})
	assert.InDeltaMapValues(t, map[int]float64{5: 0.25, 6: 0.25, 7: 0.25, 8: 0.25}, even, 0.01)
	byKey := sizes(Sizes{Min: 10, Max: 110, ByKey: true})
	assert.Len(t, byKey, 11)
	assert.InDelta(t, 1.0/11, byKey[10], 0.001)
	assert.InDelta(t, 1.0/11, byKey[110], 0.001)
	for size := range sizes(Sizes{
		Min: 100, Max: 200,
		Distribution: Distribution{Kind: "pareto", B: 214.476, C: 0.348238},
	}) {
		assert.True(t, size >= 100 && size <= 200, size)
	}
	assert.Equal(t, map[int]float64{7: 1},
		map[int]float64{7: math.Round(sizes(Sizes{
			Min: 1, Max: 7,
			Distribution: Distribution{Kind: "normal", A: 1e6, B: 1},
		})[7])},
		"sizes outside the range become the nearest bound")
}

func TestSizesAreWrittenAsOneTextOfMemtiersNumbers(t *testing.T) {
	fixed, _, err := ParseSizes("32")
	require.NoError(t, err)
	assert.Equal(t, 32, fixed)
	normal := Distribution{Kind: "normal", A: 500, B: 100}
	for text, want := range map[string]Sizes{
		"5-8": {Min: 5, Max: 8}, "5-8/S": {Min: 5, Max: 8, ByKey: true},
		"64:9,4096:1":    {List: []WeightedSize{{64, 9}, {4096, 1}}},
		"normal:500,100": {Min: 1, Max: MaxItem, Distribution: normal}, "normal:500,100/1-900": {
			Min: 1, Max: 900,
			Distribution: normal,
		},
	} {
		fixed, got, err := ParseSizes(text)
		require.NoError(t, err)
		assert.Zero(t, fixed)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{
		"", "0", "-1", "9-5", "5-9/R", "64:", "64:1,9", "normal:1", "normal:1,2/9",
		"cauchy:1",
	} {
		_, _, err := ParseSizes(text)
		assert.Error(t, err, text)
	}
}

func TestAKeyPatternHasTheNumbersOfItsDistribution(t *testing.T) {
	for text, want := range map[string]Options{
		"R:S":             {SetKeys: Uniform, GetKeys: Sequential},
		"P:Z0.99":         {SetKeys: Parallel, GetKeys: Zipf, ZipfExponent: 0.99},
		"Z1.5:Z1.5":       {SetKeys: Zipf, GetKeys: Zipf, ZipfExponent: 1.5},
		"Z2:G5000,100":    {SetKeys: Zipf, GetKeys: Gaussian, ZipfExponent: 2, KeyMedian: 5000, KeyStdDev: 100},
		"G5000:G":         {SetKeys: Gaussian, GetKeys: Gaussian, KeyMedian: 5000},
		"G,100:G5000,100": {SetKeys: Gaussian, GetKeys: Gaussian, KeyMedian: 5000, KeyStdDev: 100},
	} {
		var o Options
		require.NoError(t, o.ParseKeyPattern(text), text)
		assert.Equal(t, want, o, text)
	}
	for _, text := range []string{
		"", "R", "R:", ":R", "Q:R", "R5:R", "Z0:R", "Z1,2:R", "Z1:Z2", "G1,2,3:R", "Zx:R",
		"R:ZNaN", "R,:R",
	} {
		assert.Error(t, new(Options).ParseKeyPattern(text), text)
	}
}
