package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/agent"
	"mcmw/lab/experiment"
	"mcmw/lab/record"
	"mcmw/lab/runner"
)

// asProgram is the variable that makes the test binary behave as mcmwlab, which experiments start on their hosts.
const asProgram = "TEST_BINARY_AS_MCMWLAB"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}
	var err error
	if builds, err = os.MkdirTemp("", "mcmwlab-test"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(builds)
	os.Exit(code)
}

// builds is the directory of the programs that the tests build.
var builds string

// builtMcmw is the path of mcmw, built once.
var builtMcmw = sync.OnceValues(func() (string, error) {
	path := filepath.Join(builds, "mcmw")
	return path, mctest.BuildAs(path, "mcmw/cmd/mcmw")
})

// mcmwPath returns the path of mcmw.
func mcmwPath(t *testing.T) string {
	t.Helper()
	path, err := builtMcmw()
	require.NoError(t, err)
	return path
}

// experimentFile writes an experiment of four short runs with a low load, plus more lines, and returns its path.
func experimentFile(t *testing.T, lines ...string) string {
	t.Helper()
	text := append([]string{
		"name: short", "factors: {workers: [1, 2], clients: [2, 4]}", "repetitions: 1",
		`constants: {keys: 50, ratio: "1:1", think_time: 5ms}`, "run: {warm_up: 100ms, duration: 500ms}",
	}, lines...)
	path := filepath.Join(t.TempDir(), "short.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(text, "\n")), 0o644))
	return path
}

// labUntil starts the lab as a separate process and waits until its progress has a text. kill kills the process.
func labUntil(t *testing.T, text string, args ...string) (progress *mctest.Output, kill func()) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	progress = new(mctest.Output)
	cmd.Stderr = progress
	require.NoError(t, cmd.Start())
	done := make(chan struct{}) // closed when the process has ended
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	select {
	case <-progress.Written(text):
	case <-done:
	}
	return progress, func() {
		t.Helper()
		require.NoError(t, cmd.Process.Kill(), progress)
		<-done
	}
}

// recorded returns the runs of a record.
func recorded(t *testing.T, dir string) []record.Run {
	t.Helper()
	r, err := record.Open(dir)
	require.NoError(t, err)
	defer r.Close()
	runs, err := r.Runs(context.Background())
	require.NoError(t, err)
	return runs
}

func TestAnExperimentIsRunAndRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	file := experimentFile(t, "testbed: {cpus: {load: [0]}}")
	stdout, stderr, err := lab(context.Background(), "run", file, "--out", dir, "--program", "mcmw="+mcmwPath(t))
	require.NoError(t, err, stderr)
	page := filepath.Join(dir, "report", "index.html")
	assert.Regexp(t, "^"+dir+`: 4 runs complete\nHighest of 2: \d workers?: .* at clients = \d.*\.\n`+page+"\n$",
		stdout)
	assert.FileExists(t, page)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	require.Len(t, lines, 5)
	assert.Regexp(t, `^run 1 of 4: workers=\d clients=\d, repetition 1; about \d+s left$`, lines[0])
	assert.Regexp(t, `^  1 of 4: workers=\d clients=\d, repetition 1: \d+ ops/s, mean [\d.]+ ms.*; about \d+s left$`,
		lines[1])
	assert.Regexp(t, `^  4 of 4: workers=\d clients=\d, repetition 1: \d+ ops/s, mean [\d.]+ ms`, lines[4])

	r, err := record.Open(dir)
	require.NoError(t, err)
	defer r.Close()
	m := r.Manifest()
	assert.Equal(t, []string{"mcmwlab", "run", file, "--out", dir}, m.Command[:5])
	assert.Contains(t, m.Versions["memcached"], "memcached 1.")
	assert.NotEmpty(t, m.Host.CPU)
	for _, metric := range []string{"round_trip_time_mean", "bandwidth"} {
		v, ok := record.Find(m.Path, record.SourcePath, metric)
		assert.True(t, ok && v > 0, metric)
	}
	runs := recorded(t, dir)
	require.Len(t, runs, 4)
	for _, run := range runs {
		require.Equal(t, record.Complete, run.State, run.Error)
		for _, of := range [][2]string{
			{"client", "throughput"},
			{"client", "response_time_p99"},
			{"client", "throughput_set"},
			{"middleware", "throughput"},
			{"middleware", "stage_server_mean"},
			{"middleware", "queue_length_mean"},
			{"middleware", "busy_workers_mean"},
			{"server:s1", "service_time_mean"},
			{"server:s1", "seconds_cpu"},
			{"middleware", "seconds_cpu"},
		} {
			v, ok := run.Value(of[0], of[1])
			assert.True(t, ok && v >= 0, "%v", of)
		}
		misses, _ := run.Value("client", "misses")
		assert.Zero(t, misses, "the keys were stored first")
		windows, err := r.Windows(run.ID)
		require.NoError(t, err)
		assert.NotEmpty(t, windows)
		bins, err := r.Histograms(run.ID)
		require.NoError(t, err)
		assert.NotEmpty(t, bins)
		files, err := filepath.Glob(filepath.Join(dir, "raw", "1", "*"))
		require.NoError(t, err)
		assert.Len(t, files, 3)
	}
}

