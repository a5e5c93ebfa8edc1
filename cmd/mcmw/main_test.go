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
	for args, message := range map[string]string{
		"srve": "mcmw: unknown command \"srve\" for \"mcmw\"\nmcmw: Did you mean this?\nmcmw: " +
			"serve\nmcmw: see mcmw --help\n",
		"config chekc": "mcmw: unknown command \"chekc\" for \"mcmw config\"\nmcmw: see mcmw config " +
			"--help\n",
		"serve --wrokers 3": "mcmw: unknown flag: --wrokers; did you mean --workers?\nmcmw: see mcmw serve " +
			"--help\n",
		"serve --port 3": "mcmw: unknown flag: --port; did you mean --listen-port?\nmcmw: see mcmw serve " +
			"--help\n",
		"--queue 3": "mcmw: unknown flag: --queue; it is a flag of mcmw config check, mcmw config " +
			"explain, mcmw config print, mcmw serve, mcmw verify-replicas, mcmw wait\nmcmw: see mcmw --help\n",
		"top -m a": "mcmw: unknown shorthand flag: 'm' in -m; it is a flag of mcmw config check, " +
			"mcmw config explain, mcmw config print, mcmw serve, mcmw verify-replicas, mcmw wait\n" +
			"mcmw: see mcmw top --help\n",
		"top --m a": "mcmw: unknown flag: --m\nmcmw: see mcmw top --help\n",
		"serve -t":  "mcmw: flag needs an argument: 't' in -t\nmcmw: see mcmw serve --help\n",
		"version -o yaml": "mcmw: invalid argument \"yaml\" for \"-o, --output\" flag: accepted: text, " +
			"json\nmcmw: see mcmw version --help\n",
		"migrate 127.0.0.1:1": "mcmw: unknown command \"127.0.0.1:1\" for \"mcmw migrate\"\nmcmw: see mcmw " +
			"migrate --help\n",
		"help srve": "mcmw: unknown command \"srve\" for \"mcmw\"\nmcmw: Did you mean this?\nmcmw: " +
			"serve\nmcmw: see mcmw help --help\n",
		"help config chekc": "mcmw: unknown command \"chekc\" for \"mcmw config\"\nmcmw: see mcmw help --help\n",
		"help serve a":      "mcmw: unknown command \"a\" for \"mcmw serve\"\nmcmw: see mcmw help --help\n",
		"completion csh": "mcmw: unknown command \"csh\" for \"mcmw completion\"\nmcmw: see mcmw completion " +
			"--help\n",
		"version now": "mcmw: unknown command \"now\" for \"mcmw version\"\nmcmw: see mcmw version " +
			"--help\n",
		"serve -m a --depth 0": "mcmw: flag --depth: \"0\" is too small; accepted: 1 to 4096 requests\n",
		"serve -m a:x --depth two": "mcmw: flag -m, --servers: \"a:x\" has the port \"x\"; a port is a number from 1 " +
			"to 65535; accepted: ",
		"serve -m srv+cache": "mcmw: flag -m, --servers: \"srv+cache\" is not of the form " +
			"srv+_service._proto.host; accepted: ",
		"config check -m a -t -1": "mcmw: flag -t, --workers: \"-1\" is too small; accepted: 0 to 1024; 0 or auto: " +
			"chosen at start\n",
		"config print --queue 0": "mcmw: flag --queue: \"0\" is too small; accepted: 1 to 1048576 batches\n",
		"config check -m a --tls-cert nowhere --tls-key nowhere": "mcmw: flag --tls-cert: \"nowhere\": no such file " +
			"or directory\n",
		"serve -m a --auth-file .":   "mcmw: flag --auth-file: \".\": is a directory\n",
		"wait -m a":                  "mcmw: nothing to wait for; accepted: --refilled\n",
		"wait --refilled=false -m a": "mcmw: nothing to wait for; accepted: --refilled\n",
		"wait --for=0s -m a":         "flag: accepted: a duration such as 30s or 1m30s\nmcmw: see mcmw wait",
		"wait --for=-1s -m a":        "flag: accepted: a duration such as 30s or 1m30s\nmcmw: see mcmw wait",
		"ping a:1 --for=-1s":         "flag: accepted: a duration such as 30s or 1m30s, or 0s\nmcmw: see mcmw ping",
		"ping a:1 --tls-cert c":      "missing [tls-key]\nmcmw: see mcmw ping --help\n",
		"ping 127.0.0.1": "mcmw: \"127.0.0.1\" is not an address; expected host:port or unix:/path\nmcmw: see mcmw " +
			"ping --help\n",
		"top 127.0.0.1:1 --count -1":     "for \"-n, --count\" flag: accepted: 0 to 1000000000\n",
		"verify-replicas -m a --list -1": "for \"--list\" flag: accepted: 0 to 1000000000\n",
		"top http://":                    "or a URL such as http://127.0.0.1:9150\nmcmw: see mcmw top --help\n",
		"advise ::1:9150":                "or a URL such as http://127.0.0.1:9150\nmcmw: see mcmw advise",
		"migrate status ftp://a":         "or a URL such as http://127.0.0.1:9150\nmcmw: see mcmw migrate",
		"serve a": "mcmw: flag arguments: \"a\" is unexpected; " +
			"accepted: more servers, after -m or --servers and the first server\n",
	} {
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
