package paper_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/paper"
	"mcmw/lab/record"
)

// measured is a run of a synthetic record.
type measured struct {
	levels   map[string]string
	values   map[string]float64 // of the clients, by metric
	warnings []string
	idle     float64 // share of the processors' time
	failed   bool
	inside   map[string]float64 // of the middlewares, by metric
	samples  []record.Window    // of the hosts, instead of idle
}

// recordOf makes a record of runs; runs with the same levels are repetitions.
func recordOf(t *testing.T, manifest record.Manifest, runs []measured) *record.Record {
	r, err := record.Create(filepath.Join(t.TempDir(), manifest.Name), manifest)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	repetitions := map[string]int{}
	numbers := map[string]int{}
	for _, m := range runs {
		key := fmt.Sprint(m.levels)
		if _, ok := numbers[key]; !ok {
			numbers[key] = len(numbers)
		}
		run := record.Run{
			Point: numbers[key], Repetition: repetitions[key], State: record.Complete, Factors: m.levels,
			Seconds: 10, HostSamples: m.samples,
		}
		repetitions[key]++
		if m.failed {
			run.State, run.Error = record.Failed, "it broke"
		}
		for source, values := range map[string]map[string]float64{
			record.SourceClient:     m.values,
			record.SourceMiddleware: m.inside,
		} {
			for metric, v := range values {
				run.Results = append(run.Results, record.Value{Source: source, Metric: metric, Value: v})
			}
		}
		for _, code := range m.warnings {
			run.Warnings = append(run.Warnings, record.Warning{Code: code, Message: "it is so"})
		}
		if m.samples == nil {
			run.HostSamples = []record.Window{{Source: "host:vm", Seconds: 10, Metric: "cpu_idle", Value: m.idle}}
		}
		require.NoError(t, r.Add(run))
	}
	return r
}

// synthetic makes a record of an experiment on a testbed.
func synthetic(t *testing.T, name, testbed string, runs []measured) *record.Record {
	return recordOf(t, record.Manifest{Name: name, Testbed: testbed}, runs)
}

// at is a run with a throughput at some levels, on a machine that is half idle.
func at(throughput float64, levels ...string) measured {
	m := measured{levels: map[string]string{}, values: map[string]float64{"throughput": throughput}, idle: 0.5}
	for i := 0; i < len(levels); i += 2 {
		m.levels[levels[i]] = levels[i+1]
	}
	return m
}

// decide decides a claim with a rule.
func decide(t *testing.T, rule string, records ...*record.Record) paper.Finding {
	claims, err := paper.Parse("kuechler", "c.yaml", []byte(written(rule)))
	require.NoError(t, err)
	evidence, err := paper.NewEvidence(t.Context(), records)
	require.NoError(t, err)
	return claims.Decide(evidence)[0]
}

// saturating is a line that reaches 3000 with 12 clients.
func saturating() []measured {
	return []measured{
		at(1504.5, "clients", "6"), at(1505.5, "clients", "6"),
		at(2954.5, "clients", "12"), at(2955.5, "clients", "12"),
		at(2994.5, "clients", "96"), at(2995.5, "clients", "96"),
	}
}