func TestAProfileOfTheMiddlewareShowsItsFunctions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	file := filepath.Join(t.TempDir(), "profiled.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("name: profiled\nrepetitions: 1\nconstants: {profile: true, clients: 8}\n"+
			"run: {warm_up: 100ms, duration: 1s}\n"), 0o644))
	_ = output(t, "run", file, "--out", dir, "--program", "mcmw="+mcmwPath(t), "--quiet")
	stdout := output(t, "report", dir, "--table", "profile")
	assert.Contains(t, stdout, "| line | function | itself | with others |")
	assert.Regexp(t, `\| 8 clients \| \S+ \| [\d.]+ % \| [\d.]+ % \|`, stdout)
	assert.NotContains(t, stdout, "The profile of")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "raw", "1", "middleware-0.pprof"), []byte("junk"), 0o644))
	assert.Contains(t, output(t, "report", dir, "--table", "profile"), "The profile of middleware:0 in run 1: ")
}

func TestAnInterruptedExperimentPrintsHowToContinue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	file := experimentFile(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out bytes.Buffer
	errs := new(mctest.Output)
	go func() {
		<-errs.Written("  1 of 4: ")
		cancel()
	}()
	args := []string{"run", file, "--out", dir, "--program", "mcmw=" + mcmwPath(t)}
	err := run(ctx, args, &out, errs)
	require.EqualError(t, err, "interrupted; continue with: mcmwlab "+strings.Join(args, " ")+" --resume")
	assert.Equal(t, dir+": 1 run complete\n", out.String())
	require.Len(t, recorded(t, dir), 1)

	stdout := output(t, append(args, "--resume")...)
	assert.Contains(t, stdout, dir+": 4 runs complete (1 before this call)\n")
	_, _, err = lab(context.Background(), args...)
	assert.ErrorIs(t, err, record.ErrExists)
}

func TestAKilledExperimentCanBeResumedAndLeavesNothingRunning(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	mcmw := mcmwPath(t)
	file := experimentFile(t)
	args := []string{"run", file, "--out", dir, "--program", "mcmw=" + mcmw}
	_, kill := labUntil(t, "  2 of 4: ", args...)
	kill()
	require.Len(t, recorded(t, dir), 2)

	stdout, stderr, err := lab(context.Background(), append(args, "--resume")...)
	require.NoError(t, err, stderr)
	assert.Contains(t, stdout, dir+": 4 runs complete (2 before this call)\n")
	seen := map[[2]int]bool{}
	for _, run := range recorded(t, dir) {
		assert.Equal(t, record.Complete, run.State)
		seen[[2]int{run.Point, run.Repetition}] = true
	}
	assert.Len(t, seen, 4)
	// The kernel ends the children with their parent.
	running, err := exec.Command("pgrep", "-f", mcmw+" serve").Output()
	assert.Empty(t, string(running), err)
}

