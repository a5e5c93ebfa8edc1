package sample

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectors are statistics from other programs: t quantiles with 60 digits from mpmath, the rest from scipy and numpy.
type vectors struct {
	TQuantiles []struct {
		P, DF, T float64
	} `json:"t_quantiles"`
	MeanCI []struct {
		Name          string
		Values        []float64
		N             float64
		Mean          float64
		SD            float64 `json:"sd_sample"`
		COV           float64 `json:"cov_sample"`
		StandardError float64 `json:"standard_error"`
		CI            map[string]struct {
			HalfWidth float64 `json:"half_width"`
			Low, High float64
			Percent   float64 `json:"half_width_percent_of_mean"`
		}
	} `json:"mean_ci"`
	Percentiles []struct {
		Set    string
		Q      float64
		Linear float64 `json:"linear_type7"`
	}
	FreedmanDiaconis []struct {
		Set         string
		N, Q25, Q75 float64
		IQR, Width  float64
	} `json:"freedman_diaconis"`
	Welford []struct {
		Name      string
		Values    json.RawMessage
		N         float64
		Mean      float64
		MeanExact float64 `json:"mean_exact_float"`
		M2        float64
		Variance  *float64 `json:"variance_sample"`
	}
	HistogramMerge struct {
		Bucket             float64 `json:"bucket_ms"`
		A, B               map[string]float64
		Merged             map[string]float64
		Percentiles        map[string]float64 `json:"merged_percentile_upper_edge_ms"`
		Weights            map[string]float64
		Weighted           map[string]float64
		WeightedPercentile map[string]float64 `json:"weighted_percentile_upper_edge_ms"`
		MeanMidpoint       float64            `json:"mean_midpoint_ms"`
	} `json:"histogram_merge"`
	Rebin struct {
		From   float64 `json:"from_ms"`
		To     float64 `json:"to_ms"`
		Counts map[string]float64
		Total  float64
	} `json:"histogram_rebin_proportional"`
	Sharded struct {
		N     float64
		Q25   float64 `json:"q25_ms"`
		Q75   float64 `json:"q75_ms"`
		IQR   float64 `json:"iqr_ms"`
		Width float64 `json:"width_ms"`
	} `json:"freedman_diaconis_cetin_6keys_sharded"`
}