func TestEachRuleIsDecidedFromRecords(t *testing.T) {
	line := func(t *testing.T) []*record.Record { return []*record.Record{synthetic(t, "a", "vm", saturating())} }
	growing := func(t *testing.T) []*record.Record {
		return []*record.Record{synthetic(t, "a", "vm", saturating()[:4])}
	}
	delays := func(t *testing.T) []*record.Record {
		runs := saturating()
		for i := range runs {
			runs[i].levels = map[string]string{"think_time": map[string]string{
				"6": "5ms", "12": "10ms",
				"96": "1s",
			}[runs[i].levels["clients"]]}
		}
		return []*record.Record{synthetic(t, "a", "vm", runs)}
	}
	pair := func(t *testing.T) []*record.Record {
		return []*record.Record{
			synthetic(t, "a", "vm", saturating()),
			synthetic(t, "b", "vm", []measured{
				at(1400, "clients", "6"), at(1500, "clients", "6"),
				at(1600, "clients", "6"),
			}),
		}
	}
	factorial := func(t *testing.T) []*record.Record {
		var runs []measured
		for _, s := range []string{"1", "3"} {
			for _, w := range []string{"8", "32"} {
				x := 1000.0
				if s == "3" {
					x += 900
				}
				if w == "32" {
					x += 100
				}
				runs = append(runs, at(x-5, "servers", s, "workers", w), at(x+5, "servers", s, "workers", w))
			}
		}
		return []*record.Record{synthetic(t, "a", "vm", runs)}
	}
	lawful := func(t *testing.T) []*record.Record {
		runs := saturating()
		for i := range runs {
			n := map[string]float64{"6": 6, "12": 12, "96": 96}[runs[i].levels["clients"]]
			runs[i].values["response_time_mean"] = 1.01 * n / runs[i].values["throughput"]
		}
		return []*record.Record{synthetic(t, "kuechler-a", "vm", runs)}
	}
	const plateau, knee, ratio = "plateau(throughput[a], clients) ", "knee(throughput[a], clients) ",
		"ratio(throughput[a, highest], [b]) "
	for name, tc := range map[string]struct {
		records func(*testing.T) []*record.Record
		rule    string
		want    paper.Verdict
		why     string
	}{
		"converges": {
			line, plateau + "in 2900..3050", paper.Confirmed,
			"2955 ops/s ± 0.21 % to 2995 ops/s ± 0.21 % at clients 12, 96; expected 2900 ops/s to 3050 ops/s, within " +
				"5 %",
		},
		"converges elsewhere": {
			line, plateau + "in 2990..3050", paper.Refuted,
			"2955 ops/s ± 0.21 % to 2995 ops/s ± 0.21 %",
		},
		"still grows": {
			growing, plateau + "in 1000..4000", paper.Refuted,
			"1505 ops/s ± 0.42 % to 2955 ops/s ± 0.21 % at clients 6, 12",
		},
		"too few levels": {
			line, "plateau(throughput[a, clients=6], clients) >= 1000",
			paper.NotComparable, "1 levels of clients; 2 are needed",
		},
		"saturates": {
			line, knee + "<= 12", paper.Confirmed,
			"saturated from clients 12, 2955 ops/s ± 0.21 % of 2995 ops/s ± 0.21 % at most, surely not at 6; " +
				"expected clients at most 12",
		},
		"saturates over durations": {
			delays, "knee(throughput[a], think_time) <= 10ms", paper.Confirmed,
			"saturated from think_time 10ms",
		},
		"saturates between levels": {line, knee + "<= 10", paper.Undecided, "from clients 12"},
		"saturates earlier":        {line, knee + "<= 6", paper.Refuted, "surely not at 6"},
		"converges, just": {
			line, plateau + "in 2950..3050", paper.Undecided,
			"expected 2950 ops/s to 3050 ops/s",
		},
		"interactions": {
			factorial, "share(throughput[a], interactions) <= 5%", paper.Confirmed,
			"interactions 0.0 %",
		},
		"saturates later": {line, knee + ">= 24", paper.Refuted, "saturated from clients 12"},
		"ratio": {
			pair, ratio + ">= 1.2", paper.Confirmed,
			"2995 ops/s at a, clients=96 to 1500 ops/s at b: ratio 2",
		},
		"another ratio":                 {pair, ratio + "<= 1.2", paper.Refuted, "ratio 2"},
		"ratio that isn't known enough": {pair, ratio + "in 1.95..2.05", paper.Undecided, "expected 1.95 to 2.05"},
		"several points": {
			pair, "ratio(throughput[a], [b]) >= 1", paper.NotComparable,
			"a has several points: clients vary",
		},
		"one repetition": {
			line, "ratio(throughput[a, clients=6], [a, clients=7]) >= 1",
			paper.NotComparable, "there are no runs of a (clients=7)",
		},
		"share": {
			factorial, "share(throughput[a], servers) >= 90%", paper.Confirmed,
			"servers explains 98.8 %, workers explains 1.2 %, interactions 0.0 %; expected of servers at least 90.0 %",
		},
		"smaller share": {
			factorial, "share(throughput[a], servers) <= 90%", paper.Refuted,
			"servers explains 98.8 %",
		},
		"order": {
			factorial, "lead(throughput[a], servers) > 0", paper.Confirmed,
			"expected more of servers than of workers",
		},
		"another order": {
			factorial, "lead(throughput[a], workers) > 0", paper.Refuted,
			"servers explains 98.8 %",
		},
		"law": {
			lawful, "law_error(throughput) <= 2%", paper.Confirmed,
			"in 6 valid runs; expected within 2 %",
		},
		"law of the named": {
			lawful, "law_error(throughput[kuechler-a]) <= 0.5%", paper.Refuted,
			"off by at most +0.99 % (run ",
		},
		"law of others": {
			line, "law_error(throughput) <= 2%", paper.NotComparable,
			"there is no record of kuechler",
		},
		"no record": {
			line, "plateau(throughput[c], clients) >= 1", paper.NotComparable,
			"there is no record of c",
		},
		"metric not measured": {
			line, "plateau(misses[a], clients) >= 1", paper.NotComparable,
			"client.misses was not measured in a",
		},
		"all": {
			line, "['" + knee + "<= 12', '" + plateau + ">= 2900']", paper.Confirmed,
			"at most 12; 2955",
		},
		"one of all isn't so": {line, "['" + knee + "<= 12', '" + plateau + ">= 3900']", paper.Refuted, ""},
		"one of all is open": {
			line, "['law_error(throughput) <= 10%', '" + plateau + ">= 2900']",
			paper.NotComparable, "",
		},
		"one open, one not so": {
			line, "['law_error(throughput) <= 10%', '" + plateau + ">= 3900']",
			paper.Refuted, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(t, tc.rule, tc.records(t)...)
			require.Equal(t, tc.want, got.Verdict, got.Why)
			require.Contains(t, got.Why, tc.why)
		})
	}
}

