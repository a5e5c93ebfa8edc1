package discover_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/discover"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

var (
	errDown     = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	errNotFound = &net.DNSError{Err: "no such host", IsNotFound: true}
)

// names is a Resolver with the names that a test sets. Other names do not exist.
type names struct {
	mu    sync.Mutex // guards everything below
	addrs map[string][]string
	srv   map[string][]*net.SRV
	fails map[string]error // by name; "" is every name
	hangs bool             // lookups hang until their context is done
	nets  []string         // the networks asked for
}

func (n *names) failure(ctx context.Context, name string) error {
	n.mu.Lock()
	hangs := n.hangs
	err := errors.Join(n.fails[""], n.fails[name])
	n.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (n *names) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	if err := n.failure(ctx, host); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nets = append(n.nets, network)
	if n.addrs[host] == nil {
		return nil, errNotFound
	}
	var addrs []netip.Addr
	for _, a := range n.addrs[host] {
		if a := netip.MustParseAddr(a); network == "ip" || (network == "ip4") == a.Is4() {
			addrs = append(addrs, a)
		}
	}
	return addrs, nil
}

func (n *names) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if err := n.failure(ctx, name); err != nil {
		return "", nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv[name] == nil {
		return "", nil, errNotFound
	}
	return name, slices.Clone(n.srv[name]), nil
}

// fixture is a Finder with its names, counts and log.
type fixture struct {
	*names
	finder *discover.Finder
	counts stats.Control
	log    mctest.Output
	asked  []string // the addresses of the DNS servers that were used
}

func newFixture() *fixture {
	f := &fixture{names: &names{addrs: map[string][]string{}, srv: map[string][]*net.SRV{}, fails: map[string]error{}}}
	f.finder = discover.NewFinder(f.options(discover.Cluster{}))
	return f
}

// watchIn replaces the finder by one in a pod of a cluster.
func (f *fixture) watchIn(t *testing.T, c discover.Cluster) {
	f.finder = discover.NewFinder(f.options(c))
	t.Cleanup(f.finder.Close)
}

func (f *fixture) options(c discover.Cluster) discover.Options {
	return discover.Options{
		NewResolver: func(addr string) discover.Resolver { f.asked = append(f.asked, addr); return f.names },
		Cluster:     c,
		Counts:      &f.counts,
		Log: slog.New(slog.NewTextHandler(&f.log,
			&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})),
	}
}

// find returns the servers found for specs, and fails the test if there is an error.
func (f *fixture) find(t *testing.T, specs ...discover.Spec) []route.Server {
	t.Helper()
	servers, err := f.finder.Find(t.Context(), discover.Lookups{Specs: specs, RemoveAfter: 3})
	require.NoError(t, err)
	return withoutEntries(servers)
}

// withoutEntries returns servers without their entries, which most tests don't ask about.
func withoutEntries(servers []route.Server) []route.Server {
	for i := range servers {
		servers[i].Entry = ""
	}
	return servers
}

func spec(text string) discover.Spec {
	lookup, name := discover.CutLookup(text)
	return discover.Spec{Lookup: lookup, Server: route.Server{Addr: name, Weight: 1}}
}

func server(name, addr string) route.Server { return route.Server{Name: name, Addr: addr, Weight: 1} }

func pod(host string) *net.SRV { return &net.SRV{Target: host + ".", Port: 11211} }

const service = "_memcache._tcp.memcached.ns.svc"

// withPods makes the service have pods memcached-0 and so on, with addresses 10.0.0.1 and so on.
func (f *fixture) withPods(hosts ...string) *fixture {
	f.srv[service] = nil
	for i, h := range hosts {
		host := h + ".memcached.ns.svc.cluster.local"
		f.srv[service] = append(f.srv[service], pod(host))
		f.addrs[host] = []string{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}).String()}
	}
	return f
}

