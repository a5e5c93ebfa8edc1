package sample

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The samples that are compared. The expected values of these tests are from scipy 1.17.1: ttest_ind, mannwhitneyu,
// kendalltau and theilslopes.
var (
	threeReps = []float64{6620, 6258, 6285}
	fourReps  = []float64{6001, 6120, 5950, 6080}
	tenValues = []float64{20.4, 24.2, 15.4, 21.7, 20.2, 18.8, 25.6, 14.4, 24.4, 22.6}
	eight     = []float64{18.2, 14.3, 16.9, 20.3, 17.9, 14.3, 15.1, 21.1}
)

func TestWelchAgreesWithScipy(t *testing.T) {
	for _, c := range []struct {
		first, second []float64
		confidence    float64
		want          Difference
	}{
		{threeReps, fourReps, 0.95, Difference{
			-349.916666666667,
			Interval{-796.2275879055167, 96.39425457218272},
			0.08276861578976767, 2.43720159960467,
		}},
		{tenValues, eight, 0.90, Difference{
			-3.5075,
			Interval{-6.130237402070626, -0.8847625979293681},
			0.032979565766992035, 15.76797064955272,
		}},
	} {
		got := Welch(Of(c.first), Of(c.second), c.confidence)
		near(t, c.want.Difference, got.Difference)
		near(t, c.want.Interval.Low, got.Interval.Low)
		near(t, c.want.Interval.High, got.Interval.High)
		near(t, c.want.P, got.P)
		near(t, c.want.Freedom, got.Freedom)
	}
}

func TestWithoutSpreadAnyDifferenceIsCertain(t *testing.T) {
	same, other := Of([]float64{5, 5}), Of([]float64{6, 6, 6})
	require.Equal(t, Difference{0, Interval{0, 0}, 1, 2}, Welch(same, same, 0.95))
	require.Equal(t, Difference{1, Interval{1, 1}, 0, 3}, Welch(same, other, 0.95))
	require.True(t, math.IsInf(EffectSize(same, other), 1))
	require.Zero(t, EffectSize(same, same))
	near(t, 1.2, Ratio(other, same, 0.95).Low)
	near(t, 1.2, Ratio(other, same, 0.95).High)
}

func TestMannWhitneyAgreesWithScipy(t *testing.T) {
	for name, c := range map[string]struct {
		first, second []float64
		u, p          float64
	}{
		"exact": {threeReps, fourReps, 0, 0.05714285714285714},
		// by enumeration; scipy has no exact test with ties
		"exact, ties":  {tenValues, eight, 16, 0.03329676859088624},
		"many ties":    {[]float64{1, 2, 2}, []float64{2, 3, 3}, 8, 0.3},
		"all the same": {[]float64{1, 1, 1}, []float64{1, 1}, 3, 1},
	} {
		u, p := MannWhitney(c.first, c.second)
		near(t, c.u, u, name)
		near(t, c.p, p, name)
	}
	var x, y []float64
	for i := range 40 {
		x = append(x, math.RoundToEven(math.Mod(float64(i)*0.7, 13)))
	}
	for i := range 45 {
		y = append(y, math.RoundToEven(math.Mod(float64(i)*1.1, 13)+1))
	}
	u, p := MannWhitney(x, y)
	near(t, 1007, u)
	near(t, 0.3470316398632337, p)
	_, p = MannWhitney(make([]float64, 40), make([]float64, 40))
	near(t, 1, p)
}

func TestTooSmallSamplesGiveNoResult(t *testing.T) {
	for _, m := range []Moments{{}, {N: 1, Mean: 3}} {
		require.True(t, math.IsNaN(m.Variance()))
		require.True(t, math.IsNaN(m.Variation()))
		require.False(t, m.Estimate(0.95).Known())
		require.False(t, Welch(m, Of(threeReps), 0.95).Interval.Known())
		require.False(t, Ratio(Of(threeReps), m, 0.95).Known())
		require.True(t, math.IsNaN(EffectSize(Of(threeReps), m)))
	}
	_, p := MannWhitney(nil, threeReps)
	require.True(t, math.IsNaN(p))
	require.True(t, math.IsNaN(Quantile(nil, 0.5)))
	require.False(t, Ratio(Of(threeReps), Of([]float64{-3, 4, 1}), 0.95).Known(), "the first mean may be 0")
}