func TestEveryLineOfASelectionMustConverge(t *testing.T) {
	rule := "plateau(throughput[a], clients) in 2900..3100"
	runs := []measured{
		at(3000, "clients", "6", "workers", "8"), at(3010, "clients", "12", "workers", "8"),
		at(3000, "clients", "6", "workers", "64"), at(2000, "clients", "12", "workers", "64"),
	}
	runs = slices.Concat(runs, runs)
	got := decide(t, rule, synthetic(t, "a", "vm", runs))
	require.Equal(t, paper.Refuted, got.Verdict)
	require.Contains(t, got.Why, "workers=64: 2000 ops/s ± 0 % to 3000 ops/s ± 0 %")
	got = decide(t, "plateau(throughput[a, workers=8], clients) in 2900..3100", synthetic(t, "a", "vm", runs))
	require.Equal(t, paper.Confirmed, got.Verdict)
}

func TestInvalidRunsDecideNothing(t *testing.T) {
	const rule = "plateau(throughput[a], clients) in 2900..3050"
	for name, tc := range map[string]struct {
		spoil func(runs []measured)
		want  paper.Verdict
		why   string
	}{
		"as they are": {func([]measured) {}, paper.Confirmed, ""},
		"one repetition is bad": {func(r []measured) {
			r[4].warnings = []string{"errors"}
			r[4].values["throughput"] = 1
		}, paper.Confirmed, ""},
		"one repetition failed": {func(r []measured) { r[4].failed = true }, paper.Confirmed, ""},
		"all of a point are bad": {func(r []measured) {
			r[4].warnings, r[5].failed, r[6].failed = []string{"generator_saturated"}, true, true
		}, paper.NotComparable, "a has no valid run at clients=96 (generator_saturated, run_failed)"},
		"an unsteady run": {
			func(r []measured) { r[4].warnings = []string{"window_variation"} },
			paper.Confirmed, "",
		},
		"the processors are used": {
			func(r []measured) { r[4].idle = 0.05 }, paper.NotComparable,
			"in use for up to 95 % of the time (1 of 5 runs of a above 90 %)",
		},
		"used where it is not": {func(r []measured) { r[0].idle = 0.05 }, paper.Confirmed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			runs := slices.Insert(saturating(), 6, at(2995, "clients", "96"))
			tc.spoil(runs)
			got := decide(t, rule, synthetic(t, "a", "vm", runs))
			require.Equal(t, tc.want, got.Verdict, got.Why)
			require.Contains(t, got.Why, tc.why)
		})
	}
}

