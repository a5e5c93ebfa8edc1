package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"mcmw/internal/faulty"
	"mcmw/internal/mctest"
	"mcmw/test/history"
)

// soakTime returns how long the soak runs: MCMW_SOAK, such as 30m, or 3 minutes.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := cmp.Or(os.Getenv("MCMW_SOAK"), "3m")
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "MCMW_SOAK")
	return length
}

// requireKept fails the test if a promise was broken, or a request failed with an error that the fault does not
// explain.
func requireKept(t *testing.T, report *Report) {
	t.Helper()
	for _, r := range report.Results {
		assert.Empty(t, r.Broken, "%s", r.Scenario)
		assert.Empty(t, r.Unexpected, "%s", r.Scenario)
	}
}

// progress writes the progress of a run to the test's log.
func progress(t *testing.T) func(string) { return func(line string) { t.Log(line) } }

func TestEveryPromiseIsKeptWhenServersFail(t *testing.T) {
	defer goleak.VerifyNone(t)
	o := Options{Mcmw: mctest.Build(t, "mcmw/cmd/mcmw"), Only: []string{"kill-any"}, Seed: 1, Progress: progress(t)}
	if mctest.Long() {
		o.Only, o.Quick = nil, true
	}
	suite, err := New(o)
	require.NoError(t, err)
	report, err := suite.Run(context.Background())
	require.NoError(t, err)
	require.Len(t, report.Results, len(suite.scenarios))
	for i, r := range report.Results {
		// A busy machine can suspend a healthy server for longer than a timeout. That is random, but a defect of mcmw
		// shows again.
		if len(r.Broken) == 0 && len(r.Unexpected) > 0 {
			t.Logf("%s: repeated after: %s", r.Scenario, r.line())
			report.Results[i], err = suite.run(context.Background(), suite.scenarios[i])
			require.NoError(t, err)
		}
	}
	requireKept(t, report)
	r := report.Results[0]
	assert.Positive(t, r.Reads.Succeeded)
	assert.Positive(t, r.Writes.Succeeded)
	assert.Positive(t, r.Audited)
	assert.NotNil(t, r.Detected)
	assert.Positive(t, r.Before.Goroutines)
	assert.Positive(t, r.After.Heap)
}

func TestEveryPromiseIsKeptWhenRandomServersFailInRandomWays(t *testing.T) {
	if !mctest.Long() {
		t.Skip("takes minutes; set MCMW_LONG=1 to run it")
	}
	defer goleak.VerifyNone(t)
	soak, err := NewSoak(Options{Mcmw: mctest.Build(t, "mcmw/cmd/mcmw"), Seed: mctest.Seed(t), Progress: progress(t)},
		soakTime(t))
	require.NoError(t, err)
	report, err := soak.Run(context.Background())
	require.NoError(t, err)
	require.Len(t, report.Results, soakRounds)
	requireKept(t, report)
}

// judged runs a scenario that must show stale values.
func judged(t *testing.T, c Scenario) *Result {
	t.Helper()
	defer goleak.VerifyNone(t)
	suite, err := New(Options{Mcmw: mctest.Build(t, "mcmw/cmd/mcmw"), Seed: 1})
	require.NoError(t, err)
	c.reads, c.writes = ".", "."
	result, err := suite.run(context.Background(), c)
	require.NoError(t, err)
	require.Empty(t, result.Skipped)
	assert.Positive(t, result.Stale)
	return result
}

// withSeveralWriters skips a short run, and finds a memcached that is new enough for several writers.
func withSeveralWriters(t *testing.T) {
	t.Helper()
	if !mctest.Long() {
		t.Skip("takes a dozen seconds; set MCMW_LONG=1 to run it")
	}
	t.Setenv(mctest.NewMemcached, mctest.NewMemcachedPath(t))
}

// A middleware that trusts the values of a server which missed writes is caught.
func TestTheJudgeFindsStaleValues(t *testing.T) {
	result := judged(t, Scenario{
		Name: "trust", settings: settings{servers: 2, args: []string{"--rejoin", "trust", "--ack", "any"}},
		fault: freeze, heal: thaw, lasts: usually, then: time.Second,
	})
	assert.Positive(t, result.StaleAfterRecovery)
	assert.Contains(t, strings.Join(result.Broken, "\n"), "stale values were read")
}

// The control of partition-one: two middlewares that don't know of each other are caught.
func TestTheJudgeFindsStaleValuesReadThroughTheOtherMiddleware(t *testing.T) {
	withSeveralWriters(t)
	alone := proxiedFleet
	alone.args = []string{"--writers", "one", "--ack", "any"}
	result := judged(t, Scenario{
		Name: "alone", settings: alone, fault: inject(faulty.Fault{Refuse: true, Cut: 1}), heal: lift, lasts: usually,
		then: time.Second,
	})
	assert.Positive(t, result.Shared.Stale)
	assert.Contains(t, strings.Join(result.Broken, "\n"), "stale values of shared keys were read")
}

