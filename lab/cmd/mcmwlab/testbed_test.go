package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/record"
	"mcmw/lab/testbed/vm"
)

// needsMachines skips a test where no machines can be emulated.
func needsMachines(t *testing.T) {
	t.Helper()
	hosts, err := vm.New(nil, 0, 1)
	if err != nil {
		t.Skip(err)
	}
	require.NoError(t, hosts.Close())
}

// onMachines writes an experiment of one run on emulated machines with slow servers, and returns its path. The delay
// should be short, because measuring a path takes hundreds of round trips.
func onMachines(t *testing.T, delay, duration string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machines.yaml")
	text := strings.Join([]string{
		"name: machines", "repetitions: 1",
		// On a busy machine such servers can be late by more than the middleware's usual timeout.
		"constants: {servers: 2, middlewares: 1, clients: 4, load_processes: 2, keys: 20, value_size: 4096, ratio: " +
			"0:1, middleware_flags: --timeout 1m}",
		"testbed: {kind: vm, delay: " + delay +
			", hosts: {load: {count: 2}, middleware: {count: 1}, server: {cpus: 0.8, memory: 256MiB, upload: 20Mbit, " +
			"download: 40Mbit, count: 2}}}",
		"run: {warm_up: 100ms, duration: " + duration + "}",
	}, "\n")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestAnExperimentRunsOnEmulatedMachines(t *testing.T) {
	needsMachines(t)
	dir := filepath.Join(t.TempDir(), "record")
	_, stderr, err := lab(context.Background(), "run", onMachines(t, "1ms", "3s"), "--out", dir, "--program",
		"mcmw="+mcmwPath(t))
	require.NoError(t, err, stderr)
	runs := recorded(t, dir)
	require.Len(t, runs, 1)
	require.Equal(t, record.Complete, runs[0].State, runs[0].Error)
	for _, of := range [][2]string{
		{"client", "throughput"},
		{"middleware", "throughput"},
		{"server:s2", "service_time_mean"},
		{"server:s2", "seconds_cpu"},
	} {
		v, ok := runs[0].Value(of[0], of[1])
		assert.True(t, ok && v > 0, "%v", of)
	}
	// Two servers of 20 Mbit/s cannot send more values, except for those of a token bucket that is full at the
	// beginning.
	throughput, _ := runs[0].Value("client", "throughput")
	assert.Less(t, throughput*4096*8, 1.05*2*20e6)

	r, err := record.Open(dir)
	require.NoError(t, err)
	defer r.Close()
	samples, err := r.HostSamples(runs[0].ID)
	require.NoError(t, err)
	// The samples of a machine are about its own 0.8 processors, not about the real machine.
	idle := slices.IndexFunc(samples, func(w record.Window) bool {
		return w.Source == "host:server-1" && w.Metric == "cpu_idle"
	})
	require.NotEqual(t, -1, idle)
	assert.Positive(t, samples[idle].Value)
	assert.False(t, slices.ContainsFunc(samples, func(w record.Window) bool {
		return w.Source != record.SourceHost && w.Metric == "cpu_softirq" && w.Value > 0
	}))
	assert.True(t, slices.ContainsFunc(samples, func(w record.Window) bool {
		return w.Source == record.SourceHost && w.Metric == "cpu_idle"
	}),
		"the real machine is sampled, too")
	m := r.Manifest()
	assert.Equal(t, "vm", m.Testbed)
	require.Len(t, m.Machines, 5)
	server := m.Machines[4]
	if server.Delay > 0 { // not on every kernel
		roundTrip, ok := record.Find(m.Path, record.SourcePath+":server", "round_trip_time_mean")
		assert.True(t, ok && roundTrip > 0.0016, "there and back: %v", m.Path)
		assert.NotEmpty(t, server.DelayedBy)
		server.Delay, server.DelayedBy = 0, ""
	}
	assert.Equal(t, record.Machine{
		Name: "server-1", Address: "10.0.3.2", CPUs: 0.8, Memory: 256 << 20,
		Upload: 20e6 / 8, Download: 40e6 / 8,
	}, server)
	narrow, ok := record.Find(m.Path, record.SourcePath+":server:replies", "bandwidth")
	assert.True(t, ok && narrow < 1.1*20e6/8, "the path to the servers is as narrow as they are: %v", narrow)
	files, err := filepath.Glob(filepath.Join(dir, "raw", "1", "host-*"))
	require.NoError(t, err)
	assert.Len(t, files, 5, "every machine has its own samples")
	stdout := output(t, "show", dir)
	assert.Contains(t, stdout, "on testbed vm")
	assert.Contains(t, stdout, "server-1: 0.8 cpus, 256MiB, upload 20Mbit, download 40Mbit")
	assert.Contains(t, stdout, "load-0: no limits")

	_, _, err = lab(context.Background(), "run", onMachines(t, "1ms", "1s"), "--out", dir, "--resume", "--program",
		"mcmw="+mcmwPath(t))
	require.ErrorContains(t, err, "it is a record of another experiment")
}

func TestCheckMeasuresTheNetworkOfMachines(t *testing.T) {
	needsMachines(t)
	file := onMachines(t, "0.1ms", "1s")
	stdout, stderr, err := lab(context.Background(), "check", "--machines", file, "--bulk", "100ms")
	require.NoError(t, err, stderr)
	assert.Regexp(t, `(?m)^server-1 +- +0.8 +256 MiB +20.0 +[\d.]+ +[+-][\d.]+ % +40.0 +[\d.]+ +[+-][\d.]+ % +[\d.]+$`,
		stdout)
	assert.Regexp(t, `(?m)^load-0 +- +all +all +no limit +[\d.]+ +no limit +[\d.]+ +[\d.]+$`, stdout)
	stdout = output(t, "check", "--machines", file, "--bulk", "100ms", "--format", "json")
	var c vm.Calibration
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Len(t, c.Machines, 5)
	for _, m := range c.Machines {
		assert.Positive(t, m.Measured.Upload)
		assert.Positive(t, m.Measured.RoundTripMean)
	}
	_, _, err = lab(context.Background(), "check", "--machines", "--bulk", "1h")
	require.EqualError(t, err, "--bulk 1h0m0s: expected 100ms to 10s")
}

// traces are the parts of a lab with emulated machines that could be left after its end.
type traces struct {
	spaces    map[string]bool // network namespaces, as /proc names them
	groups    []string        // directories of control groups
	processes []string        // ids of the programs
}

// tracesOf returns the traces of the lab with a process id.
func tracesOf(t *testing.T, pid int) (found traces) {
	t.Helper()
	found.spaces = map[string]bool{}
	descriptors := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(descriptors)
	require.NoError(t, err)
	own, err := os.Readlink("/proc/self/ns/net") // the lab opens it for a moment
	require.NoError(t, err)
	for _, entry := range entries {
		if to, err := os.Readlink(filepath.Join(descriptors, entry.Name())); err == nil &&
			strings.HasPrefix(to, "net:") && to != own {
			found.spaces[to] = true
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/mcmwlab-%d-*", "/sys/fs/cgroup/*/mcmwlab-%d-*"} {
		for _, below := range []string{"", "/*"} {
			dirs, err := filepath.Glob(fmt.Sprintf(pattern, pid) + below)
			require.NoError(t, err)
			for _, dir := range dirs {
				if info, err := os.Stat(dir); err == nil && info.IsDir() {
					found.groups = append(found.groups, dir)
				}
			}
		}
	}
	for _, dir := range found.groups {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue // the lab has just removed it
		}
		require.NoError(t, err)
		found.processes = append(found.processes, strings.Fields(string(text))...)
	}
	return found
}

// left returns the traces that still exist.
func (of traces) left() (left []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, path := range append(all, descriptors...) {
		if to, err := os.Readlink(path); err == nil && of.spaces[to] {
			left = append(left, path+" is "+to)
		}
	}
	for _, dir := range of.groups {
		if _, err := os.Stat(dir); err == nil {
			left = append(left, dir)
		}
	}
	for _, pid := range of.processes {
		text, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err == nil && len(text) > 0 { // a zombie has no command line
			left = append(left, "process "+pid)
		}
	}
	return left
}

// midway starts an experiment on emulated machines as a separate process, and returns it when its load runs.
func midway(t *testing.T) (*exec.Cmd, traces) {
	t.Helper()
	needsMachines(t)
	mcmw := mcmwPath(t)
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program, "run", onMachines(t, "0.1ms", "60s"), "--out", filepath.Join(t.TempDir(), "record"),
		"--program", "mcmw="+mcmw)
	var said mctest.Output
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // if the test fails early
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the lab wrote:\n%s", &said)
		}
	})
	// Two servers, a middleware, two loads, five samplers. With separate hierarchies every program is in two groups.
	require.Eventually(t, func() bool {
		programs := map[string]bool{}
		for _, pid := range tracesOf(t, cmd.Process.Pid).processes {
			programs[pid] = true
		}
		return len(programs) >= 10 || strings.Contains(said.String(), "FAILED")
	}, mctest.Patience, 20*time.Millisecond)
	require.NotContains(t, said.String(), "FAILED", "the lab has ended on its own")
	found := tracesOf(t, cmd.Process.Pid)
	require.GreaterOrEqual(t, len(found.spaces), 7, "five machines, the probe, the bridge")
	require.NotEmpty(t, found.groups)
	require.NotEmpty(t, found.left())
	return cmd, found
}

// visibleLinks returns the interfaces outside of namespaces that have names of machines.
func visibleLinks(t *testing.T) (names []string) {
	t.Helper()
	links, err := net.Interfaces()
	require.NoError(t, err)
	for _, link := range links {
		if regexp.MustCompile(`^(bridge|delay|probe|(load|middleware|server)-\d+)$`).MatchString(link.Name) {
			names = append(names, link.Name)
		}
	}
	return names
}

func TestAnInterruptedLabLeavesNothing(t *testing.T) {
	cmd, found := midway(t)
	assert.Empty(t, visibleLinks(t), "all interfaces are in namespaces")
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	assert.Equal(t, exitBySignal+int(syscall.SIGINT), cmd.ProcessState.ExitCode())
	assert.Empty(t, found.left())
	assert.Empty(t, visibleLinks(t))
}

func TestCleanupRemovesAllLeftoversOfAKilledLab(t *testing.T) {
	const nothing = "nothing to clean up\n" // if another test on this machine has cleaned up first
	var cmd *exec.Cmd
	for attempts, stdout := 0, nothing; stdout == nothing; attempts++ {
		require.Less(t, attempts, 5, "cleanup finds nothing of a killed lab")
		var found traces
		cmd, found = midway(t)
		running := output(t, "cleanup")
		assert.NotContains(t, running, fmt.Sprintf("process %d\n", cmd.Process.Pid), "cleanup ignores labs that run")
		require.Nil(t, cmd.ProcessState)
		require.NotEmpty(t, found.left())

		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		stdout = output(t, "cleanup")
		if stdout != nothing {
			assert.Regexp(t, fmt.Sprintf(`(?m)^removed \d+ control groups of the lab that was process %d$`,
				cmd.Process.Pid), stdout)
		}
		// The kernel kills the programs with the lab, which can take a moment.
		require.Eventually(t, func() bool { return len(found.left()) == 0 }, mctest.Patience, 10*time.Millisecond, "%v",
			found.left())
	}
	assert.Empty(t, visibleLinks(t))
	stdout := output(t, "cleanup")
	assert.NotContains(t, stdout, fmt.Sprintf("process %d\n", cmd.Process.Pid), "nothing is left to remove")
}
