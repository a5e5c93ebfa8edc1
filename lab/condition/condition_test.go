package condition_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/condition"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// everything accepts every function.
var everything = condition.Scope{
	Source: record.SourceClient, Runs: true,
	Functions: map[string]string{
		"": "", "change": "metric", "ratio": "metric runs?", "knee": "metric factor",
		"model_error": "metric model range", "bottleneck": "runs",
	},
	Known: map[string]func(string) error{
		"factor": condition.Suggest("a setting", []string{"clients", "workers", "ratio", "case"}),
		"model":  condition.Suggest("a model", []string{"M/M/m"}),
	},
}

func parse(t *testing.T, text string) condition.Condition {
	t.Helper()
	c, err := condition.Parse(text, everything)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(text), c.Text)
	return c
}

func TestTermsAreRead(t *testing.T) {
	runs := condition.Runs{
		Record: "sweep-1", Where: map[string]string{"workers": "64", "case": "no load"},
		Highest: true,
	}
	for text, want := range map[string]condition.Term{
		"throughput":                       {Metric: frame.Metric{Source: "client", Name: "throughput"}},
		"p99.9":                            {Metric: frame.Metric{Source: "client", Name: "response_time_p999"}},
		"server:10.0.0.1:11211.throughput": {Metric: frame.Metric{Source: "server:10.0.0.1:11211", Name: "throughput"}},
		"middleware.mean[sweep-1, workers=64,case=no load, highest]": {
			Metric: frame.Metric{Source: "middleware", Name: "response_time_mean"}, Runs: []condition.Runs{runs},
		},
		"ratio(throughput[a], [b, ratio=1:8:1])": {
			Function: "ratio", Metric: frame.Metric{Source: "client", Name: "throughput"},
			Runs: []condition.Runs{{Record: "a"}, {Record: "b", Where: map[string]string{"ratio": "1:8:1"}}},
		},
		"ratio( throughput )": {Function: "ratio", Metric: frame.Metric{Source: "client", Name: "throughput"}},
		"knee(throughput[a], clients)": {
			Function: "knee", Metric: frame.Metric{Source: "client", Name: "throughput"},
			Runs: []condition.Runs{{Record: "a"}}, Words: []string{"clients"},
		},
		"model_error(mean[a], M/M/m, 0.7..1.5)": {
			Function: "model_error", Metric: frame.Metric{Source: "client", Name: "response_time_mean"},
			Runs:  []condition.Runs{{Record: "a"}},
			Words: []string{"M/M/m"}, Range: sample.Interval{Low: 0.7, High: 1.5},
		},
	} {
		got, err := condition.ParseTerm(text, everything)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestBoundsAreKeptInBaseUnits(t *testing.T) {
	for text, want := range map[string][2]float64{
		"p99<1ms": {math.Inf(-1), 1e-3}, "mean >= 500 us": {500e-6, math.Inf(1)}, "max < 1.5h": {math.Inf(-1), 5400},
		"mean > 0":            {0, math.Inf(1)},
		"throughput >= 5e4/s": {5e4, math.Inf(1)}, "throughput in 2900..3050": {2900, 3050},
		"errors < 1":               {math.Inf(-1), 1},
		"change(throughput) < -5%": {math.Inf(-1), -0.05}, "ratio(throughput) in 95 %..1.05": {0.95, 1.05},
		"middleware.memory_peak < 2GiB":        {math.Inf(-1), 2 << 30},
		"knee(throughput[a], clients) <= 10ms": {math.Inf(-1), 0.01},
	} {
		c := parse(t, text)
		require.InDelta(t, 0, max(0, diff(c.Low, want[0]), diff(c.High, want[1])), 1e-12, text)
	}
	require.Equal(t, []string{"processor of", "workers"}, parse(t, "bottleneck([a]) is processor of or workers").Names)
}

func diff(a, b float64) float64 {
	if a == b {
		return 0
	}
	return math.Abs(a - b)
}

func TestAnIntervalIsJudgedAsAWhole(t *testing.T) {
	for _, tc := range []struct {
		text      string
		low, high float64
		want      condition.Verdict
	}{
		{"errors < 5", 3, 4, condition.Holds},
		{"errors < 5", 3, 5, condition.Unknown},
		{"errors <= 5", 3, 5, condition.Holds},
		{"errors < 5", 5, 6, condition.Broken},
		{"errors <= 5", 5, 6, condition.Unknown},
		{"errors > 5", 4, 5, condition.Broken},
		{"errors >= 5", 5, 5, condition.Holds},
		{"errors in 3..5", 3, 5, condition.Holds},
		{"errors in 3..5", 1, 2, condition.Broken},
		{"errors in 3..5", 2, 6, condition.Unknown},
		{"errors < 5", math.Inf(-1), math.Inf(1), condition.Unknown},
	} {
		require.Equal(t, tc.want, parse(t, tc.text).Judge(sample.Interval{Low: tc.low, High: tc.high}),
			"%s of %v to %v", tc.text, tc.low, tc.high)
	}
	require.Equal(t, condition.Broken, condition.All(condition.Holds, condition.Broken, condition.Unknown))
	require.Equal(t, condition.Unknown, condition.All(condition.Holds, condition.Unknown))
	require.Equal(t, condition.Holds, condition.All())
}

func TestErrorsSayWhereWhatWasExpected(t *testing.T) {
	const metric, relation = "expected a metric such as throughput or p99", "expected <, <=, >, >= or in, not"
	for text, want := range map[string]string{
		"":                            `"", character 1: ` + metric + " or bottleneck(...) or change(...)",
		"p98<1ms":                     `"p98<1ms", character 1: ` + metric + `, not "p98"`,
		"p99":                         "character 4: " + relation + " the end",
		"p99 = 1ms":                   `character 5: ` + relation + ` "="`,
		"p99 < 1":                     "character 7: expected a number with a unit: ns, us, ms, s, m, h, not \"1\"",
		"errors < few":                `character 10: expected a number, not "few"`,
		"throughput < 5ms":            `character 14: expected a number, optionally with /s, not "5ms"`,
		"throughput < -5%":            "optionally with /s (a change is written change(METRIC)), not \"-5%\"",
		"throughput < 1.2.3":          `character 17: expected the end, not ".3"`,
		"throughput < 1 or x":         `character 16: expected the end, not "or"`,
		"throughput < 1e999":          "character 14: expected a number",
		"speed(throughput) < 1":       `character 1: expected a metric such as throughput or p99 or bottleneck(...)`,
		"knee(throughput[a]) < 1":     `character 19: expected a comma and factor of knee, not ")"`,
		"knee(throughput, wheels)<1":  `character 18: expected a setting, not "wheels"`,
		"knee(throughput, worker)<1":  "a setting; did you mean workers?",
		"ratio(throughput < 1":        `character 18: expected a closing parenthesis of ratio, not "<"`,
		"throughput[A] < 1":           `character 12: expected the name of an experiment, not "A"`,
		"throughput[a, wheels=3] < 1": `character 15: expected a setting, not "wheels"`,
		"throughput[a, workers] < 1":  `character 15: expected FACTOR=LEVEL or highest, not "workers"`,
		"throughput[a < 1":            `character 14: expected a comma or ], not "<"`,
		"throughput[a, workers=1, workers=2] < 1": "expected every factor once",
		"throughput in 3":                         "character 16: expected LOW..HIGH, not the end",
		"throughput in 3..2":                      "character 15: expected a low end below the high one",
		"bottleneck([a]) < 3":                     `character 17: expected "is" and the name of a component`,
		"bottleneck([a]) is workers or ":          "",
		"bottleneck([a]) is ":                     "expected",
		"µ < 1":                                   `"µ < 1", character 1: `,
	} {
		_, err := condition.Parse(text, everything)
		if want == "" {
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
	_, err := condition.Parse("ratio(throughput) > 1", condition.Scope{Functions: map[string]string{"": ""}})
	require.ErrorContains(t, err, "expected a metric such as client.response_time_p99, not \"ratio\"")
	_, err = condition.Parse("throughput > 1", condition.Scope{Functions: map[string]string{"": ""}})
	require.ErrorContains(t, err, "expected a metric such as client.response_time_p99, not \"throughput\"")
}

// FuzzParse checks that any text is read or refused, and that the bounds of what is read are judged as they are
// written.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"p99<1ms", "change(throughput) < -5%", "server:a.throughput>=1e5",
		"ratio(throughput[a, workers=64, highest], [b]) in 0.95..1.05", "knee(mean[a], clients) <= 10ms",
		"model_error(mean[a], M/M/m, 0.7..1.5) <= 15%", "bottleneck([a, case=x y]) is processor of or workers",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := condition.Parse(text, everything)
		if err != nil {
			return
		}
		if c.Names == nil {
			bound, _ := c.Bound()
			require.Equal(t, !c.Strict, c.Holds(bound), text)
		}
		again, err := condition.Parse(c.Text, everything)
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}
