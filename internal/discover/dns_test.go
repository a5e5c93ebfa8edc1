package discover_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/discover"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
)

func TestServersAreFoundByARealNameServer(t *testing.T) {
	dns := mctest.StartDNS(t)
	dns.SetAddrs("cache.test", "127.0.0.2", "127.0.0.3", "::1")
	var targets []mctest.Target
	for i := range 3 {
		host := fmt.Sprintf("memcached-%d.memcached.ns.svc.cluster.local", i)
		targets = append(targets, mctest.Target{Host: host, Port: 11211, Weight: 33})
		dns.SetAddrs(host, fmt.Sprintf("127.0.1.%d", i))
	}
	dns.SetSRV(service+".cluster.local", targets...)

	// Absolute names: the search domains of this machine are its own.
	lookups := discover.Lookups{Resolver: dns.Addr(), RemoveAfter: 2, Specs: []discover.Spec{
		spec("dns+cache.test.:1"), spec("srv+" + service + ".cluster.local."),
	}}
	finder := discover.NewFinder(discover.Options{})
	find := func() []route.Server {
		t.Helper()
		servers, err := finder.Find(t.Context(), lookups)
		require.NoError(t, err)
		return withoutEntries(servers)
	}
	want := []route.Server{
		server("127.0.0.2:1", "127.0.0.2:1"), server("127.0.0.3:1", "127.0.0.3:1"), server("[::1]:1", "[::1]:1"),
		server("memcached-0", "127.0.1.0:11211"), server("memcached-1", "127.0.1.1:11211"),
		server("memcached-2", "127.0.1.2:11211"),
	}
	require.Equal(t, want, find())

	dns.SetAddrs("memcached-1.memcached.ns.svc.cluster.local", "127.0.9.1")
	want[4].Addr = "127.0.9.1:11211"
	require.Equal(t, want, find(), "a pod has moved")

	dns.Fail("")
	require.Equal(t, want, find(), "the name server fails")
	dns.Heal()
	dns.SetSRV(service + ".cluster.local")
	require.Equal(t, want, find(), "the name has no records")

	dns.SetSRV(service+".cluster.local", targets[:2]...)
	require.Equal(t, want, find(), "an answer lacks a pod")
	require.Equal(t, want[:5], find(), "a second answer lacks it")

	lookups.Specs = append(lookups.Specs, spec("dns+nowhere.test.:1"))
	_, err := finder.Find(t.Context(), lookups)
	require.ErrorContains(t, err,
		"dns+nowhere.test.:1: no records: lookup nowhere.test. on "+dns.Addr()+": no such host")
}

func TestAFailureOfTheNameServerIsAnErrorThatNamesIt(t *testing.T) {
	dns := mctest.StartDNS(t)
	dns.Fail("")
	finder := discover.NewFinder(discover.Options{})
	_, err := finder.Find(t.Context(),
		discover.Lookups{Resolver: dns.Addr(), Specs: []discover.Spec{spec("dns+cache.test.:1")}})
	require.ErrorContains(t, err, "dns+cache.test.:1: lookup cache.test. on "+dns.Addr()+": ")
	require.ErrorContains(t, err, "server misbehaving")
}
