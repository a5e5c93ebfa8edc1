package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// problemsSince returns the problems in the lines of the log after the first n bytes, and whether a reload has ended
// there.
func problemsSince(t *testing.T, log *output, n int) (problems []string, ended bool) {
	t.Helper()
	for line := range strings.Lines(log.String()[n:]) {
		var e struct{ Msg, Problem string }
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		ended = ended || strings.HasPrefix(e.Msg, "the new configuration is ")
		if e.Problem != "" {
			problems = append(problems, e.Problem)
		}
	}
	return problems, ended
}

func TestConfigCheckAgainstARunningMiddlewareSaysWhatTheReloadThenSays(t *testing.T) {
	var addrs []any
	for _, s := range mctest.StartMemcacheds(t, 3) {
		addrs = append(addrs, s.Addr())
	}
	dir := t.TempDir()
	file, next := filepath.Join(dir, "mcmw.yaml"), filepath.Join(dir, "next.yaml")
	write := func(file, listen, pools string) {
		text := "listen: " + listen + "\nwatch-interval: 0s\nwriters: one\n" + fmt.Sprintf(pools, addrs...)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	const (
		two    = "pools: {live: {servers: [a=%[1]s]}, next: {servers: [b=%[2]s]}}\n"
		routes = "routes: [{default: live}]\n"
	)
	write(file, "127.0.0.1:0", two+routes)
	p := startProcess(t, "serve", "--config", file, "--admin", "127.0.0.1:0", "--depth", "3")
	awaitEntry(t, p.stderr, "ready")
	require.Regexp(t, `"msg":"ready".*"pools":2,"sharded"`, p.stderr.String())
	address := awaitEntry(t, p.stderr, "admin server listens").Address
	for _, change := range []struct{ name, listen, pools, says string }{
		{
			"a shadow alone", "", two + routes + "shadows: [{of: live, to: next, share: 1}]\n",
			"shadows:  -> live to next (share 1, what reads)\nOK\n",
		},
		{"a flag stays", "", two + routes + "depth: 4\n", "shadows: live to next (share 1, what reads) -> \nOK\n"},
		{"an option that needs a restart", "127.0.0.1:1", two + routes, "cannot replace"},
		{"two problems", "", two + "routes: [{default: none}]\nqueue: 0\n", `"0" is too small`},
		{"a pool that is away", "", two + "routes: [{prefix: x, pool: next}, {default: away}]\n", `"away"`},
		{"a server in another pool", "", "pools: {live: {servers: [a=%[1]s, b=%[2]s]}, next: {servers: [c=%[3]s]}}\n" +
			routes, `cannot move from pool "next" to pool "live"`},
		{
			"a name without an address", "",
			"pools: {live: {servers: [a=%[1]s, srv+_x._tcp.nowhere.invalid]}, next: {servers: [b=%[2]s]}}\n" + routes,
			"nowhere.invalid",
		},
		{"not YAML", "", "pools: [\n", "mcmw.yaml:"},
		{"nothing", "", two + routes, "OK\n"},
	} {
		if change.listen == "" {
			change.listen = "127.0.0.1:0"
		}
		write(next, change.listen, change.pools)
		before := len(p.stderr.String())
		code, stdout, stderr := execute(t, "config", "check", "--config", next, "--against", address)
		require.Contains(t, stdout+stderr, change.says, change.name)
		require.Equal(t, strings.HasSuffix(stdout, "OK\n"), code == exitOK, change.name)
		problems, ended := problemsSince(t, p.stderr, before)
		require.False(t, ended, "%s: a check reloads nothing", change.name)
		require.Empty(t, problems, change.name)

		write(file, change.listen, change.pools)
		require.NoError(t, p.Process.Signal(syscall.SIGHUP))
		if change.name == "nothing" {
			awaitLog(t, p.stderr, "has not changed")
			continue
		}
		require.Eventually(t, func() bool {
			problems, ended = problemsSince(t, p.stderr, before)
			return ended && len(problems) >= strings.Count(stderr, "\n") // each problem has a line of its own
		}, mctest.Patience, mctest.Tick, change.name)
		for i := range problems {
			problems[i] = "mcmw: " + problems[i] + "\n"
		}
		require.Equal(t, strings.Join(problems, ""), stderr, change.name)
	}
}

func TestConfigCheckAgainstSaysWhyItCannotAsk(t *testing.T) {
	s := start(t, "serve", "-l", "127.0.0.1:0", "-m", mctest.StartMemcached(t).Addr(), "--admin", "0.0.0.0:0")
	awaitEntry(t, s.stderr, "ready")
	_, port, err := net.SplitHostPort(awaitEntry(t, s.stderr, "admin server listens").Address)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file, []byte("servers: [a]\n"), 0o600))
	for args, says := range map[string]string{
		"--config " + file + " --against 127.0.0.1:" + port:      "started without a configuration file",
		"--config " + file + " --against 127.0.0.1:1":            "connection refused",
		"--config " + file + ".away --against 127.0.0.1:" + port: "no such file",
		"--config " + file + " --against http://127.0.0.1:" + port +
			"/x": "does not answer as mcmw's admin server does",
	} {
		code, stdout, stderr := execute(t, append([]string{"config", "check"}, strings.Fields(args)...)...)
		require.Equal(t, exitFailed, code, args)
		require.Empty(t, stdout, args)
		require.Contains(t, stderr, says, args)
	}
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			response, err := http.Post("http://"+net.JoinHostPort(ip.IP.String(), port)+"/api/check", "",
				strings.NewReader("servers: [a]\n"))
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusForbidden, response.StatusCode)
		}
	}
}

func TestConfigCheckAgainstTakesAFileAndNothingElse(t *testing.T) {
	for _, args := range []string{"--against 127.0.0.1:1", "--depth 3 --config mcmw.yaml --against 127.0.0.1:1"} {
		code, _, stderr := execute(t, append([]string{"config", "check"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, stderr, "accepted with it: --config FILE", args)
	}
}

func TestConfigCheckWithoutFilesAcceptsThoseThatDoNotExistYetAndNoOtherMistake(t *testing.T) {
	args := strings.Fields("config check -m a --tls-cert /nowhere/tls.crt --tls-key /nowhere/tls.key --auth-file " +
		"/nowhere/users --server-auth-file /nowhere/user")
	code, _, stderr := execute(t, args...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "no such file")
	code, stdout, stderr := execute(t, append(args, "--no-files")...)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "OK\n", stdout)
	code, _, stderr = execute(t, "config", "check", "-m", "a", "--tls-cert", "/nowhere/tls.crt", "--no-files")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "needs tls-key")
}
