package mctest

import (
	"testing"

	"mcmw/internal/faulty"
)

// DNS is a DNS server on loopback, over UDP. It knows the names that it was given, and answers that others don't exist.
type DNS = faulty.DNS

// Target is the target of an SRV record: a host name and a port.
type Target = faulty.Target

// StartDNS starts a DNS server that knows no names. It ends with the test.
func StartDNS(t testing.TB) *DNS {
	t.Helper()
	d, err := faulty.StartDNS()
	if err != nil {
		t.Fatalf("DNS server: %v", err)
	}
	t.Cleanup(d.Stop)
	return d
}