func TestTheEffectSizeIsHedgesG(t *testing.T) {
	// s^2 = (2 + 2)/4 = 1, d = 3, J = 1 - 3/15.
	near(t, 2.4, EffectSize(Of([]float64{1, 2, 3}), Of([]float64{4, 5, 6})))
	near(t, -2.4, EffectSize(Of([]float64{4, 5, 6}), Of([]float64{1, 2, 3})))
}

// A ratio r is in the interval if and only if the second mean doesn't differ significantly from r times the first, with
// the same degrees of freedom.
func TestTheEndsOfTheRatioIntervalAreAtTheLimitOfSignificance(t *testing.T) {
	first, second := Of(tenValues), Of(eight)
	freedom := Welch(first, second, 0.95).Freedom
	interval := Ratio(second, first, 0.95)
	require.True(t, interval.Contains(second.Mean/first.Mean))
	for _, r := range []float64{interval.Low, interval.High} {
		s := math.Sqrt(second.Variance()/second.N + r*r*first.Variance()/first.N)
		near(t, StudentQuantile(0.975, freedom), math.Abs(second.Mean-r*first.Mean)/s)
	}
}

func TestATrendHasKendallsTauAndSensSlope(t *testing.T) {
	rising := []float64{5.0, 5.2, 5.1, 5.6, 5.5, 5.9, 6.1, 6.0, 6.4, 6.6}
	trend := TrendOf(rising)
	near(t, 0.8666666666666666, trend.Tau)
	near(t, 0.175, trend.Slope)
	near(t, 0.175*9/5.75, trend.Drift)
	// S = 39 of 45, Var S = 10 9 25/18 = 125: Z = 38/sqrt(125).
	near(t, math.Erfc(38/math.Sqrt(250)), trend.P)
	slices.Reverse(rising)
	near(t, -0.175, TrendOf(rising).Slope)
	require.Equal(t, 1.0, TrendOf([]float64{7, 7, 7, 7, 7, 7, 7, 7}).P)
	require.Equal(t, 1.0, TrendOf(rising[:MinTrend-1]).P, "too short to tell")
	zero := TrendOf(make([]float64, 20))
	require.Equal(t, 1.0, zero.P)
	require.True(t, math.IsNaN(zero.Drift))
}

// TestATrendIsFoundWhereThereIsOne counts how often a test at 1 % finds a trend. In series without one it must find one
// in about 1 % of them, also if neighbours are correlated; in series that drift by more than they scatter nearly
// always.
func TestATrendIsFoundWhereThereIsOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	found := func(correlation, drift float64) (times int) {
		for range 200 {
			values, x := make([]float64, 60), 0.0
			for i := range values {
				x = correlation*x + random.NormFloat64()
				values[i] = 100 + x + drift*float64(i)/60
			}
			if TrendOf(values).P < 0.01 {
				times++
			}
		}
		return times
	}
	require.LessOrEqual(t, found(0, 0), 8)
	require.LessOrEqual(t, found(0.7, 0), 14)
	require.GreaterOrEqual(t, found(0, 4), 190)
}

func TestALongSeriesIsThinned(t *testing.T) {
	values := make([]float64, 86_400)
	for i := range values {
		values[i] = float64(i)
	}
	trend := TrendOf(values)
	near(t, 1, trend.Tau)
	require.Less(t, trend.P, 0.01)
}

func TestAutocorrelationFollowsBoxAndJenkins(t *testing.T) {
	// Means 3: (-2)(-1) + (-1)0 + 0 1 + 1 2 = 4 of 10.
	near(t, 0.4, Autocorrelation([]float64{1, 2, 3, 4, 5}, 1))
	require.True(t, math.IsNaN(Autocorrelation([]float64{1, 1}, 1)))
	require.True(t, math.IsNaN(Autocorrelation([]float64{1, 2}, 2)))
}