func TestServersAreInTheOrderOfTheEntriesAndThoseOfOneEntryByName(t *testing.T) {
	f := newFixture().withPods("memcached-1", "memcached-0")
	f.addrs["cache"] = []string{"10.1.0.2", "10.1.0.1"}
	static := discover.Spec{Server: route.Server{Name: "last", Addr: "elsewhere:1", Weight: 5}}
	require.Equal(t, []route.Server{
		server("memcached-0", "10.0.0.2:11211"), server("memcached-1", "10.0.0.1:11211"),
		server("10.1.0.1:11", "10.1.0.1:11"), server("10.1.0.2:11", "10.1.0.2:11"),
		static.Server,
	}, f.find(t, spec("srv+"+service), spec("dns+cache:11"), static))
}

func TestIPv4AndIPv6AddressesCanBeAskedForSeparately(t *testing.T) {
	f := newFixture()
	f.addrs["cache"] = []string{"10.0.0.1", "::ffff:10.0.0.2", "2001:db8::1"}
	v4, mapped, v6 := server("10.0.0.1:1", "10.0.0.1:1"), server("10.0.0.2:1", "10.0.0.2:1"),
		server("[2001:db8::1]:1", "[2001:db8::1]:1")
	require.Equal(t, []route.Server{v4, mapped, v6}, f.find(t, spec("dns+cache:1")))
	require.Equal(t, []route.Server{v4}, f.find(t, spec("dns4+cache:1")))
	require.Equal(t, []route.Server{mapped, v6}, f.find(t, spec("dns6+cache:1")),
		"a mapped address is an IPv6 address to the resolver")
	require.Equal(t, []string{"ip", "ip4", "ip6"}, f.nets)
}

func TestTheOrderOfAnAnswerDoesNotMatter(t *testing.T) {
	f := newFixture().withPods("a", "b", "c")
	before := f.find(t, spec("srv+"+service))
	slices.Reverse(f.srv[service])
	require.Equal(t, before, f.find(t, spec("srv+"+service)))
}

func TestAServersNameDependsOnItsRecordAloneAndIsShortIfThatIsSafe(t *testing.T) {
	for _, c := range []struct{ asked, target, name string }{
		{"_memcache._tcp.memcached.ns.svc", "memcached-0.memcached.ns.svc.cluster.local", "memcached-0"},
		{"_memcache._tcp.memcached.ns.svc.cluster.local.", "memcached-0.memcached.ns.svc.cluster.local", "memcached-0"},
		{"_memcache._tcp.memcached", "memcached-0.memcached.ns.svc.cluster.local", "memcached-0"},
		{"_memcache._tcp.Memcached.ns.svc", "MEMCACHED-0.memcached.NS.svc.cluster.local", "memcached-0"},
		{"_memcache._tcp.example.com", "cache1.example.com", "cache1"},
		{"_memcache._tcp.example.com", "cache1.rack2.example.com", "cache1.rack2.example.com"},
		{"_memcache._tcp.example.com", "cache1.example.net", "cache1.example.net"},
		{"_memcache._tcp.example.com", "cache1.example.company", "cache1.example.company"},
		{"_memcache._tcp.example.com", "localhost", "localhost"},
	} {
		f := newFixture()
		f.srv[c.asked] = []*net.SRV{{Target: c.target + ".", Port: 11211}, {Target: c.target + ".", Port: 5}}
		f.addrs[c.target] = []string{"10.0.0.1"}
		require.Equal(t, []route.Server{server(c.name, "10.0.0.1:11211"), server(c.name+":5", "10.0.0.1:5")},
			f.find(t, spec("srv+"+c.asked)), c.asked)
	}
}

func TestTheNameOfAnEntryIsAPrefixOfItsServersNames(t *testing.T) {
	f := newFixture().withPods("memcached-0")
	f.addrs["cache"] = []string{"10.1.0.1"}
	blue, green := spec("srv+"+service), spec("dns+cache:1")
	blue.Server.Name, green.Server.Name = "blue", "green"
	require.Equal(t, []route.Server{
		server("blue/memcached-0", "10.0.0.1:11211"),
		server("green/10.1.0.1:1", "10.1.0.1:1"),
	}, f.find(t, blue, green))
}

