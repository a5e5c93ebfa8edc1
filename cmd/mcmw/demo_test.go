package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/demo"
	"mcmw/internal/mctest"
)

// demoChildren returns the ids of the running memcached processes that demos in this process started.
func demoChildren(t *testing.T) []int { return demoChildrenOf(t, os.Getpid()) }

func demoChildrenOf(t *testing.T, parent int) []int {
	t.Helper()
	var pids []int
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range commands {
		command, errCommand := os.ReadFile(path)
		stat, errStat := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if errCommand != nil || errStat != nil {
			continue // the process has ended
		}
		memory := []byte("\x00-m\x00" + strconv.Itoa(demo.Memory) + "\x00")
		afterName := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if bytes.Contains(command, memory) && afterName[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// startDemo runs a demo with args until interrupt is called. Its exit code arrives on ended. At the end of the test the
// demo ends, and must leave nothing behind.
func startDemo(t *testing.T, args ...string) (stdout, stderr *output, interrupt context.CancelFunc, ended <-chan int) {
	t.Helper()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr = new(output), new(output)
	code := make(chan int, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Values are large, so that there are few: the load begins when all are stored.
		code <- run(ctx, append([]string{"demo", "--admin", "127.0.0.1:0", "--clients", "4", "--value-size", "50000"},
			args...), stdout, stderr)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		require.Empty(t, demoChildren(t), "a memcached outlives the demo")
		left, err := os.ReadDir(temporary)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	return stdout, stderr, cancel, code
}

// eventually waits until condition holds.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, mctest.Patience, 10*time.Millisecond, what)
}

var pageAddress = regexp.MustCompile(`live page (http://127\.0\.0\.1:\d+)/\n`)

// awaitRequests waits until a demo's page shows a GET: these begin after the keys are stored. It returns the page's URL
// without its last slash.
func awaitRequests(t *testing.T, stdout *output) string {
	t.Helper()
	eventually(t, func() bool { return pageAddress.MatchString(stdout.String()) }, "the address of the page")
	url := pageAddress.FindStringSubmatch(stdout.String())[1]
	eventually(t, func() bool {
		response, err := http.Get(url + "/api/stats")
		if err != nil {
			t.Log(err)
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Log(err)
			return false
		}
		return regexp.MustCompile(`"keys":[1-9]`).Match(body)
	}, "a second with GETs")
	return url
}

// requireNoWarning requires that a demo logged nothing but slow servers, which a busy machine has.
func requireNoWarning(t *testing.T, stderr *output) {
	t.Helper()
	for line := range strings.Lines(stderr.String()) {
		require.Regexp(t, "answer|timed out", line)
	}
}

func TestADemoRunsForItsDurationAndPrintsASummary(t *testing.T) {
	stdout, stderr, _, ended := startDemo(t, "--duration", "1s", "--workers", "3", "--replicas", "1", "--sharded")
	require.Equal(t, exitOK, <-ended, stderr)
	requireNoWarning(t, stderr)
	text := stdout.String()
	require.Regexp(t, pageAddress, text)
	require.Contains(t, text,
		"mcmw demo: 3 servers, 3 workers, 4 clients, values of 50000 bytes, SET:GET 1:9, 12 keys per GET, "+
			"sharded, 1 of 3 servers hold each key; clients may connect to 127.0.0.1:")
	require.Regexp(t, `[1-9][\d,]* requests in [\d.]+ s: [1-9][\d,]*/s; \d+ failed`, text)
	require.Regexp(t,
		`of this mean: [\d.]+ .s in net, [\d.]+ .s in queue, [\d.]+ .s in worker, [\d.]+ .s in server, [\d.]+ .s in reply`, text)
	for _, name := range []string{"memcached-1", "memcached-2", "memcached-3"} {
		require.Regexp(t, name+`: [1-9][\d,]* requests, mean`, text)
	}
}

func TestADemoServesItsPageUntilItIsInterrupted(t *testing.T) {
	stdout, stderr, interrupt, ended := startDemo(t)
	url := awaitRequests(t, stdout)
	require.Len(t, demoChildren(t), demo.Servers)

	interrupt()
	require.Equal(t, exitOK, <-ended, stderr)
	requireNoWarning(t, stderr)
	require.Contains(t, stdout.String(), "response time seen by the clients: mean")
	_, err := http.Get(url + "/livez")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestADemoInterruptedAtTheStartEndsWithoutAnError(t *testing.T) {
	for name, begun := range map[string]func(t *testing.T, stdout *output) bool{
		"while the servers start": func(t *testing.T, _ *output) bool { return len(demoChildren(t)) > 0 },
		"while keys are stored": func(_ *testing.T, stdout *output) bool {
			return pageAddress.MatchString(stdout.String())
		},
		"before anything happened": func(*testing.T, *output) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, interrupt, ended := startDemo(t)
			eventually(t, func() bool { return begun(t, stdout) }, "the beginning")
			interrupt()
			require.Equal(t, exitOK, <-ended, stderr)
		})
	}
}

func TestADemoReportsAServerThatHasEndedAndContinuesWithTheOthers(t *testing.T) {
	stdout, stderr, _, ended := startDemo(t)
	awaitRequests(t, stdout)
	children := demoChildren(t)
	slices.Sort(children)
	require.Len(t, children, demo.Servers)

	require.NoError(t, syscall.Kill(children[0], syscall.SIGKILL))
	reported := regexp.MustCompile(`a memcached server has ended unexpectedly" server=memcached-\d pid=` +
		strconv.Itoa(children[0]) + ` exit="signal: killed"`)
	eventually(t, func() bool { return reported.MatchString(stderr.String()) }, "which server has ended")
	require.Len(t, demoChildren(t), demo.Servers-1)

	for _, pid := range children[1:] {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	require.Equal(t, exitFailed, <-ended)
	require.Contains(t, stderr.String(), "mcmw: all memcached servers have ended\n")
}

func TestNoServerOutlivesADemoThatIsKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var stdout output
	command := exec.Command(os.Args[0], "demo", "--admin", "127.0.0.1:0", "--clients", "4", "--value-size", "50000")
	command.Env = append(os.Environ(), runMain+"=1")
	command.Stdout = &stdout
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait()
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	awaitRequests(t, &stdout)
	children := demoChildrenOf(t, command.Process.Pid)
	require.Len(t, children, demo.Servers)

	require.NoError(t, command.Process.Kill())
	for _, pid := range children {
		eventually(t, func() bool {
			text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
			return err != nil || len(text) == 0 // the process is gone, or a zombie
		}, "the end of a server")
	}
}

func TestWithoutMemcachedTheDemoSaysHowToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, _, stderr := execute(t, "demo")
	require.Equal(t, exitFailed, code)
	require.Equal(t,
		"mcmw: the demo starts 3 memcached servers, but there is no memcached in PATH; install it: apt-get install "+
			"memcached\n", stderr)
}

func TestAMemcachedThatDoesNotStartIsQuoted(t *testing.T) {
	path := t.TempDir()
	script := "#!/bin/sh\necho 'no memory today' >&2\nexit 71\n"
	require.NoError(t, os.WriteFile(filepath.Join(path, "memcached"), []byte(script), 0o755))
	t.Setenv("PATH", path)
	code, _, stderr := execute(t, "demo")
	require.Equal(t, exitFailed, code)
	require.Equal(t, "mcmw: memcached-1 ended while starting: exit status 71; it said: no memory today\n", stderr)
}

func TestADemoWhosePageCannotBeServedSaysHowToServeItElsewhere(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	code, _, stderr := execute(t, "demo", "--admin", taken.Addr().String())
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, taken.Addr().String())
	require.Contains(t, stderr, "address already in use; choose another address with --admin")
	require.Empty(t, demoChildren(t))
}