// close12 asserts equality to 1e-12, relative.
func close12(t *rapid.T, want, got float64, what string) {
	if math.Abs(want-got) > 1e-12*math.Abs(want) {
		t.Fatalf("%s: got %v, computed directly %v", what, got, want)
	}
}

// binned counts values in bins of width 0.5.
func binned(values []float64) Histogram {
	counts := map[int]float64{}
	for _, x := range values {
		counts[int(x/0.5)]++
	}
	var h Histogram
	for i := range 40 {
		if counts[i] > 0 {
			h = append(h, Bin{float64(i) * 0.5, float64(i+1) * 0.5, counts[i]})
		}
	}
	return h
}

func TestMergedHistogramsEqualTheDirectComputation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 19.9), 1, 300).Draw(t, "values")
		at := rapid.IntRange(0, len(values)).Draw(t, "at")
		merged, err := MergeHistograms(binned(values[:at]), binned(values[at:]))
		if err != nil {
			t.Fatal(err)
		}
		direct := binned(values)
		if !slices.Equal(direct, merged) {
			t.Fatalf("got %v, computed directly %v", merged, direct)
		}
		slices.Sort(values)
		for _, p := range []float64{0, 0.25, 0.5, 0.99, 1} {
			exact := values[max(int(ceil(p*float64(len(values)))), 1)-1]
			if upper := merged.UpperQuantile(p); exact > upper || upper > exact+0.5 {
				t.Fatalf("p = %v: upper edge %v for the value %v", p, upper, exact)
			}
			if q := merged.Quantile(p); q > merged.UpperQuantile(p) || q < merged.UpperQuantile(p)-0.5 {
				t.Fatalf("p = %v: %v is not in its bin", p, q)
			}
		}
	})
}

func TestRebinningKeepsTheValuesInTheirPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := binned(rapid.SliceOfN(rapid.Float64Range(0, 19.9), 1, 300).Draw(t, "values"))
		width := rapid.Float64Range(0.01, 50).Draw(t, "width")
		rebinned, err := h.Rebin(width)
		if err != nil {
			t.Fatal(err)
		}
		close12(t, h.Total(), rebinned.Total(), "total")
		for _, edge := range []float64{width, 3 * width} {
			want, got := 0.0, 0.0
			for _, b := range h {
				want += b.below(edge)
			}
			for _, b := range rebinned {
				got += b.below(edge)
			}
			if math.Abs(want-got) > 1e-9*h.Total() {
				t.Fatalf("below %v: %v, before %v", edge, got, want)
			}
		}
		for i := 1; i < len(rebinned); i++ {
			if rebinned[i].Lower < rebinned[i-1].Lower+width/2 {
				t.Fatalf("%v comes after %v", rebinned[i], rebinned[i-1])
			}
		}
	})
}

func TestHistogramsWithDifferentBinsAreNotMerged(t *testing.T) {
	a, b := Histogram{{0, 1, 5}}, Histogram{{0.5, 1.5, 5}}
	_, err := MergeHistograms(a, b)
	require.ErrorContains(t, err, "from 0 to 1 and from 0.5 to 1.5 overlap")
	_, err = MergeHistograms(a, Histogram{{0, math.Inf(1), 1}})
	require.ErrorContains(t, err, "overlap")
	merged, err := MergeHistograms(Histogram{{0.3, 0.4, 1}}, Histogram{{3 * 0.1, 4 * 0.1, 2}})
	require.NoError(t, err)
	require.Len(t, merged, 1, "edges may differ by rounding")
	require.Equal(t, 3.0, merged[0].Count)
}

