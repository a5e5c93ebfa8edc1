package bench

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/lab/kernel"
	"mcmw/internal/lab/load"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestTheMedianIsTheMiddleOfTheSortedValues(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{2, 2, 100}, 2},
	} {
		assert.InDelta(t, tt.want, median(tt.values), 1e-12, "%v", tt.values)
	}
	values := []float64{3, 1, 2}
	median(values)
	assert.Equal(t, []float64{3, 1, 2}, values, "the values stay in their order")
}

func TestASpreadHoldsTheMedianBetweenTheExtremes(t *testing.T) {
	assert.Equal(t, Spread{Rounds: 3, Median: 1.1, Min: 0.9, Max: 1.3}, spreadOf([]float64{1.3, 0.9, 1.1}))
	assert.Equal(t, "1.10 (0.90 to 1.30)", spreadOf([]float64{1.3, 0.9, 1.1}).String())
	assert.Equal(t, "-", spreadOf(nil).String())
}

// measured makes a measurement whose quantities are told apart by their values.
func measured(workload, system string, round int, ops float64, cpu, p99 time.Duration) Measurement {
	m := Measurement{
		Workload: workload, System: system, Round: round, OpsPerSec: ops, Requests: uint64(ops), CPUPerRequest: cpu,
		Latency:   load.Latency{P50: p99 / 4, P99: p99, P999: 2 * p99},
		Generator: load.Usage{Busy: 0.5, BusyOrWaiting: 0.75, Limit: load.LimitNone},
	}
	if cpu > 0 {
		m.PeakMemory = 8 << 20
	}
	return m
}

func TestRatiosAreTakenWithinARoundAndNotOfMedians(t *testing.T) {
	workloads := []Workload{{Name: "w"}}
	// Throughput of round 2 is half that of the others for both: the machine was disturbed.
	all := []Measurement{
		measured("w", Twemproxy, 1, 100, 10*time.Microsecond, 4*time.Millisecond),
		measured("w", Mcmw, 1, 120, 9*time.Microsecond, 3*time.Millisecond),
		measured("w", Mcmw, 2, 60, 8*time.Microsecond, 6*time.Millisecond),
		measured("w", Twemproxy, 2, 50, 10*time.Microsecond, 8*time.Millisecond),
		measured("w", Twemproxy, 3, 100, 20*time.Microsecond, 4*time.Millisecond),
		measured("w", Mcmw, 3, 110, 10*time.Microsecond, 6*time.Millisecond),
		measured("w", Mcmw, 4, 1000, time.Microsecond, time.Millisecond), // without its counterpart: the benchmark was interrupted
	}
	summaries := summarise(workloads, []string{Twemproxy, Mcmw}, Twemproxy, all)
	require.Len(t, summaries, 1)
	require.Len(t, summaries[0].Ratios, 1)
	r := summaries[0].Ratios[0]
	assert.Equal(t, "mcmw / twemproxy", r.System+" / "+r.To)
	assert.Equal(t, Spread{Rounds: 3, Median: 1.2, Min: 1.1, Max: 1.2}, r.Throughput)
	assert.Equal(t, Spread{Rounds: 3, Median: 0.8, Min: 0.5, Max: 0.9}, r.CPUPerRequest)
	assert.Equal(t, Spread{Rounds: 3, Median: 0.75, Min: 0.75, Max: 1.5}, r.P99)
	assert.Equal(t, Spread{Rounds: 3, Median: 0.75, Min: 0.75, Max: 1.5}, r.P50)
	assert.Equal(t, 4, summaries[0].Systems[1].Rounds)
	assert.InDelta(t, 115, summaries[0].Systems[1].OpsPerSec, 1e-9)
}

func TestVariantsAreComparedWithTheBaselineAndWithMcmw(t *testing.T) {
	workloads := []Workload{{Name: "w"}, {Name: "not measured"}}
	systems := []string{Direct, Twemproxy, Mcmw, "new"}
	var all []Measurement
	for i, s := range systems {
		cpu := time.Duration(i) * time.Microsecond // none for direct
		all = append(all, measured("w", s, 1, float64(100*(i+1)), cpu, time.Millisecond))
	}
	compared := func(baseline string) (pairs []string) {
		summaries := summarise(workloads, systems, baseline, all)
		require.Len(t, summaries, 1)
		for _, r := range summaries[0].Ratios {
			pairs = append(pairs, r.System+" / "+r.To)
		}
		return pairs
	}
	assert.Equal(t, []string{"direct / twemproxy", "mcmw / twemproxy", "new / twemproxy", "new / mcmw"}, compared(Twemproxy))
	assert.Equal(t, []string{"direct / mcmw", "twemproxy / mcmw", "new / mcmw"}, compared(Mcmw))
	assert.Equal(t, []string{"direct / new", "twemproxy / new", "mcmw / new"}, compared("new"))
	direct := summarise(workloads, systems, Twemproxy, all)[0].Ratios[0]
	assert.Zero(t, direct.CPUPerRequest.Rounds, "nothing stands in between whose CPU could be compared")
	assert.Equal(t, 1, direct.Throughput.Rounds)
}