func TestTheDemosFlagsAreChecked(t *testing.T) {
	for args, accepted := range map[string]string{
		"--clients 0":          "accepted: 1 to 4096",
		"--clients 4097":       "accepted: 1 to 4096",
		"--workers x":          "accepted: 1 to 512",
		"--depth -1":           "accepted: 1 to 4096",
		"--value-size 1000001": "accepted: 1 to 1000000",
		"--multi-get 1001":     "accepted: 0 to 1000",
		"--ratio 0:0":          "accepted: SETs:GETs such as 1:9, each 0 to 1000, not both 0",
		"--ratio 1":            "accepted: SETs:GETs such as 1:9, each 0 to 1000, not both 0",
		"--ratio 1:x":          "accepted: SETs:GETs such as 1:9, each 0 to 1000, not both 0",
		"--replicas 4":         "accepted: all, or 1 to 3",
		"--replicas none":      "accepted: all, or 1 to 3",
		"--duration 5":         "accepted: a duration such as 30s or 1m30s, or 0s",
		"--duration -1s":       "accepted: a duration such as 30s or 1m30s, or 0s",
		"now":                  "unknown command \"now\" for \"mcmw demo\"",
	} {
		code, _, stderr := execute(t, append([]string{"demo"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, stderr, accepted, args)
	}
}
