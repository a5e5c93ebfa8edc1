package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/lab/load"
	"mcmw/internal/mctest"
)

// children returns the command names of this process's children.
func children(t *testing.T) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var names []string
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent ...; the name may hold anything
		after := text[strings.LastIndexByte(string(text), ')')+1:]
		if fields := strings.Fields(string(after)); fields[1] == strconv.Itoa(os.Getpid()) {
			names = append(names, string(text[:len(text)-len(after)]))
		}
	}
	return names
}

func tryRun(ctx context.Context, t *testing.T, o Options) (*Report, error) {
	t.Helper()
	b, err := New(o)
	require.NoError(t, err)
	return b.Run(ctx)
}

func TestABenchmarkMeasuresEverySystemInEveryRoundAndLeavesNothingBehind(t *testing.T) {
	mcmw := mctest.Build(t, "mcmw/cmd/mcmw")
	var steps []Progress
	report, err := tryRun(context.Background(), t, Options{
		Mcmw:      mcmw,
		Variants:  []Variant{{Name: "oneworker", Path: mcmw, Args: []string{"--workers=1"}}},
		Workloads: []string{"replicated", "multi-get"},
		Rounds:    2, WarmUp: 20 * time.Millisecond, Duration: 100 * time.Millisecond,
		Progress: func(p Progress) { steps = append(steps, p) },
	})
	require.NoError(t, err)
	var order []string
	for _, m := range report.Measurements {
		order = append(order, fmt.Sprintf("%d %s %s", m.Round, m.Workload, m.System))
		assert.Positive(t, m.OpsPerSec)
		assert.Positive(t, m.Requests)
		assert.Positive(t, m.ServerCPUPerRequest)
		assert.Positive(t, m.GeneratorCPUPerRequest)
		assert.Zero(t, m.Misses, "%s %s: every key is populated", m.Workload, m.System)
		assert.Zero(t, m.Failures, m.FirstFailure)
		assert.Equal(t, m.System != Direct, m.CPUPerRequest > 0, m.System)
		assert.Equal(t, m.System != Direct, m.PeakMemory > 0, m.System)
	}
	assert.Equal(t, []string{
		"1 multi-get direct", "1 multi-get twemproxy", "1 multi-get mcmw", "1 multi-get oneworker",
		"1 replicated twemproxy", "1 replicated mcmw", "1 replicated oneworker",
		"2 multi-get twemproxy", "2 multi-get mcmw", "2 multi-get oneworker", "2 multi-get direct",
		"2 replicated mcmw", "2 replicated oneworker", "2 replicated twemproxy",
	}, order)
	assert.Len(t, report.Workloads, 2)
	assert.Equal(t, Twemproxy, report.Baseline)
	assert.Empty(t, report.Problem)
	require.Len(t, report.Versions, 4)
	assert.Contains(t, report.Versions[1].Text, "nutcracker")
	assert.Equal(t, []string{"--workers=1"}, report.Versions[3].Args)

	require.Len(t, steps, 15)
	assert.Nil(t, steps[0].Last)
	assert.Equal(t, 14, steps[0].All)
	assert.Equal(t, "round 1 of 2, multi-get, direct", steps[0].Next)
	assert.Equal(t, 14, steps[14].Done)
	assert.Empty(t, steps[14].Next)
	assert.Zero(t, steps[14].Left)
	assert.Empty(t, children(t))
}

func TestAnInterruptedBenchmarkReportsWhatItHasAndEndsItsProcesses(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	during := 0
	report, err := tryRun(ctx, t, Options{
		Systems: []string{Direct, Twemproxy}, Workloads: []string{"mixed-1"},
		Rounds: 100, WarmUp: time.Millisecond, Duration: 50 * time.Millisecond,
		Progress: func(p Progress) {
			if p.Done == 2 {
				during = len(children(t))
				cancel()
			}
		},
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, report)
	assert.Len(t, report.Measurements, 2)
	assert.Contains(t, report.Problem, "round 2, workload mixed-1, system ")
	assert.Equal(t, serverCount, during)
	assert.Empty(t, children(t))
}

func TestASystemThatEndsAtStartIsNamedWithItsLastWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho no such option >&2\nexit 3\n"), 0o755))
	report, err := tryRun(context.Background(), t, Options{
		Systems: []string{"broken"}, Variants: []Variant{{Name: "broken", Path: path}}, Workloads: []string{"mixed-1"},
	})
	assert.Nil(t, report)
	assert.EqualError(t, err, "round 1, workload mixed-1, system broken: broken ended by itself: exit status 3; its last output:\nno such option")
	assert.Empty(t, children(t))
}