func TestOnlyRecordsOfTheBestPriorityAreServers(t *testing.T) {
	f := newFixture().withPods("a", "b", "c")
	f.srv[service][1].Priority = 10
	require.Equal(t, []route.Server{server("a", "10.0.0.1:11211"), server("c", "10.0.0.3:11211")},
		f.find(t, spec("srv+"+service)))
}

func TestTheWeightIsThatOfTheEntryOrOfTheRecord(t *testing.T) {
	f := newFixture().withPods("a", "b", "c")
	s := spec("srv+" + service)
	for _, c := range []struct {
		weight  int
		records []uint16
		want    []int
	}{
		{4, []uint16{1, 2, 3}, []int{4, 4, 4}},
		{discover.RecordWeight, []uint16{33, 33, 33}, []int{1, 1, 1}},
		{discover.RecordWeight, []uint16{10, 20, 30}, []int{1, 2, 3}},
		{discover.RecordWeight, []uint16{0, 0, 0}, []int{1, 1, 1}},
		{discover.RecordWeight, []uint16{0, 5, 10}, []int{1, 1, 2}},
	} {
		s.Server.Weight = c.weight
		for i := range c.records {
			f.srv[service][i].Weight = c.records[i]
		}
		var got []int
		for _, server := range f.find(t, s) {
			got = append(got, server.Weight)
		}
		require.Equal(t, c.want, got, c.records)
	}
}

func TestANewAddressOfARecordIsFoundAtOnceUnderTheSameName(t *testing.T) {
	f := newFixture().withPods("a", "b")
	f.find(t, spec("srv+"+service))
	f.addrs["a.memcached.ns.svc.cluster.local"] = []string{"10.9.0.1"}
	require.Equal(t, []route.Server{server("a", "10.9.0.1:11211"), server("b", "10.0.0.2:11211")},
		f.find(t, spec("srv+"+service)))
}

func TestOfSeveralAddressesOfARecordTheOneInUseStays(t *testing.T) {
	f := newFixture().withPods("a")
	host := "a.memcached.ns.svc.cluster.local"
	for _, step := range []struct {
		addrs []string
		want  string
	}{
		{[]string{"2001:db8::1", "10.0.0.7"}, "10.0.0.7:11211"},
		{[]string{"10.0.0.3", "10.0.0.7", "2001:db8::1"}, "10.0.0.7:11211"},
		{[]string{"2001:db8::1", "10.0.0.4", "10.0.0.3"}, "10.0.0.3:11211"},
		{[]string{"2001:db8::1"}, "[2001:db8::1]:11211"},
	} {
		f.addrs[host] = step.addrs
		require.Equal(t, []route.Server{server("a", step.want)}, f.find(t, spec("srv+"+service)))
	}
}

func TestAServerIsRemovedOnlyWhenEnoughAnswersInARowLackIt(t *testing.T) {
	f := newFixture().withPods("a", "b")
	entry := spec("srv+" + service)
	both := f.find(t, entry)
	all := f.srv[service]
	onlyA, a := all[:1], both[:1]

	for round := range 3 { // it returns in time
		f.srv[service] = onlyA
		require.Equal(t, both, f.find(t, entry), round)
		require.Equal(t, both, f.find(t, entry), round)
		f.srv[service] = all
		require.Equal(t, both, f.find(t, entry), round)
	}
	f.srv[service] = onlyA
	require.Equal(t, both, f.find(t, entry))
	f.fails[""] = errDown
	for range 5 { // a failed lookup lacks no server
		require.Equal(t, both, f.find(t, entry))
	}
	delete(f.fails, "")
	require.Equal(t, both, f.find(t, entry))
	require.Equal(t, a, f.find(t, entry))
	f.srv[service] = all
	require.Equal(t, both, f.find(t, entry), "a server that returns is found at once")
}

