package bench

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/experiment"
	"mcmw/lab/record"
)

// runsOf returns a run of a system for each throughput.
func runsOf(load, system string, throughputs ...float64) (runs []record.Run) {
	for i, x := range throughputs {
		runs = append(runs, record.Run{
			State: record.Complete, Repetition: i, Seconds: 2,
			Factors: map[string]string{"case": load, "system": system, "keys": "7"},
			Results: []record.Value{
				{Source: "client", Metric: "throughput", Value: x},
				{Source: "client", Metric: "response_time_p99", Value: 1 / x},
				{Source: "middleware", Metric: "cpu_per_request", Value: 5e-6},
			},
		})
	}
	return runs
}

func TestOnlyARatioWhoseIntervalExcludes1IsAVerdict(t *testing.T) {
	steady := []float64{50e3, 51e3, 52e3, 50e3}
	times := func(factors ...float64) (x []float64) {
		for i, f := range factors {
			x = append(x, f*steady[i])
		}
		return x
	}
	for name, c := range map[string]struct {
		other []float64
		want  Verdict
	}{
		"slower":                   {times(0.97, 0.971, 0.972, 0.97), Slower},
		"faster":                   {times(1.03, 1.031, 1.032, 1.03), Faster},
		"as fast":                  {times(1.01, 0.99, 1.02, 0.985), Unknown},
		"slower, but not surely":   {times(0.9, 1.001, 0.95, 1.0), Unknown},
		"a single pair":            {times(0.5), Unknown},
		"no pair":                  {nil, ""},
		"pairs that vary together": {times(0.99, 0.9901, 0.9899, 0.99), Slower},
	} {
		t.Run(name, func(t *testing.T) {
			r := Judge(append(runsOf("small", "old", steady...), runsOf("small", "new", c.other...)...),
				[]string{"small"}, []string{"old", "new"}, 0.95)
			if c.want == "" {
				require.Len(t, r.Rows, 1)
				return
			}
			require.Equal(t, c.want, r.Rows[1].Verdict)
			require.Equal(t, c.want == Slower, r.AnySlower())
			require.Equal(t, "new beside old: "+string(c.want)+" under small.", r.Sentence())

			swapped := Judge(append(runsOf("small", "new", c.other...), runsOf("small", "old", steady...)...),
				[]string{"small"}, []string{"new", "old"}, 0.95)
			require.InEpsilon(t, 1/r.Rows[1].Ratio.Mean, swapped.Rows[1].Ratio.Mean, 1e-12)
			require.Equal(t, map[Verdict]Verdict{Slower: Faster, Faster: Slower, Unknown: Unknown}[c.want],
				swapped.Rows[1].Verdict)
		})
	}
}

func TestOnOneProcessorTheTimeOfOtherProgramsDoesNotCount(t *testing.T) {
	var runs []record.Run
	for system, factor := range map[string]float64{"old": 1, "new": 0.9} {
		for i, taken := range []float64{0, 0.02, 0.5, 0.09, 0.05} { // the share of the processor that others took
			if system == "new" && taken < 0.1 {
				taken = 0.09 - taken
			}
			cost := 20e-6 / factor * (1 + 0.001*float64(i))
			one := runsOf("small", system, (1-taken)/cost)[0]
			one.Repetition = i
			one.Results = one.Results[:2]
			for source, share := range map[string]float64{"client": 0.5, "middleware": 0.3, "servers": 0.2} {
				one.Results = append(one.Results,
					record.Value{Source: source, Metric: "cpu_per_request", Value: share * cost})
			}
			for _, role := range []string{"server_cpus", "middleware_cpus", "load_cpus"} {
				one.Factors[role] = "1"
			}
			runs = append(runs, one)
		}
	}
	r := Judge(runs, []string{"small"}, []string{"old", "new"}, 0.95)
	require.InEpsilon(t, 0.9, r.Rows[1].Ratio.Mean, 1e-9)
	require.Equal(t, Slower, r.Rows[1].Verdict)
	require.Equal(t, 2, r.Disturbed)
	require.EqualValues(t, 4, r.Rows[1].Ratio.N, "a pair with disturbed runs does not count")
	for _, run := range runs {
		run.Factors["server_cpus"] = "0"
	}
	r = Judge(runs, []string{"small"}, []string{"old", "new"}, 0.95)
	require.EqualValues(t, 5, r.Rows[1].Ratio.N, "on two processors the throughputs are compared")
	require.Greater(t, math.Abs(r.Rows[1].Ratio.Mean-0.9), 1e-3)
}

