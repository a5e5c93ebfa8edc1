package mctest

import (
	"testing"

	"mcmw/internal/faulty"
)

// Proxy forwards every byte between a client and a real server until a fault is injected.
type Proxy = faulty.Proxy

// Fault is a fault that a Proxy injects into the server's replies, on every connection.
type Fault = faulty.Fault

// StartProxy starts a proxy in front of the server at target, which may be restarted. The proxy ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := faulty.StartProxy(target)
	if err != nil {
		t.Fatalf("faulty proxy: %v", err)
	}
	t.Cleanup(p.Stop)
	return p
}