// readVectors reads the vectors. They have about 12 digits, so that a tolerance of 1e-9 is reasonable.
func readVectors(t *testing.T) (v vectors, sets map[string][]float64) {
	t.Helper()
	text, err := os.ReadFile("testdata/stats_vectors.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &v))
	sets = map[string][]float64{}
	for _, c := range v.MeanCI {
		sets[c.Name] = slices.Sorted(slices.Values(c.Values))
	}
	return v, sets
}

const tolerance = 1e-9

// near asserts that got is want to tolerance, relative to want or, near 0, absolute.
func near(t *testing.T, want, got float64, what ...any) {
	t.Helper()
	require.InDelta(t, want, got, tolerance*max(1, math.Abs(want)), what...)
}

func TestStudentQuantilesMatchTheVectors(t *testing.T) {
	v, _ := readVectors(t)
	require.NotEmpty(t, v.TQuantiles)
	for _, c := range v.TQuantiles {
		require.InEpsilon(t, c.T, StudentQuantile(c.P, c.DF), 5e-12, c)
	}
}

func TestMeansAndIntervalsMatchTheVectors(t *testing.T) {
	v, _ := readVectors(t)
	require.NotEmpty(t, v.MeanCI)
	for _, c := range v.MeanCI {
		t.Run(c.Name, func(t *testing.T) {
			m := Of(c.Values)
			near(t, c.N, m.N)
			near(t, c.Mean, m.Mean)
			near(t, c.SD, m.StdDev())
			near(t, c.COV, m.Variation())
			near(t, c.StandardError, m.StandardError())
			require.NotEmpty(t, c.CI)
			for confidence, want := range c.CI {
				level, err := strconv.ParseFloat(confidence, 64)
				require.NoError(t, err)
				got := m.Estimate(level)
				near(t, want.Low, got.Low, confidence)
				near(t, want.High, got.High, confidence)
				near(t, want.HalfWidth, got.HalfWidth(), confidence)
				near(t, want.Percent, 100*got.HalfWidth()/math.Abs(m.Mean), confidence)
			}
		})
	}
}

func TestPercentilesMatchTheVectors(t *testing.T) {
	v, sets := readVectors(t)
	require.NotEmpty(t, v.Percentiles)
	for _, c := range v.Percentiles {
		sorted := sets[c.Set]
		require.NotEmpty(t, sorted)
		near(t, c.Linear, Quantile(sorted, c.Q/100), c)
	}
}

func TestWidthsOfBinsMatchTheVectors(t *testing.T) {
	v, sets := readVectors(t)
	require.NotEmpty(t, v.FreedmanDiaconis)
	for _, c := range v.FreedmanDiaconis {
		sorted := sets[c.Set]
		q25, q75 := Quantile(sorted, 0.25), Quantile(sorted, 0.75)
		near(t, c.N, float64(len(sorted)))
		near(t, c.Q25, q25)
		near(t, c.Q75, q75)
		near(t, c.IQR, q75-q25)
		width := FreedmanDiaconis(q25, q75, c.N, 0)
		near(t, c.Width, width)
	}
}

func TestMomentsMatchTheVectors(t *testing.T) {
	v, _ := readVectors(t)
	require.NotEmpty(t, v.Welford)
	for _, c := range v.Welford {
		t.Run(c.Name, func(t *testing.T) {
			var values []float64
			if json.Unmarshal(c.Values, &values) != nil {
				require.JSONEq(t, `{"formula": "1e12 + 0.25 i, i=0..999"}`, string(c.Values))
				for i := range 1000 {
					values = append(values, 1e12+0.25*float64(i))
				}
			}
			var online Moments
			for _, x := range values {
				online.Add(x)
			}
			for _, m := range []Moments{online, Of(values)} {
				near(t, c.N, m.N)
				near(t, c.Mean, m.Mean) // has 12 digits
				require.InEpsilon(t, c.MeanExact, m.Mean, 1e-15)
				near(t, c.M2, m.M2)
				if c.Variance == nil {
					require.True(t, math.IsNaN(m.Variance()), "one value has no variance")
					continue
				}
				near(t, *c.Variance, m.Variance())
				near(t, math.Sqrt(*c.Variance), m.StdDev())
			}
		})
	}
}

// bins returns the histogram with these counts by number of the bin.
func bins(t *testing.T, counts map[string]float64, width float64) Histogram {
	t.Helper()
	var h Histogram
	for number, count := range counts {
		i, err := strconv.Atoi(number)
		require.NoError(t, err)
		h = append(h, Bin{float64(i) * width, float64(i+1) * width, count})
	}
	slices.SortFunc(h, func(a, b Bin) int { return int(math.Copysign(1, a.Lower-b.Lower)) })
	return h
}

// sameBins asserts that two histograms are the same to the tolerance.
func sameBins(t *testing.T, want, got Histogram) {
	t.Helper()
	require.Len(t, got, len(want), "%v", got)
	for i := range want {
		near(t, want[i].Lower, got[i].Lower)
		near(t, want[i].Upper, got[i].Upper)
		near(t, want[i].Count, got[i].Count, "from %v", want[i].Lower)
	}
}

// times returns a histogram with its counts multiplied.
func times(h Histogram, weight float64) Histogram {
	weighted := slices.Clone(h)
	for i := range weighted {
		weighted[i].Count *= weight
	}
	return weighted
}

func TestMergedHistogramsMatchTheVectors(t *testing.T) {
	v, _ := readVectors(t)
	c := v.HistogramMerge
	a, b := bins(t, c.A, c.Bucket), bins(t, c.B, c.Bucket)
	merged, err := MergeHistograms(a, b)
	require.NoError(t, err)
	sameBins(t, bins(t, c.Merged, c.Bucket), merged)
	weighted, err := MergeHistograms(times(a, c.Weights["a"]), times(b, c.Weights["b"]))
	require.NoError(t, err)
	sameBins(t, bins(t, c.Weighted, c.Bucket), weighted)
	for _, of := range []struct {
		histogram Histogram
		want      map[string]float64
	}{{merged, c.Percentiles}, {weighted, c.WeightedPercentile}} {
		require.NotEmpty(t, of.want)
		for percent, want := range of.want {
			p, err := strconv.ParseFloat(percent, 64)
			require.NoError(t, err)
			near(t, want, of.histogram.UpperQuantile(p/100), percent)
		}
	}
	near(t, c.MeanMidpoint, merged.Mean())

	rebinned, err := bins(t, c.Merged, v.Rebin.From).Rebin(v.Rebin.To)
	require.NoError(t, err)
	sameBins(t, bins(t, v.Rebin.Counts, v.Rebin.To), rebinned)
	near(t, v.Rebin.Total, rebinned.Total())
}

func TestTheWidthOfAMeasuredHistogramIsNeverBelowItsResolution(t *testing.T) {
	v, _ := readVectors(t)
	c := v.Sharded
	near(t, c.IQR, c.Q75-c.Q25)
	near(t, c.Width, FreedmanDiaconis(c.Q25, c.Q75, c.N, 0))
	near(t, 0.1, FreedmanDiaconis(c.Q25, c.Q75, c.N, 0.1))
}