func TestTheIntervalsOfSeveralLoadsHoldTogether(t *testing.T) {
	var runs []record.Run
	loads := []string{"a", "b", "c", "d"}
	for _, load := range loads {
		runs = append(runs, runsOf(load, "old", 100, 100, 100)...)
		runs = append(runs, runsOf(load, "new", 97, 98, 98.5)...)
	}
	require.Equal(t, Slower, Judge(runs, loads[:1], []string{"old", "new"}, 0.95).Rows[1].Verdict)
	all := Judge(runs, loads, []string{"old", "new"}, 0.95)
	require.Equal(t, Unknown, all.Rows[1].Verdict, "one of four such differences can be chance")
	var text bytes.Buffer
	require.NoError(t, all.Table().Write(&text, "markdown"))
	require.Contains(t, text.String(), "| a | new | 98/s ± 1.9 % | 0.978 [")
}

func TestBenchstatGetsALineForEachRun(t *testing.T) {
	runs := runsOf("small", "v1-2", 1000)
	runs = append(runs, record.Run{State: record.Failed, Factors: runs[0].Factors})
	var text bytes.Buffer
	require.NoError(t, WriteBenchstat(&text, runs, record.Manifest{Host: record.Host{CPU: "some"}}))
	require.Equal(t, "goos: linux\ncpu: some\nUnit ops/s better=higher\n"+
		"BenchmarkRequest/load=small/system=v1-2-1\t2000\t1000000.0 ns/op\t1000.0 ops/s\t5000.0 cpu-ns/op\t1000000.0 "+
		"p99-ns\n", text.String())
}

func TestARevisionIsBuiltOnce(t *testing.T) {
	repository, cache := t.TempDir(), t.TempDir()
	t.Chdir(repository)
	for path, text := range map[string]string{
		"go.mod":           "module mcmw\n\ngo 1.26\n",
		"cmd/mcmw/main.go": "package main\n\nvar version string\n\nfunc main() { print(version) }\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, args := range []string{"init -q", "add .", "-c user.name=n -c user.email=e commit -q -m first", "tag v1"} {
		text, err := exec.Command("git", strings.Fields(args)...).CombinedOutput()
		require.NoError(t, err, string(text))
	}
	require.NoError(t, os.Remove("go.mod"), "the revision is built, not the working tree")
	s, err := Find(t.Context(), "v1 --procs=1")
	require.NoError(t, err)
	require.Equal(t, []string{"v1-procs-1", experiment.Mcmw, "--procs=1"}, []string{s.Name, s.Kind, s.Flags[0]})
	var progress bytes.Buffer
	for range 2 {
		require.NoError(t, s.Build(t.Context(), cache, &progress))
	}
	require.Equal(t, "building v1-procs-1\n", progress.String())
	version, err := exec.Command(s.Binary).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, s.Commit[:12], string(version))

	s, err = Find(t.Context(), "cmd/mcmw/main.go")
	require.NoError(t, err)
	require.Equal(t, []string{"cmd-mcmw-main-go", filepath.Join(repository, "cmd/mcmw/main.go")},
		[]string{s.Name, s.Binary})
	require.NoError(t, s.Build(t.Context(), cache, &progress), "it exists")
	_, err = Find(t.Context(), "--output=x")
	assert.ErrorContains(t, err, `"--output=x": expected the path of an mcmw`)
	_, err = Find(t.Context(), " ")
	assert.ErrorContains(t, err, "a system is empty")
}