func TestARatioIsDecidedIfExhaustedProcessorsOnlyMadeItHarder(t *testing.T) {
	for name, tc := range map[string]struct {
		rule     string
		of, to   bool // exhausted their processors
		want     paper.Verdict
		allMore  bool
		slowerBy float64 // if not 0, compare response times: those of a are so many times those of b
	}{
		"nobody":                               {">= 1.5", false, false, paper.Confirmed, false, 0},
		"higher, though less than it is":       {">= 1.5", true, false, paper.Confirmed, true, 0},
		"higher, as the other is less":         {">= 1.5", false, true, paper.NotComparable, false, 0},
		"not higher, though the other is less": {">= 3", false, true, paper.Refuted, true, 0},
		"not higher, being less itself":        {">= 3", true, false, paper.NotComparable, false, 0},
		"lower, though the other is less":      {"<= 3", false, true, paper.Confirmed, true, 0},
		"lower, being less itself":             {"<= 3", true, false, paper.NotComparable, false, 0},
		"both":                                 {">= 1.5", true, true, paper.NotComparable, false, 0},
		"in a range":                           {"in 1.5..3", true, false, paper.NotComparable, false, 0},
		"slower, being slowed itself":          {">= 1.5", true, false, paper.NotComparable, false, 2},
		"slower, though the other is slowed":   {">= 1.5", false, true, paper.Confirmed, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			point := func(x, r float64, exhausted bool) []measured {
				runs := []measured{at(0.99*x, "clients", "6"), at(1.01*x, "clients", "6"), at(x, "clients", "6")}
				for i := range runs {
					runs[i].values["response_time_mean"] = r * (1 + 0.01*float64(i))
					if exhausted {
						runs[i].idle = 0.05
					}
				}
				return runs
			}
			metric := "client.throughput"
			if tc.slowerBy > 0 {
				metric = "client.response_time_mean"
			}
			got := decide(t, "ratio("+metric+"[a], [b]) "+tc.rule,
				synthetic(t, "a", "vm", point(2000, tc.slowerBy, tc.of)),
				synthetic(t, "b", "vm", point(1000, 1, tc.to)))
			require.Equal(t, tc.want, got.Verdict, got.Why)
			require.Equal(t, tc.allMore, strings.Contains(got.Why,
				", all the more because the processors of the machine"), got.Why)
		})
	}
}

func TestExhaustedProcessorsDoNotDecideAnImpreciseRatio(t *testing.T) {
	imprecise := []measured{at(500, "clients", "6"), at(2000, "clients", "6"), at(3500, "clients", "6")}
	precise := []measured{at(990, "clients", "6"), at(1000, "clients", "6"), at(1010, "clients", "6")}
	for i := range imprecise {
		imprecise[i].idle = 0.05
	}
	got := decide(t, "ratio(throughput[a], [b]) <= 0.95", synthetic(t, "a", "vm", imprecise),
		synthetic(t, "b", "vm", precise))
	require.Equal(t, paper.NotComparable, got.Verdict, "the interval reaches into the range: %s", got.Why)
}

func TestOnlyTheMachineThatEmulatesOthersMustNotBeBusy(t *testing.T) {
	for name, tc := range map[string]struct {
		idle map[string]float64 // by source
		want paper.Verdict
	}{
		"one is busy":          {map[string]float64{"host:server-0": 0.01, "host": 0.4}, paper.Confirmed},
		"the real one is busy": {map[string]float64{"host:server-0": 0.4, "host": 0.05}, paper.NotComparable},
		"on its own it counts": {map[string]float64{"host:server-0": 0.05}, paper.NotComparable},
	} {
		t.Run(name, func(t *testing.T) {
			runs := []measured{
				at(3000, "clients", "6"), at(3000, "clients", "12"), at(3000, "clients", "6"),
				at(3000, "clients", "12"),
			}
			for i := range runs {
				for source, idle := range tc.idle {
					runs[i].samples = append(runs[i].samples,
						record.Window{Source: source, Seconds: 10, Metric: "cpu_idle", Value: idle})
				}
			}
			got := decide(t, "plateau(throughput[a], clients) >= 2900", synthetic(t, "a", "vm", runs))
			require.Equal(t, tc.want, got.Verdict, got.Why)
		})
	}
}

