package mctest

import (
	"testing"

	"mcmw/internal/faulty"
)

// DNS is a name server on loopback, over UDP. It knows the names it was given, and answers that others don't exist.
type DNS = faulty.DNS

// Target is a record that leads to a server: its host's name and port.
type Target = faulty.Target

// StartDNS starts a name server that knows no name. It ends with the test.
func StartDNS(t testing.TB) *DNS {
	t.Helper()
	d, err := faulty.StartDNS()
	if err != nil {
		t.Fatalf("name server: %v", err)
	}
	t.Cleanup(d.Stop)
	return d
}
