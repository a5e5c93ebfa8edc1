package mctest

import (
	"os/exec"
	"strings"
	"testing"
)

// StartMemcachedTLS is StartMemcached for a server with TLS and a new certificate of ca. The test is skipped if
// memcached was built without TLS.
func StartMemcachedTLS(t testing.TB, ca *CA, args ...string) *Server {
	t.Helper()
	// memcached prints its help and then exits with an error.
	help, _ := exec.Command("memcached", "-h").Output()
	if !strings.Contains(string(help), "--enable-ssl") {
		t.Skip("memcached was built without TLS")
	}
	cert, key := ca.Issue()
	args = append([]string{"-Z", "-o", "ssl_chain_cert=" + cert, "-o", "ssl_key=" + key}, args...)
	return startMemcached(t, "memcached", ca.Client(ca.Issue("mctest")), args)
}