func TestRecordsOfTheTestbedLocalDecideNothingAboutTheReportsMachines(t *testing.T) {
	claims, err := paper.Parse("kuechler", "c.yaml", []byte(written("knee(throughput[a], clients) >= 1")))
	require.NoError(t, err)
	for testbed, want := range map[string]paper.Verdict{
		"local": paper.NotComparable, "vm": paper.Confirmed,
		"ssh": paper.Confirmed,
	} {
		evidence, err := paper.NewEvidence(t.Context(), []*record.Record{synthetic(t, "a", testbed, saturating())})
		require.NoError(t, err)
		require.Equal(t, want, claims.Decide(evidence)[0].Verdict, testbed)
	}
}

// delayed is a record of emulated machines with a delay of packets, seconds, and a utilization of the load's upload.
func delayed(t *testing.T, name string, delay, upload float64, runs []measured) *record.Record {
	runs = slices.Clone(runs)
	for i := range runs {
		runs[i].inside = map[string]float64{"busy_workers_mean": 7.9}
		runs[i].samples = []record.Window{{
			Source: "host:load-0", Seconds: 10, Metric: "net_tx_bytes",
			Value: upload * 1e6,
		}, {Source: "host", Seconds: 10, Metric: "cpu_idle", Value: 0.5}}
	}
	machines := []record.Machine{{Name: "server-0", Delay: delay}, {Name: "load-0", Delay: delay, Upload: 1e6}}
	return recordOf(t, record.Manifest{Name: name, Testbed: "vm", Machines: machines}, runs)
}

// about returns runs of a point with about the throughput x.
func about(x float64, levels ...string) []measured {
	return []measured{at(0.999*x, levels...), at(x, levels...), at(1.001*x, levels...)}
}

// verdictOf decides a claim with these keys. The delay in the report is half a millisecond.
func verdictOf(t *testing.T, keys string, records ...*record.Record) paper.Finding {
	t.Helper()
	claims, err := paper.Parse("kuechler", "c.yaml",
		[]byte("travel: 0.5ms\nfindings:\n  - {section: a, text: b, "+keys+"}\n"))
	require.NoError(t, err)
	evidence, err := paper.NewEvidence(t.Context(), records)
	require.NoError(t, err)
	return claims.Decide(evidence)[0]
}

func TestAFindingIsDecidedWithEachDelay(t *testing.T) {
	const rule = "delay: true, holds: 'ratio(throughput[a, workers=64], [a, workers=8]) >= 1.5'"
	with := func(delay, ratio float64) *record.Record {
		return delayed(t, "a", delay, 0.1,
			slices.Concat(about(1000, "workers", "8"), about(1000*ratio, "workers", "64")))
	}
	got := verdictOf(t, rule, with(0.4e-3, 1.8))
	require.Equal(t, paper.NotComparable, got.Verdict)
	require.Contains(t, got.Why, "made with a delay of 0.4 ms, not with 0.5 ms as all of the report's suites")
	got = verdictOf(t, rule, with(0.4e-3, 1.8), with(0.5e-3, 1.7), with(0.75e-3, 1.6))
	require.Equal(t, paper.Confirmed, got.Verdict, got.Why)
	require.Len(t, got.Over, 3)
	got = verdictOf(t, rule, with(0.4e-3, 1.2), with(0.5e-3, 1.7), with(0.75e-3, 2))
	require.Equal(t, paper.DependsOnDelay, got.Verdict)
	require.Contains(t, got.Why, "it holds with a delay of 0.5 ms, 0.75 ms, not of 0.4 ms; with 0.5 ms: ")
}