// sampleReport is one with everything in it that a report can hold.
func sampleReport() *Report {
	workloads := Workloads()[2:4]
	var all []Measurement
	for round := 1; round <= 3; round++ {
		factor := float64(10+round) / 10
		for i, s := range []string{Direct, Twemproxy, Mcmw, "procs1"} {
			for _, w := range workloads {
				all = append(all, measured(w.Name, s, round, 20000*float64(i+1)*factor, time.Duration(i)*11*time.Microsecond, time.Duration(2e6*factor)))
			}
		}
	}
	all[4].Misses, all[4].Failures, all[4].FirstFailure = 7, 2, "SERVER_ERROR out of memory"
	for i := range all {
		if all[i].System == Direct {
			all[i].Generator = load.Usage{Busy: 0.97, BusyOrWaiting: 0.99, Limit: load.LimitGenerator}
			all[i].OtherCores = 0.25
		}
	}
	var curves []CurveSummary
	for _, c := range append(comparing()[:1], scaling("mcmw")[1]) {
		var along []Measurement
		for _, x := range []float64{1, 64, 1024} {
			m := measured(c.Name, Mcmw, 1, 50000/(1+x/1000), time.Duration(10_000+20*x), time.Duration(1e6+x*1000))
			m.X = x
			m.PeakMemory = 15 << 20
			along = append(along, m)
		}
		curves = append(curves, summariseCurve(c, []system{{name: Mcmw}}, along))
	}
	return &Report{
		Curves:   curves,
		Started:  time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		Ended:    time.Date(2026, 2, 3, 4, 35, 6, 0, time.UTC),
		Command:  "mcmwlab bench --rounds 3",
		Machine:  kernel.Machine{CPU: "Example CPU", Cores: 2, Memory: "16.0 GiB", Kernel: "Linux 6.1 x86_64", Go: "go1.26"},
		Versions: []Version{{Name: "memcached", Text: "memcached 1.6.18"}, {Name: "twemproxy", Text: "nutcracker-0.5.0"}, {Name: "procs1", Text: "mcmw 1.0", Args: []string{"--procs=1"}}},
		Rounds:   3, WarmUp: time.Second, Duration: 3 * time.Second, Threads: 1, Baseline: Twemproxy,
		Workloads:    summarise(workloads, []string{Direct, Twemproxy, Mcmw, "procs1"}, Twemproxy, all),
		Measurements: all,
	}
}

func TestReportsLookAsTheyShould(t *testing.T) {
	for path, write := range map[string]func(*Report, *bytes.Buffer) error{
		"testdata/report.txt": func(r *Report, b *bytes.Buffer) error { return r.WriteText(b) },
		"testdata/report.md":  func(r *Report, b *bytes.Buffer) error { return r.WriteMarkdown(b, "figures") },
	} {
		var got bytes.Buffer
		require.NoError(t, write(sampleReport(), &got))
		if *update {
			require.NoError(t, os.WriteFile(path, got.Bytes(), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), got.String(), "%s: run the test with -update if the change is meant", path)
	}
}

func TestAReportSaysWhatSpeaksAgainstIt(t *testing.T) {
	r := sampleReport()
	r.Problem = "interrupted"
	assert.Equal(t, []string{
		"the benchmark ended before its time: interrupted",
		"rounds: 3; medians of less than 5 say little",
		"mixed-64, direct: the load generator was the limit in 3 of 3 rounds; more threads would make more load",
		`mixed-64, mcmw: 2 requests were answered by an error, the first by "SERVER_ERROR out of memory"`,
		"mixed-64, mcmw: 7 keys were not found though all were stored",
		"mixed-1, direct: the load generator was the limit in 3 of 3 rounds; more threads would make more load",
		"the machine was not quiet: other programs kept up to 0.25 cores busy (mixed-64, direct; mixed-1, direct)",
	}, r.Warnings())
	good := &Report{Rounds: 7, Workloads: summarise(Workloads(), []string{Mcmw}, Mcmw, []Measurement{measured("get-4k", Mcmw, 1, 1, 1, 1)})}
	assert.Empty(t, good.Warnings())
}