// The control of hot keys: a middleware that serves values from memory for too long, after another middleware has
// written them, is caught.
func TestTheJudgeFindsValuesServedFromMemoryForTooLong(t *testing.T) {
	withSeveralWriters(t)
	long := fleet
	long.args, long.age = []string{"--writers", "several", "--hot-keys", "serve", "--hot-age", "1s"}, time.Millisecond
	result := judged(t, Scenario{
		Name: "long", settings: long, fault: func(context.Context, *system) error { return nil }, then: usually,
	})
	assert.Positive(t, *result.FromMemory)
}

func TestEveryMcmwGetsTheGivenOptions(t *testing.T) {
	mcmw := mctest.Build(t, "mcmw/cmd/mcmw")
	suite, err := New(Options{
		Mcmw: mcmw, Given: []string{"hot-keys=serve", "workers=3"},
		Only: []string{"kill-quorum", "kill-served"},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"--replicas", "all", "--ack", "quorum", "--hot-keys=serve", "--workers=3"},
		suite.scenarios[0].settings.args)
	assert.Equal(t, []string{"--replicas", "1", "--writers", "one", "--hot-keys", "serve", "--workers=3"},
		suite.scenarios[1].settings.args, "the scenario sets one of them itself")
	served := suite.scenarios[0].settings.withHotKeys()
	assert.True(t, served.recent)
	assert.Equal(t, 100*time.Millisecond, served.age)
	assert.Zero(t, plain.withHotKeys().age)
	for given, want := range map[string]string{
		"hot-keys":        `option "hot-keys": expected name=value, such as hot-keys=serve`,
		"--hot-keys=off":  `expected name=value`,
		"servers=a":       `option "servers=a": every scenario sets servers itself`,
		"hot-keys=off":    `option "hot-keys=off": scenario kill-served sets --hot-keys serve`,
		"change-step=1s":  `option "change-step=1s": scenario migration sets change-step itself`,
		"sharded=false":   `option "sharded=false": scenario kill-any sets --sharded true`,
		"no-such-thing=1": `options no-such-thing=1 in scenario kill-any: mcmw: unknown flag: --no-such-thing`,
		"hot-age=2m":      `options hot-age=2m in scenario kill-any: mcmw: flag --hot-age: `,
	} {
		_, err := New(Options{
			Mcmw: mcmw, Given: []string{given},
			Only: []string{"kill-any", "kill-served", "migration"},
		})
		assert.ErrorContains(t, err, want)
	}
	_, err = NewSoak(Options{Mcmw: mcmw, Given: []string{"timeout=1s"}}, time.Minute)
	assert.ErrorContains(t, err, `option "timeout=1s": scenario round 1 sets --timeout 500ms`)
}

func TestAnInterruptedSuiteLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(context.Background())
	suite, err := New(Options{
		Mcmw: mctest.Build(t, "mcmw/cmd/mcmw"), Only: []string{"partition"},
		Progress: func(string) { time.AfterFunc(2*time.Second, cancel) },
	})
	require.NoError(t, err)
	report, err := suite.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, report.Results)
	links, err := filepath.Glob(fmt.Sprintf("/sys/class/net/mcmwf%d-*", os.Getpid()))
	require.NoError(t, err)
	assert.Empty(t, links)
}

func TestTheReportHasARowForEveryScenario(t *testing.T) {
	detected := 3 * time.Millisecond
	report := &Report{
		Command: "faults", Given: []string{"hot-keys=serve"},
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Results: []*Result{
			{
				Scenario: "kill", Title: "a server is killed", Args: []string{"--replicas", "all"},
				Reads: history.Counts{Sent: 10, Failed: 1, Slowest: time.Second}, Writes: history.Counts{Sent: 5},
				Detected:  &detected,
				Recovered: 400 * time.Millisecond,
				Errors:    []history.ErrorCount{{Text: "server-2: x", Count: 1}}, FromMemory: new(uint64),
				Before: Footprint{Goroutines: 16, Heap: 1 << 20}, After: Footprint{Goroutines: 15, Heap: 2 << 20},
				Groups: []Group{{
					Name: "none", Before: history.Performance{PerSecond: 100, P99: time.Millisecond},
					During: history.Performance{PerSecond: 95, P99: 2 * time.Millisecond},
				}},
			},
			{Scenario: "partition", Title: "packets are lost", Skipped: "no root"},
			{Scenario: "bad", Broken: []string{"1 stale values were read"}, Unexpected: []string{"2 reads failed"}},
		},
	}
	var b bytes.Buffer
	require.NoError(t, report.WriteMarkdown(&b))
	for _, want := range []string{
		"Measured on 2 January 2026, 03:04 UTC by\n\n    faults\n",
		"| kill | a server is killed; `--replicas all` | 10, 1 | 5, 0 | 1000 ms | 3 ms | 400 ms | 0 | 0, 0 | 0 | 16, " +
			"15 | 1.0, 2.0 |",
		"| partition | packets are lost; `` | skipped: no root |",
		"Every mcmw instance also has `hot-keys=serve`.\n\n| scenario |",
		"| scenario | gets |\n| --- | --- |\n| kill | 0 |\n\n",
		"| kill | 1 | `server-2: x` |",
		"| kill | none | 100 | 1.00 | 95 | 2.00 | 0.95 | 2.0 |",
		"BROKEN in bad: 1 stale values were read", "UNEXPECTED in bad: 2 reads failed",
	} {
		assert.Contains(t, b.String(), want)
	}
	assert.Equal(t, 1, report.Broken())
}