func TestARunFailsWithTheReasonIfAServerDies(t *testing.T) {
	script := filepath.Join(t.TempDir(), "dying-memcached")
	require.NoError(t, os.WriteFile(script, []byte(`#!/bin/sh
case "$1" in --version) exec memcached --version;; esac
memcached "$@" &
sleep 1
kill -KILL $!
echo the cache is gone >&2
exit 7
`), 0o755))
	dir := filepath.Join(t.TempDir(), "record")
	file := experimentFile(t, "order: listed")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Replace(text, []byte("duration: 500ms"), []byte("duration: 30s"), 1),
		0o644))
	stdout, stderr, err := lab(context.Background(), "run", file, "--out", dir, "--program", "mcmw="+mcmwPath(t),
		"--program", "memcached="+script)
	// On a busy machine the keys are still being stored when the server dies.
	const reason = "(storing the keys before the load: )?server:s1 ended on its own: exit status 7"
	require.Regexp(t, "3 runs in a row have failed; the last error: "+reason+"; its last output:\nthe cache is gone",
		err)
	assert.Regexp(t, "FAILED: "+reason, stderr)
	assert.Equal(t, dir+": 0 runs complete; 3 failed\n", stdout)
	runs := recorded(t, dir)
	require.Len(t, runs, 3)
	for _, run := range runs {
		assert.Equal(t, record.Failed, run.State)
		assert.Contains(t, run.Error, "server:s1 ended on its own: exit status 7")
	}
}

func TestCheckPrintsErrorsOrThePlan(t *testing.T) {
	stdout := output(t, "check", "../../experiments/sweep.yaml")
	assert.Contains(t, stdout, "points       28\n")
	assert.Contains(t, stdout, "\nwith --quick\nexperiment   sweep: ")
	stdout = output(t, "check", "../../experiments/sweep.yaml", "--quick")
	assert.Contains(t, stdout, "points       16\n")
	assert.NotContains(t, stdout, "with --quick")

	file := experimentFile(t, "prefix: 3", "sead: 4")
	_, _, err := lab(context.Background(), "check", file)
	require.EqualError(t, err,
		file+":6: unknown key \"prefix\"; expected one of cases, constants, factors, fraction, include, name, order, "+
			"points, quality, quick, repetitions, run, seed, stop, systems, testbed, title\n"+
			file+":7: unknown key \"sead\"; did you mean seed?")
	assert.Equal(t, exitUsage, exitCode(err, new(bytes.Buffer)))
	file = experimentFile(t, "quick: {repetitions: 0}")
	_, _, err = lab(context.Background(), "check", file)
	require.ErrorContains(t, err, "with its quick profile:\n"+file+":6: repetitions: \"0\"")
	assert.Equal(t, exitUsage, exitCode(err, new(bytes.Buffer)))
}

func TestAgentsAnswerAndRefuse(t *testing.T) {
	server := mctest.StartMemcached(t)
	_ = output(t, agent.Task{Await: []string{server.Addr()}}.Args()...)
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := lab(late, agent.Task{Await: []string{"127.0.0.1:1"}}.Args()...)
	require.ErrorContains(t, err, "127.0.0.1:1 doesn't answer: ")
	_, _, err = lab(t.Context(), "agent", `{"sampel":{}}`)
	require.ErrorContains(t, err, `expected a task of this version of mcmwlab: json: unknown field "sampel"`)
	_, _, err = lab(t.Context(), agent.Task{PathServer: "nowhere:port"}.Args()...)
	require.Error(t, err)
	stdout := output(t, "version")
	assert.Regexp(t, `^mcmwlab \S+ \(commit \w+(, (un)?modified)?\) go1\.\S+ \S+/\S+\n$`, stdout)
}

func TestTheBarMovesWithinARun(t *testing.T) {
	s := &series{members: make([]member, 1)}
	step := runner.Progress{Done: 2, Most: 8, Least: 8, Left: 60 * time.Second, Next: &experiment.Slot{}}
	assert.Regexp(t, `^\[#####-{15}\]  25 % run 3 of 8: .*; about 1m0s left$`, within(step, s, 0))
	assert.Regexp(t, `^\[######-{14}\]  31 % run 3 of 8: .*; about 55s left$`, within(step, s, 5*time.Second))
	assert.Regexp(t, `^\[#######-{13}\]  37 % run 3 of 8: .*; about 50s left$`, within(step, s, time.Minute),
		"a run is not complete before it has ended")
	step.Left = 0
	assert.Contains(t, within(step, s, time.Second), " 25 % ")
	assert.Equal(t, "[####################] 100 %", bar(3))
}