func TestFindingsByConstructionOrWithAnotherCauseAreNotConfirmed(t *testing.T) {
	const rule = "holds: 'plateau(throughput[a], clients) in 2900..3100'"
	line := slices.Concat(about(3000, "clients", "6", "workers", "8", "middlewares", "1"),
		about(3010, "clients", "12", "workers", "8", "middlewares", "1"))
	free, full := delayed(t, "a", 0.5e-3, 0.1, line), delayed(t, "a", 0.5e-3, 0.97, line)
	require.Equal(t, paper.Confirmed, verdictOf(t, rule, free).Verdict)
	got := verdictOf(t, "construction: the upload is so, "+rule, free)
	require.Equal(t, paper.ByConstruction, got.Verdict)
	require.Contains(t, got.Why, "follows from the testbed: the upload is so")
	got = verdictOf(t, "construction: the upload is so, "+strings.Replace(rule, "3100", "2950", 1), free)
	require.Equal(t, paper.Refuted, got.Verdict, "a configured result can be missed, too")

	const cause = "cause: 'bottleneck([a, highest]) is workers', "
	got = verdictOf(t, cause+rule, free)
	require.Equal(t, paper.Confirmed, got.Verdict, got.Why)
	got = verdictOf(t, cause+rule, full)
	require.Equal(t, paper.OtherCause, got.Verdict, got.Why)
	require.Contains(t, got.Why, "limited by the upload of the load machines")
}

func TestPointsLimitedByTheLoadsUploadAreNotCompared(t *testing.T) {
	const rule = "holds: 'ratio(throughput[a, workers=64], [a, workers=8]) in 0.9..1.1'"
	alike := slices.Concat(about(1000, "workers", "8"), about(1001, "workers", "64"))
	require.Equal(t, paper.Confirmed, verdictOf(t, rule, delayed(t, "a", 0.5e-3, 0.2, alike)).Verdict)
	got := verdictOf(t, rule, delayed(t, "a", 0.5e-3, 0.98, alike))
	require.Equal(t, paper.NotComparable, got.Verdict)
	require.Contains(t, got.Why, "both are limited by the upload of the load machines")
	require.Equal(t, paper.ByConstruction,
		verdictOf(t, "construction: that is what it is about, "+rule, delayed(t, "a", 0.5e-3, 0.98, alike)).Verdict)
}

func TestTwoRecordsOfOneExperimentAreRefused(t *testing.T) {
	_, err := paper.NewEvidence(t.Context(),
		[]*record.Record{synthetic(t, "a", "vm", saturating()), synthetic(t, "a", "vm", saturating())})
	require.ErrorContains(t, err, "are both records of a; expected only one of them")
}

// TestAModelIsJudgedNearAndAwayFromSaturation has a system of ten workers that need 10 ms each if all are busy, and 4
// ms alone. M/M/m takes the highest throughput as the capacity, which is good with as many clients as workers, and bad
// with few clients.
func TestAModelIsJudgedNearAndAwayFromSaturation(t *testing.T) {
	var runs []measured
	for _, n := range []int{2, 10, 100} {
		x := map[int]float64{2: 500, 10: 800, 100: 1000}[n]
		r := float64(n) / x
		for _, noise := range []float64{0.99, 1.01} {
			m := at(x*noise, "clients", fmt.Sprint(n), "workers", "10", "middlewares", "1", "servers", "1", "depth",
				"1", "pipeline", "1", "replicas", "all")
			m.values["response_time_mean"] = r / noise
			m.inside = map[string]float64{
				"throughput": x * noise, "response_time_mean": r, "stage_net_mean": 0,
				"stage_queue_mean": max(0, r-0.010), "stage_worker_mean": 1e-4,
				"stage_server_mean": 0.0098, "stage_reply_mean": 1e-4, "queue_length_mean": max(0, float64(n)-10),
				"busy_workers_mean": min(float64(n), 10),
			}
			runs = append(runs, m)
		}
	}
	const rule = "model_error(mean[a], M/M/m, 0.5..1.5) <= %s"
	got := decide(t, fmt.Sprintf(rule, "0.2"), synthetic(t, "a", "vm", runs))
	require.Equal(t, paper.Confirmed, got.Verdict, got.Why)
	require.Contains(t, got.Why, "at 1 points with 0.5 to 1.5 clients per worker")
	got = decide(t, fmt.Sprintf(rule, "0.0001"), synthetic(t, "a", "vm", runs))
	require.Equal(t, paper.Refuted, got.Verdict, got.Why)
	got = decide(t, "model_error(mean[a], M/M/m, 0.01..1e9) <= 0.1", synthetic(t, "a", "vm", runs))
	require.Equal(t, paper.NotComparable, got.Verdict, got.Why)
}
