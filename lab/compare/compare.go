package compare

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Options select what to compare.
type Options struct {
	Metrics    []string // METRIC of the clients, or SOURCE.METRIC; empty: DefaultMetrics
	Confidence float64  // of intervals; 0: DefaultConfidence
	// Paired: the runs of a repetition were made one after the other, so that their ratios are meaningful.
	Paired bool
}

// DefaultConfidence is the default confidence of the intervals.
const DefaultConfidence = 0.95

// DefaultMetrics are compared by default.
var DefaultMetrics = []string{"throughput", "response_time_mean", "response_time_p50", "response_time_p99"}

// DefaultRatios are the default metrics for ratios of paired runs.
var DefaultRatios = []string{
	"throughput", "middleware.cpu_per_request", "middleware.calls_per_request", "response_time_p50",
	"response_time_p99", "servers.cpu_per_request", "cpu_per_request",
	"middleware.memory_peak",
}

// Comparison has the differences between two records.
type Comparison struct {
	Source     string  `json:"source"` // of the metrics without one: the clients
	Confidence float64 `json:"confidence"`
	// Differs has the factors that are constant in each record but not the same in both: the levels in A and B, by
	// name.
	Differs map[string][2]string `json:"differs,omitempty"`
	Points  []Point              `json:"points"`
	// Means are the changes over all points, of the metrics that more than one point has.
	Means []GeometricMean `json:"geometric_means,omitempty"`
	// OnlyA and OnlyB have the labels of the points that only one record has.
	OnlyA []string `json:"only_a,omitempty"`
	OnlyB []string `json:"only_b,omitempty"`
}

// Point is one point in both records.
type Point struct {
	Label    string            `json:"label"` // levels of the varying factors
	Factors  map[string]string `json:"factors"`
	Metrics  []Metric          `json:"metrics"`
	Warnings Warnings          `json:"warnings"`
}

// Warnings counts the violated checks of the runs of a point.
type Warnings struct {
	A int `json:"a"`
	B int `json:"b"`
}

// Metric is one metric of a point in both records.
type Metric struct {
	Name string `json:"name"`
	A    Sample `json:"a"`
	B    Sample `json:"b"`
	// Change is the ratio of the means minus 1; unknown if a mean is missing or A's is 0.
	Change         sample.Number   `json:"change"`
	ChangeInterval sample.Interval `json:"change_interval"`
	// Effect is Hedges' g. WelchP and RankP are the probabilities of a difference at least this large if there is none,
	// by Welch's test of means and by Mann and Whitney's test of ranks.
	Effect sample.Number `json:"effect_size"`
	WelchP sample.Number `json:"welch_p"`
	RankP  sample.Number `json:"rank_p"`
	// Ratio is the ratio of B's values to A's over the runs of one repetition; nil if the runs aren't paired.
	Ratio *sample.Estimate `json:"ratio,omitempty"`
}

// Sample has the values of a metric over the repetitions of a point, in its unit.
type Sample struct {
	Values []float64
	sample.Estimate
}

// MarshalJSON writes the values, their mean and standard deviation, and the interval of the mean.
func (s Sample) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Values   []float64       `json:"values"`
		Mean     sample.Number   `json:"mean"`
		StdDev   sample.Number   `json:"stddev"`
		Interval sample.Interval `json:"interval"`
	}{s.Values, s.mean(), sample.Number(s.StdDev()), s.Interval})
}

// mean returns the mean, which is unknown without values.
func (s Sample) mean() sample.Number {
	if !s.OK() {
		return sample.Number(math.NaN())
	}
	return sample.Number(s.Mean)
}

// New compares the runs of two records. Points match if they have the same levels of every factor that both records
// have and that varies in at least one of them.
func New(a, b []record.Run, o Options) *Comparison {
	if len(o.Metrics) == 0 {
		o.Metrics = DefaultMetrics
	}
	o.Confidence = cmp.Or(o.Confidence, DefaultConfidence)
	c := &Comparison{Source: record.SourceClient, Confidence: o.Confidence, Differs: map[string][2]string{}}
	constantA, constantB := record.Constant(a), record.Constant(b)
	for name, level := range constantA {
		if other, ok := constantB[name]; ok && other != level {
			c.Differs[name] = [2]string{level, other}
		}
	}
	keys := keyFactors(a, b)
	pointsA, pointsB := frame.By(a, keys, o.Confidence).Points, frame.By(b, keys, o.Confidence).Points
	slices.SortStableFunc(pointsA, func(p, q frame.Point) int { return frame.Compare(p.Levels, q.Levels, keys) })
	labelOf := func(p frame.Point) string { return record.Label(p.Levels, keys) }
	for _, before := range pointsA {
		label := labelOf(before)
		at := slices.IndexFunc(pointsB, func(p frame.Point) bool { return labelOf(p) == label })
		if at < 0 {
			c.OnlyA = append(c.OnlyA, label)
			continue
		}
		after := pointsB[at]
		pointsB = slices.Delete(pointsB, at, at+1)
		p := Point{Label: label, Factors: before.Levels, Warnings: Warnings{before.Warned(), after.Warned()}}
		for _, metric := range o.Metrics {
			of, _ := frame.ParseMetric(metric, record.SourceClient)
			first, second := before.Values(of.Source, of.Name), after.Values(of.Source, of.Name)
			if first == nil && second == nil {
				continue
			}
			m := compareSamples(metric, first, second, o.Confidence)
			if o.Paired {
				ratio := after.PairedRatio(before, of.Of, o.Confidence)
				m.Ratio = &ratio
			}
			p.Metrics = append(p.Metrics, m)
		}
		c.Points = append(c.Points, p)
	}
	for _, p := range pointsB {
		c.OnlyB = append(c.OnlyB, labelOf(p))
	}
	slices.Sort(c.OnlyB)
	c.Means = c.geometricMeans()
	return c
}

// keyFactors returns the factors that both records have and that vary in at least one.
func keyFactors(a, b []record.Run) []string {
	keys := slices.Concat(record.Varying(a), record.Varying(b))
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Compact(keys), func(name string) bool { return !has(a, name) || !has(b, name) })
}

func has(runs []record.Run, factor string) bool {
	return slices.ContainsFunc(runs, func(run record.Run) bool { _, ok := run.Factors[factor]; return ok })
}

func compareSamples(name string, first, second []float64, confidence float64) Metric {
	a, b := sample.Of(first), sample.Of(second)
	m := Metric{
		Name: name, A: Sample{first, a.Estimate(confidence)}, B: Sample{second, b.Estimate(confidence)},
		Change: sample.Number(math.NaN()),
	}
	ratio := sample.Ratio(b, a, confidence)
	if ratio.OK() {
		m.Change = sample.Number(ratio.Mean - 1)
	}
	m.ChangeInterval = sample.Interval{Low: ratio.Low - 1, High: ratio.High - 1}
	m.Effect = sample.Number(sample.EffectSize(a, b))
	m.WelchP = sample.Number(sample.Welch(a, b, confidence).P)
	_, p := sample.MannWhitney(first, second)
	m.RankP = sample.Number(p)
	return m
}