func TestAServerWhoseAddressAnotherServerHasIsRemovedAtOnce(t *testing.T) {
	f := newFixture().withPods("a", "b")
	f.find(t, spec("srv+"+service))
	f.withPods("a", "c")
	require.Equal(t, []route.Server{server("a", "10.0.0.1:11211"), server("c", "10.0.0.2:11211")},
		f.find(t, spec("srv+"+service)))

	f.withPods("a")
	static := discover.Spec{Server: server("fixed", "10.0.0.2:11211")}
	require.Equal(t, []route.Server{static.Server, server("a", "10.0.0.1:11211")},
		f.find(t, static, spec("srv+"+service)))
}

func TestAServerFoundTwiceIsOneServer(t *testing.T) {
	f := newFixture()
	f.addrs["cache"] = []string{"10.0.0.1", "10.0.0.2", "10.0.0.1"}
	f.addrs["more"] = []string{"10.0.0.2"}
	static := discover.Spec{Server: route.Server{Name: "10.0.0.1:1", Addr: "10.0.0.1:1", Weight: 3}}
	require.Equal(t, []route.Server{static.Server, server("10.0.0.2:1", "10.0.0.2:1")},
		f.find(t, static, spec("dns+cache:1"), spec("dns+more:1")))
}

func TestWithoutAnAnswerTheLastListStaysAndThatIsLoggedOnce(t *testing.T) {
	f := newFixture().withPods("a", "b")
	f.addrs["cache"] = []string{"10.1.0.1"}
	entries := []discover.Spec{spec("srv+" + service), spec("dns+cache:1")}
	list := f.find(t, entries...)
	require.Empty(t, f.log.String())
	step := func(change func(), log string) {
		t.Helper()
		f.log.Take()
		change()
		for range 4 {
			require.Equal(t, list, f.find(t, entries...))
		}
		require.Equal(t, log, f.log.String())
	}
	step(func() { f.fails["cache"] = errDown },
		"level=WARN msg=\"a name cannot be looked up; its servers stay\" name=dns+cache:1 servers=1 error=\"lookup : "+
			"server misbehaving\"\n")
	step(func() { delete(f.fails, "cache"); delete(f.addrs, "cache") },
		"level=WARN msg=\"a name has no records any more; its servers stay\" name=dns+cache:1 servers=1 error=\"no "+
			"records: lookup : no such host\"\n")
	step(func() { f.addrs["cache"] = []string{} }, "")
	step(func() { f.addrs["cache"] = []string{"10.1.0.1"} },
		"level=INFO msg=\"a name is found again\" name=dns+cache:1\n")
	step(func() { f.fails["b.memcached.ns.svc.cluster.local"] = errDown },
		"level=WARN msg=\"some records have no address; their servers keep the last one, and new servers are not "+
			"used yet: b.memcached.ns.svc.cluster.local\" "+
			"name=srv+_memcache._tcp.memcached.ns.svc servers=2 error=\"lookup : server misbehaving\"\n")
	step(func() { clear(f.fails) },
		"level=INFO msg=\"a name is found again\" name=srv+_memcache._tcp.memcached.ns.svc\n")

	lookups := f.counts.Snapshot().Lookups
	require.EqualValues(t, 4, lookups[stats.LookupFailed])
	require.EqualValues(t, 8, lookups[stats.LookupEmpty])
	require.EqualValues(t, 2*25-12, lookups[stats.LookupOK])
}

func TestANewRecordWithoutAnAddressDelaysNoOtherServer(t *testing.T) {
	f := newFixture().withPods("a", "b")
	entry := spec("srv+" + service)
	f.find(t, entry)
	f.withPods("a", "b", "c")
	delete(f.addrs, "c.memcached.ns.svc.cluster.local")
	f.addrs["a.memcached.ns.svc.cluster.local"] = []string{"10.9.0.1"}
	require.Equal(t, []route.Server{server("a", "10.9.0.1:11211"), server("b", "10.0.0.2:11211")}, f.find(t, entry))
	f.addrs["c.memcached.ns.svc.cluster.local"] = []string{"10.9.0.3"}
	require.Len(t, f.find(t, entry), 3)
}

