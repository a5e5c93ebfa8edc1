package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/mctest"
	"mcmw/internal/sweep"
	"mcmw/internal/terminal"
)

func TestVerifyReplicasSaysWhetherTheyAgree(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 2)
	set := func(s int, key, value string, version int) {
		require.Equal(t, "HD\r\n", mctest.MustDial(t, servers[s].Addr()).MustDo(t,
			fmt.Sprintf("ms %s %d E%d\r\n%s\r\n", key, len(value), 1<<62+version, value)))
	}
	verify := func(flags string) (code int, stdout, stderr string) {
		return execute(t, append([]string{"verify-replicas", "--servers", servers[0].Addr() + "," + servers[1].Addr()},
			strings.Fields(flags)...)...)
	}
	for s := range servers {
		set(s, "same", "v", 1)
	}
	set(0, "lacking", "v", 2)
	code, stdout, stderr := verify("")
	require.Equal(t, exitOK, code, stderr)
	require.Regexp(t, `^all replicas agree: 3 copies on 2 servers, compared in .*s\n$`, stdout)

	for s := range servers {
		for n := range 3 {
			set(s, fmt.Sprint("secret-", n), fmt.Sprint(s), 10+10*n+s)
		}
		set(s, "lies", fmt.Sprint(s), 50)
	}
	code, stdout, stderr = verify("--list 2")
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `^(sha256 [0-9a-f]{16} differs: 127.0.0.1:\d+ A, 127.0.0.1:\d+ B\n){2}$`, stdout)
	require.Regexp(t, `^mcmw: 3 keys with differing copies; compared 11 copies on 2 servers in .*s\n$`, stderr)
	code, stdout, _ = verify("--log-keys --values")
	require.Equal(t, exitFailed, code)
	require.Equal(t, 4, strings.Count(stdout, "differs"))
	require.Contains(t, stdout, `"lies" differs: `)

	servers[1].Stop()
	code, _, stderr = verify("")
	require.Equal(t, exitFailed, code)
	require.Regexp(t, "^mcmw: not all replicas could be compared: "+servers[1].Addr()+": connection refused\n$", stderr)
}

func TestVerifyReplicasSaysWhatItCannotCompare(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 2, "-o", "no_lru_crawler")
	code, stdout, stderr := execute(t, "verify-replicas", "--servers", servers[0].Addr()+","+servers[1].Addr(),
		"--replicas", "1")
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "nothing to compare: every key is on one server\n", stdout)
	code, _, stderr = execute(t, "verify-replicas", "--servers", servers[0].Addr()+","+servers[1].Addr())
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "memcached with the LRU crawler")
}

func TestVerifyReplicasAcceptsTheOptionsOfServe(t *testing.T) {
	for flags, want := range map[string]string{
		"":                      "servers",
		"-m a --sweep-rate 0":   "flag --sweep-rate",
		"-m a --list many":      "--list",
		"--config nowhere.yaml": "nowhere.yaml",
	} {
		code, _, stderr := execute(t, append([]string{"verify-replicas"}, strings.Fields(flags)...)...)
		require.Equal(t, exitUsage, code, flags)
		require.Contains(t, stderr, want, flags)
	}
}

func TestVerifyReplicasCountsTheServersOfAllPools(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 5)
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	text := fmt.Sprintf("pools:\n  a: {servers: [%q, %q, %q]}\n  b: {servers: [%q, %q]}\n"+
		"routes: [{prefix: x, pool: a}, {default: b}]\n", servers[0].Addr(), servers[1].Addr(), servers[2].Addr(),
		servers[3].Addr(), servers[4].Addr())
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	code, stdout, stderr := execute(t, "verify-replicas", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.Regexp(t, `^all replicas agree: 0 copies on 5 servers, compared in .*s\n$`, stdout)
}

func TestTheProgressOfAComparisonFitsANarrowTerminal(t *testing.T) {
	person, program := openTerminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 40}))
	v := &verification{out: io.Discard, progress: program, screen: terminal.NewScreen(program)}
	v.report(sweep.Progress{Server: "cache1", Number: 1, Of: 3, Items: 10, Listed: 5, Keys: 123_456_789})
	v.clear()
	shown := make([]byte, 4096)
	n, err := person.Read(shown)
	require.NoError(t, err)
	require.Contains(t, string(shown[:n]), "cache1 (1 of 3), 50 %: 123456789")
	require.NotContains(t, string(shown[:n]), "keys differing", "a line that wraps cannot be removed")
}