func TestValuesInAnUnboundedBinCountAtItsLowerEdge(t *testing.T) {
	h := Histogram{{0, 1, 2}, {1, 2, 0}, {15, math.Inf(1), 2}}
	require.Equal(t, 15.0, h.Quantile(0.9))
	require.True(t, math.IsInf(h.UpperQuantile(0.9), 1))
	require.Equal(t, (2*0.5+2*15)/4, h.Mean())
	require.Equal(t, 1.0, h.Resolution())
	rebinned, err := h.Rebin(4)
	require.NoError(t, err)
	require.Equal(t, Histogram{{0, 4, 2}, {15, math.Inf(1), 2}}, rebinned)
	for _, width := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-9} {
		_, err := h.Rebin(width)
		require.Error(t, err, "%v", width)
	}
	var none Histogram
	require.True(t, math.IsNaN(none.Quantile(0.5)))
	require.True(t, math.IsNaN(none.UpperQuantile(0.5)))
	require.True(t, math.IsNaN(none.Mean()))
	require.Zero(t, none.Resolution())
	require.Zero(t, none.Width())
}

func TestTheDisplayWidthOfAHistogramDividesNoBin(t *testing.T) {
	h := Histogram{}
	for i := range 100 {
		h = append(h, Bin{float64(i) * 0.1, float64(i+1) * 0.1, 10})
	}
	// 2 (7.5 - 2.5)/10 = 1
	near(t, 1, h.Width())
	for i := range h {
		h[i].Count = 1e6
	}
	near(t, 0.1, h.Width(), "never finer than recorded")
	near(t, 0, Histogram{{1, 1, 5}}.Width(), "all the same and exact")
}

// R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") gives 0.03 0.06 0.06 0.02.
func TestHolmAgreesWithR(t *testing.T) {
	require.InDeltaSlice(t, []float64{0.03, 0.06, 0.06, 0.02}, Holm([]float64{0.01, 0.04, 0.03, 0.005}), 1e-12)
	with := Holm([]float64{0.5, math.NaN(), 0.9})
	require.InDelta(t, 1, with[0], 1e-12)
	require.True(t, math.IsNaN(with[1]))
	require.Empty(t, Holm(nil))
}

func TestAnEstimateIsWrittenWithItsIntervalIfItHasOne(t *testing.T) {
	for _, c := range []struct {
		values     []float64
		text, json string
	}{
		{nil, "mean", `{"mean":0,"low":null,"high":null,"known":false}`},
		{[]float64{5}, "mean", `{"mean":5,"low":null,"high":null,"known":false}`},
		{[]float64{4, 4}, "mean ± 0.0 %", `{"mean":4,"low":4,"high":4,"known":true}`},
		{[]float64{0, 0}, "mean", `{"mean":0,"low":0,"high":0,"known":true}`},
	} {
		e := Of(c.values).Estimate(0.95)
		require.Equal(t, c.text, e.Format("mean", " ± %.1f %%"))
		got, err := json.Marshal(e)
		require.NoError(t, err)
		require.JSONEq(t, c.json, string(got))
	}
}

func TestARatioOfPairsIsTheInverseOfThatOfSwappedOnes(t *testing.T) {
	of, to := []float64{10, 11, 13, 0}, []float64{20, 21, 27, 5}
	ratio, inverse := PairedRatio(of, to, 0.95), PairedRatio(to, of, 0.95)
	require.EqualValues(t, 3, ratio.N, "a pair with 0 has no ratio")
	require.InEpsilon(t, math.Cbrt(10.0/20*11/21*13/27), ratio.Mean, 1e-12)
	require.InEpsilon(t, 1/ratio.Mean, inverse.Mean, 1e-12)
	require.InEpsilon(t, 1/ratio.Low, inverse.High, 1e-12)
	// The logarithms have the mean m, the standard deviation s and the interval m +- 4.303 s/sqrt(3).
	m, s := -0.690221, 0.0422063
	require.InDelta(t, math.Exp(m-4.303*s/math.Sqrt(3)), ratio.Low, 1e-4)
	for want, e := range map[string]Estimate{
		"-": PairedRatio(nil, nil, 0.95), "0.500 [too few]": PairedRatio([]float64{1}, []float64{2}, 0.95),
		"1.000 [too few]":      PairedRatio([]float64{1, 9}, []float64{9, 1}, 0.95),
		"2.000 [2.000, 2.000]": PairedRatio([]float64{2, 4}, []float64{1, 2}, 0.95),
	} {
		require.Equal(t, want, e.RatioText())
	}
}