func TestANameThatWasNeverFoundIsAnErrorThatNamesIt(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(f *fixture)
		message string
	}{
		"the resolver is down": {
			func(f *fixture) { f.fails[""] = errDown },
			"dns+cache:1: lookup : server misbehaving\nsrv+" + service + ": lookup : server misbehaving",
		},
		"nothing exists": {
			func(f *fixture) { clear(f.srv); clear(f.addrs) },
			"dns+cache:1: no records: lookup : no such host\nsrv+" + service + ": no records: lookup : no such host",
		},
		"an answer is empty": {
			func(f *fixture) { f.srv[service] = []*net.SRV{} },
			"srv+" + service + ": no records",
		},
		"a record has no address": {
			func(f *fixture) { delete(f.addrs, "b.memcached.ns.svc.cluster.local") },
			"srv+" + service + ": lookup : no such host",
		},
		"no record has an address": {
			func(f *fixture) { f.addrs = map[string][]string{"cache": {"10.1.0.1"}} },
			"srv+" + service + ": lookup : no such host\nlookup : no such host",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture().withPods("a", "b")
			f.addrs["cache"] = []string{"10.1.0.1"}
			c.prepare(f)
			_, err := f.finder.Find(t.Context(),
				discover.Lookups{Specs: []discover.Spec{spec("dns+cache:1"), spec("srv+" + service)}})
			require.EqualError(t, err, c.message)
			require.Empty(t, f.log.String())
		})
	}
}

func TestAnEntryThatWasRemovedIsForgotten(t *testing.T) {
	f := newFixture().withPods("a")
	entry := spec("srv+" + service)
	f.find(t, entry)
	weighted := entry
	weighted.Server.Weight = 7
	f.finder.Forget(discover.Lookups{Specs: []discover.Spec{weighted}})
	f.fails[""] = errDown
	require.Len(t, f.find(t, entry), 1, "an entry with another weight has the same question")

	f.finder.Forget(discover.Lookups{})
	_, err := f.finder.Find(t.Context(), discover.Lookups{Specs: []discover.Spec{entry}})
	require.Error(t, err)
}

func TestALookupThatHangsEndsAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture().withPods("a")
		entry := spec("srv+" + service)
		list := f.find(t, entry)
		f.hangs = true
		begin := time.Now()
		require.Equal(t, list, f.find(t, entry))
		require.Equal(t, 5*time.Second, time.Since(begin))
	})
}

func TestACancelledLookupChangesNothing(t *testing.T) {
	f := newFixture().withPods("a")
	entry := spec("srv+" + service)
	f.find(t, entry)
	f.hangs = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.finder.Find(ctx, discover.Lookups{Specs: []discover.Spec{entry}})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, f.log.String())
	require.EqualValues(t, [stats.NumLookupResults]uint64{stats.LookupOK: 1}, f.counts.Snapshot().Lookups)
}

func TestStaticEntriesAskNothing(t *testing.T) {
	f := newFixture()
	lookups := discover.Lookups{Specs: []discover.Spec{{Server: server("a", "a:1")}}}
	require.False(t, lookups.Any())
	servers, err := f.finder.Find(t.Context(), lookups)
	require.NoError(t, err)
	require.Equal(t, []route.Server{server("a", "a:1")}, servers)
	require.Zero(t, f.counts.Snapshot().Lookups)
}

func TestTheResolverThatIsAskedForIsUsed(t *testing.T) {
	f := newFixture().withPods("a")
	for _, addr := range []string{"", "10.0.0.10:53"} {
		_, err := f.finder.Find(t.Context(),
			discover.Lookups{Specs: []discover.Spec{spec("srv+" + service)}, Resolver: addr})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"", "10.0.0.10:53"}, f.asked)
}

func TestJitterStaysWithinATenth(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := discover.Jitter(10 * time.Second)
		require.GreaterOrEqual(t, d, 9*time.Second)
		require.LessOrEqual(t, d, 11*time.Second)
		seen[d] = true
	}
	require.Greater(t, len(seen), 100)
}
