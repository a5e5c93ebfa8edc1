package clients

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// failedTest is a line of pytest's summary.
var failedTest = regexp.MustCompile(`(?m)^(?:FAILED|ERROR) \S*?(\w+(?:\[|$| ))`)

// The libraries' own tests, of their source packages, that need a server. What fails on memcached itself is not compared. Of the others' suites
// pylibmc's uses the binary protocol, and most need a server at port 11211.
func TestTheirOwnSuitesFailNoMoreThanOnMemcached(t *testing.T) {
	for _, suite := range []struct {
		sources, tests string
		arguments      []string
		exceptions     map[string]string // a test -> why it may fail
	}{
		{"pymemcache-4.0.0", "pymemcache/test/test_integration.py", []string{"--server", "HOST", "--port", "PORT"}, map[string]string{
			"test_misc[": "it calls stats cachedump, which is refused: a key could forge the end of the reply",
		}},
	} {
		t.Run(suite.sources, func(t *testing.T) {
			failed := func(addr string) map[string]bool {
				host, port, err := net.SplitHostPort(addr)
				require.NoError(t, err)
				args := []string{"-m", "pytest", "-c", os.DevNull, "--rootdir", ".", "-q", "-p", "no:cacheprovider", "-W", "ignore", suite.tests}
				for _, a := range suite.arguments {
					args = append(args, map[string]string{"HOST": host, "PORT": port}[a])
					if args[len(args)-1] == "" {
						args[len(args)-1] = a
					}
				}
				cmd := exec.Command(filepath.Join(cache(), "python", "bin", "python"), args...)
				cmd.Dir = filepath.Join(cache(), "python", "sources", suite.sources)
				cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
				out, err := cmd.CombinedOutput()
				require.Regexp(t, `[1-9]\d* passed`, string(out), "%v; `.ci/deps clients` installs the suites", err)
				names := map[string]bool{}
				for _, match := range failedTest.FindAllStringSubmatch(string(out), -1) {
					names[match[1]] = true
				}
				return names
			}
			control := failed(mctest.StartNewMemcached(t).Addr())
			m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(mctest.StartNewMemcacheds(t, 2)...)})
			for name := range failed(m.Addr()) {
				if reason := suite.exceptions[name]; reason != "" {
					t.Logf("%s: %s", name, reason)
					continue
				}
				require.True(t, control[name], "%s fails only through mcmw", name)
			}
			t.Logf("failed on memcached itself: %v", control)
		})
	}
}
