package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/buildinfo"
	"mcmw/internal/config"
	"mcmw/internal/mctest"
)

// runMain makes the test binary run as mcmw, for tests that need a process.
const runMain = "TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(dropRights) != "" {
		fmt.Fprintln(os.Stderr, withoutRights())
		os.Exit(exitUnable)
	}
	if os.Getenv(runMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// output collects the output of a command that is still running.
type output = mctest.Output

// execute runs the command line until it ends.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestAnInterruptedCommandSaysSoAndExitsWith130(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	answers := mctest.StartMemcached(t).Addr()
	for _, args := range []string{
		"wait --refilled --servers " + answers + "," + silent.Addr().String(),
		"verify-replicas --servers " + answers + "," + silent.Addr().String(),
		"ping " + silent.Addr().String(), "advise " + silent.Addr().String(),
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			c, err := silent.Accept()
			if err == nil {
				defer c.Close()
				_, _ = c.Read(make([]byte, 1))
			}
			interrupt()
		}()
		var out, errs bytes.Buffer
		require.Equal(t, exitInterrupted, run(ctx, strings.Fields(args), &out, &errs), "%s: %s", args, &errs)
		require.True(t, strings.HasSuffix(errs.String(), "mcmw: interrupted\n"), "%s: %s", args, &errs)
	}
}

func TestAnInvalidCommandLineExitsWithTwoAndSaysWhatIsAccepted(t *testing.T) {
	for _, c := range mctest.Cases(t, "testdata/usage.txt") {
		args, message := c.Text, strings.ReplaceAll(c.Want, `\n`, "\n")
		code, stdout, stderr := execute(t, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Empty(t, stdout, args)
		require.Contains(t, stderr, message, args)
	}
}

func TestHelpForAnUnknownCommandListsThoseThatExist(t *testing.T) {
	_, _, stderr := execute(t, "help", "srve")
	require.Contains(t, stderr, "\nAvailable Commands:\n")
	require.Contains(t, stderr, "\n  serve ")
	_, _, stderr = execute(t, "help", "config", "chekc")
	require.Contains(t, stderr, "\n  check ")
	for _, args := range [][]string{{"help"}, {"help", "config", "check"}, {"completion"}, {"completion", "bash"}} {
		code, stdout, stderr := execute(t, args...)
		require.Equal(t, exitOK, code, args)
		require.NotEmpty(t, stdout, args)
		require.Empty(t, stderr, args)
	}
}

func TestABadVariableStopsServeWithExitCodeTwo(t *testing.T) {
	t.Setenv("MCMW_TIMEOUT", "1")
	code, _, stderr := execute(t, "serve", "-m", "a")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "mcmw: env MCMW_TIMEOUT: \"1\" has no unit; accepted: 1ms to 1h, with a unit: us, ms, s, m, h\n",
		stderr)
}

func TestConfigCheckSaysOKAndWarnsOfMisspeltVariables(t *testing.T) {
	t.Setenv("MCMW_SERVER", "a")
	t.Setenv("MCMW_POOLS", "a")
	code, stdout, stderr := execute(t, "config", "check", "-m", "a")
	require.Equal(t, exitOK, code)
	require.Equal(t, "OK\n", stdout)
	require.ElementsMatch(t, []string{
		"mcmw: warning: environment variable MCMW_SERVER is not an option; did you mean MCMW_SERVERS?",
		"mcmw: warning: environment variable MCMW_POOLS is ignored, because pools is accepted only in the file",
	}, strings.Split(strings.TrimSpace(stderr), "\n"))
}

func TestConfigPrintWritesAFileThatConfigCheckAccepts(t *testing.T) {
	t.Chdir(t.TempDir())
	code, stdout, _ := execute(t, "config", "print", "-t", "64", "-m", "a", "b", "--show-origin")
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout, "\nworkers: 64 # flag -t, --workers\n")
	require.Contains(t, stdout, "\nservers: # flag -m, --servers\n  - a\n  - b\n")
	require.NoError(t, os.WriteFile("mcmw.yaml", []byte(stdout), 0o600))
	code, again, stderr := execute(t, "config", "check", "--config", "mcmw.yaml")
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "OK\n", again)
}

func TestConfigDocsWritesTheDocumentation(t *testing.T) {
	code, stdout, _ := execute(t, "config", "docs")
	require.Equal(t, exitOK, code)
	require.Equal(t, config.Documentation(), stdout)
	path := t.TempDir() + "/configuration.md"
	code, stdout, _ = execute(t, "config", "docs", "--write", path)
	require.Equal(t, exitOK, code)
	require.Empty(t, stdout)
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, config.Documentation(), string(written))
}

func TestVersionAnswersAsTextAndAsJSON(t *testing.T) {
	code, stdout, _ := execute(t, "version")
	require.Equal(t, exitOK, code)
	require.Regexp(t, `^mcmw \S+ \(commit \w+(, (un)?modified)?\) go1\.\S+ \S+/\S+\n$`, stdout)

	code, stdout, _ = execute(t, "version", "-o", "json")
	require.Equal(t, exitOK, code)
	var info buildinfo.Info
	require.NoError(t, json.Unmarshal([]byte(stdout), &info))
	require.Equal(t, build, info)
}

func TestTheShellCompletesOptionsAndTheirValues(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, _ := execute(t, "completion", shell)
		require.Equal(t, exitOK, code)
		require.Contains(t, stdout, "mcmw")
	}
	for args, want := range map[string]string{
		"serve --ring ":     "rendezvous\ntwemproxy\nlibmemcached\nlibmemcached-weighted\n:4\n",
		"serve --sharded=":  "true\nfalse\n:4\n",
		"serve --workers ":  ":4\n", // no file names
		"serve --config ":   ":0\n", // file names
		"version --output ": "text\njson\n:4\n",
	} {
		_, stdout, _ := execute(t, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		require.Equal(t, want, stdout, args)
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, args := range []string{
		"", "--help", "serve --help", "config", "config check --help", "config print --help",
		"ping --help", "version --help",
	} {
		code, stdout, stderr := execute(t, strings.Fields(args)...)
		require.Equal(t, exitOK, code, args)
		require.Contains(t, stdout, "Usage:", args)
		require.Empty(t, stderr, args)
	}
}

// started is a run of the command in a goroutine of the test.
type started struct {
	stderr *output
	stop   context.CancelFunc
	code   chan int // the exit code, once
}

// start runs the command line until stop is called, or the test ends.
func start(t *testing.T, args ...string) *started {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &started{stderr: &output{}, stop: cancel, code: make(chan int, 1)}
	go func() { s.code <- run(ctx, args, &output{}, s.stderr) }()
	t.Cleanup(cancel)
	return s
}