func TestPlansThatCannotBeMadeAreRefusedWithAllThatIsWrong(t *testing.T) {
	_, err := New(Options{
		Mcmw: "/nonexistent/mcmw", Workloads: []string{"get-5k"}, Systems: []string{Mcmw, "elvis"}, Baseline: Twemproxy,
		Variants: []Variant{{Name: Direct, Path: "x"}}, Rounds: -1, WarmUp: -1,
	})
	for _, want := range []string{
		`workload "get-5k": expected one of get-4k, set-4k, mixed-64, mixed-1, mixed-400, pipelined, multi-get, replicated`,
		`system "elvis": expected one of direct, twemproxy, mcmw`,
		`baseline "twemproxy": expected one of mcmw`,
		`variant "direct": there is already a system of that name`,
		"system mcmw: ", "/nonexistent/mcmw", "build it first",
		"rounds -1", "warm-up -1ns",
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestTheBaselineIsTwemproxyWhereItIsMeasured(t *testing.T) {
	p, err := New(Options{Systems: []string{Twemproxy, Direct}})
	require.NoError(t, err)
	assert.Equal(t, Twemproxy, p.Baseline)
	assert.Equal(t, 7*(8*2-1), p.measurements(), "direct isn't measured under the replicated workload")
	p, err = New(Options{Systems: []string{Direct}})
	require.NoError(t, err)
	assert.Equal(t, Direct, p.Baseline)
}

func TestAVariantIsANameAPathAndFlags(t *testing.T) {
	for text, want := range map[string]Variant{
		"new=/tmp/mcmw":               {Name: "new", Path: "/tmp/mcmw", Args: []string{}},
		"w8=bin/mcmw,--workers,8":     {Name: "w8", Path: "bin/mcmw", Args: []string{"--workers", "8"}},
		"p1=,--procs=1,--depth=1":     {Name: "p1", Path: "default", Args: []string{"--procs=1", "--depth=1"}},
		"eq=/tmp/a=b,--log-level=off": {Name: "eq", Path: "/tmp/a=b", Args: []string{"--log-level=off"}},
	} {
		got, err := ParseVariant(text, "default")
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"", "new", "=path", "new=", "two words=path"} {
		_, err := ParseVariant(text, "default")
		assert.ErrorContains(t, err, "expected name=path")
	}
}

func TestAllWorkloadsAreLoadsThatCanBeMade(t *testing.T) {
	names := make(map[string]bool)
	for _, w := range Workloads() {
		assert.False(t, names[w.Name], w.Name)
		names[w.Name] = true
		o := w.load
		o.Targets = []string{"127.0.0.1:1"}
		_, err := load.New(o)
		assert.NoError(t, err, w.Name)
	}
}

func TestTwemproxyGetsTheConfigurationThatTheComparisonStates(t *testing.T) {
	dir := t.TempDir()
	cmd, err := twemproxyCommand("/usr/sbin/nutcracker", dir, []string{"127.0.0.1:1001", "127.0.0.1:1002"}, 1003)
	require.NoError(t, err)
	assert.Contains(t, strings.Join(cmd.Args, " "), "-m 16384")
	config, err := os.ReadFile(filepath.Join(dir, "nutcracker-1003.yml"))
	require.NoError(t, err)
	assert.Equal(t, `bench:
  listen: 127.0.0.1:1003
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: false
  preconnect: true
  server_connections: 1
  servers:
    - 127.0.0.1:1001:1
    - 127.0.0.1:1002:1
`, string(config))
}

func TestMcmwGetsItsVariantsFlagsLast(t *testing.T) {
	cmd, err := mcmwCommand(system{path: "mcmw", args: []string{"--depth=1"}}, Workload{Replicas: "all"}, []string{"127.0.0.1:1", "127.0.0.1:2"}, 3)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"mcmw", "serve", "--listen", "127.0.0.1:3", "--servers", "127.0.0.1:1,127.0.0.1:2", "--replicas", "all", "--sharded",
		"--admin", "", "--depth=1",
	}, cmd.Args)
}
