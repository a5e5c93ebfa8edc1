package clients

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// A suite is a library's own tests of its source package.
type suite struct {
	name string
	// sources are copied, with port, which the tests insist on, replaced by the server's.
	sources, port string
	command       []string // PORT is the server's
	failed        *regexp.Regexp
	ran           *regexp.Regexp    // what the output has if the tests were run
	exceptions    map[string]string // a test -> why it may fail
}

var (
	failedPython = regexp.MustCompile(`(?m)^(?:FAILED|ERROR) \S*?(\w+(?:\[|$| ))`)
	failedGo     = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	failedRust   = regexp.MustCompile(`(?m)^test (\S+) \.\.\. FAILED`)
)

// moduleDir returns the directory of a Go module that the programs use.
func moduleDir(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// crateDir returns the directory of a crate that the program for Rust uses.
func crateDir(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("cargo", "metadata", "--format-version=1", "--manifest-path", "rust/Cargo.toml").Output()
	require.NoError(t, err)
	dir := regexp.MustCompile(`"manifest_path":"([^"]*/` + regexp.QuoteMeta(name) + `)/Cargo.toml"`).FindSubmatch(out)
	require.NotNil(t, dir, "cargo metadata has no %s", name)
	return string(dir[1])
}

// failedTests runs the suite against the server at addr and returns the tests that fail.
func (s *suite) failedTests(t *testing.T, addr string) map[string]bool {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(s.sources)))
	if s.port != "" {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.Contains(strings.TrimPrefix(path, dir), "test") {
				return err
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			return os.WriteFile(path, bytes.ReplaceAll(text, []byte(s.port), []byte(port)), 0o644)
		}))
	}
	args := make([]string, len(s.command))
	for i, a := range s.command {
		args[i] = strings.ReplaceAll(a, "PORT", port)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CARGO_TARGET_DIR="+built("rust-suite"))
	out, err := cmd.CombinedOutput()
	require.Regexp(t, s.ran, string(out), "%v; `.ci/deps clients` installs the suites", err)
	names := map[string]bool{}
	for _, match := range s.failed.FindAllStringSubmatch(string(out), -1) {
		names[match[1]] = true
	}
	return names
}

// alwaysFail returns the tests that fail in each of some runs. On a busy machine some fail on every server now and
// then: gomemcache's flush on a connection whose reply they don't await, and touch items less than a second before
// their end.
func (s *suite) alwaysFail(t *testing.T, addr string) map[string]bool {
	t.Helper()
	const runs = 4
	failed := s.failedTests(t, addr)
	for n := 1; n < runs && len(failed) > 0; n++ {
		t.Logf("failed through mcmw: %v; trying again", slices.Sorted(maps.Keys(failed)))
		again := s.failedTests(t, addr)
		maps.DeleteFunc(failed, func(name string, _ bool) bool { return !again[name] })
	}
	return failed
}

// What fails on memcached itself is not compared.
func TestTheirOwnSuitesFailNoMoreThanOnMemcached(t *testing.T) {
	for _, s := range []suite{
		{
			name: "pymemcache", sources: filepath.Join(cache(), "python", "sources", "pymemcache-4.0.0"),
			command: []string{
				filepath.Join(cache(), "python", "bin", "python"), "-m", "pytest", "-c", os.DevNull, "--rootdir", ".",
				"-q", "-p", "no:cacheprovider", "-W", "ignore",
				"pymemcache/test/test_integration.py", "--server", "127.0.0.1", "--port", "PORT",
			},
			failed: failedPython, ran: regexp.MustCompile(`[1-9]\d* passed`),
			exceptions: map[string]string{"test_misc[": "it calls stats cachedump, which is refused: a key could " +
				"forge the end of the reply"},
		},
		{
			name: "gomemcache", sources: moduleDir(t, "github.com/bradfitz/gomemcache"), port: "11211",
			// these start a memcached of their own
			command: []string{"go", "test", "-count=1", "-v", "-skip", "TestUnixSocket|TestTLS", "./memcache"},
			failed:  failedGo, ran: regexp.MustCompile(`--- (PASS|FAIL): TestLocalhost`),
		},
		{
			name: "memcache-rust", sources: crateDir(t, "memcache-0.21.0"), port: "12345",
			command: []string{
				"cargo", "test", "--no-default-features", "--no-fail-fast", "--test", "test_ascii", "--",
				"--test-threads=1",
			},
			failed: failedRust, ran: regexp.MustCompile(`[1-9]\d* passed`),
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			control := s.failedTests(t, mctest.StartNewMemcached(t).Addr())
			m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(mctest.StartNewMemcacheds(t, 2)...)})
			for name := range s.alwaysFail(t, m.Addr()) {
				if reason := s.exceptions[name]; reason != "" {
					t.Logf("%s: %s", name, reason)
					continue
				}
				require.True(t, control[name], "%s fails only through mcmw", name)
			}
			t.Logf("failed on memcached itself: %v", control)
		})
	}
}
