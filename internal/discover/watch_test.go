package discover_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/discover"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
)

const watched = "k8s+" + service

// newWatching returns a fixture in a pod of a's cluster.
func newWatching(t *testing.T, a *mctest.APIServer) *fixture {
	f := newFixture()
	f.watchIn(t, discover.Cluster{URL: a.URL(), Dir: a.Dir})
	return f
}

// refreshed waits until Refresh returns want.
func (f *fixture) refreshed(t *testing.T, want ...route.Server) {
	t.Helper()
	late := time.After(mctest.Patience)
	for {
		got, err := f.finder.Refresh(t.Context(),
			discover.Lookups{Specs: []discover.Spec{spec(watched)}, RemoveAfter: 3})
		require.NoError(t, err)
		if slices.Equal(want, withoutEntries(got)) {
			return
		}
		select {
		case <-f.finder.Changed():
		case <-late:
			require.Equal(t, want, got)
		}
	}
}

// awaitBroken waits until the counts say that the watch is broken (1) or live (0).
func (f *fixture) awaitBroken(t *testing.T, broken int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		s := f.counts.Snapshot()
		return s.WatchesBroken == broken && s.WatchesLive == 1-broken
	}, mctest.Patience, mctest.Tick)
}

func TestTheEndpointsOfAServiceAreServersReadyOrNotAndChangesAreKnownAtOnce(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	a.PutPods("s1", "10.0.0.1", "10.0.0.2")
	f := newWatching(t, a)
	first, second := server("memcached-0", "10.0.0.1:11211"), server("memcached-1", "10.0.0.2:11211")
	require.Equal(t, []route.Server{first, second}, f.find(t, spec(watched)))

	a.PutPods("s1", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	third := server("memcached-2", "10.0.0.3:11211")
	f.refreshed(t, first, second, third)
	a.Put("s2", "IPv4", 11211, mctest.At("memcached-3", "10.0.0.4"))
	fourth := server("memcached-3", "10.0.0.4:11211")
	f.refreshed(t, first, second, third, fourth)
	moved := server("memcached-0", "10.0.0.9:11211")
	a.PutPods("s1", "10.0.0.9", "10.0.0.2", "10.0.0.3")
	f.refreshed(t, moved, second, third, fourth)

	a.PutPods("s1", "10.0.0.9", "10.0.0.2")
	a.Remove("s2")
	a.Put("s3", "IPv4", 11211, mctest.At("memcached-4", "10.0.0.5"))
	fifth := server("memcached-4", "10.0.0.5:11211")
	f.refreshed(t, moved, second, third, fourth, fifth)
	for range 9 {
		f.refreshed(t, moved, second, third, fourth, fifth) // a pod that restarts is missing for some time
	}
	require.Len(t, f.find(t, spec(watched)), 5)
	require.Equal(t, []route.Server{moved, second, fifth}, f.find(t, spec(watched)),
		"the third answer in a row lacks two")
	lists, streams := a.Requests()
	require.Equal(t, 1, lists)
	require.Equal(t, []string{"1"}, streams)
}

func TestAnEndpointHasTheNameThatItsRecordWouldHave(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	a.Put("v4", "IPv4", 11211,
		mctest.At("", "10.0.0.2"),
		mctest.At("memcached-0", "10.0.0.1"),
		mctest.At("memcached-1", "10.0.0.9", "terminating"))
	a.Put("v4, again", "IPv4", 11211,
		mctest.At("memcached-0", "10.0.0.1"), mctest.At("memcached-1", "10.0.0.10"))
	a.Put("v6", "IPv6", 5, mctest.At("memcached-0", "2001:db8::1"))
	a.Put("fqdn", "FQDN", 11211, mctest.At("a", "a.example.com"))
	f := newWatching(t, a)
	found := f.find(t, spec(watched))
	require.Equal(t, []route.Server{
		server("10-0-0-2", "10.0.0.2:11211"), server("memcached-0", "10.0.0.1:11211"),
		server("memcached-0:5", "[2001:db8::1]:5"), server("memcached-1", "10.0.0.10:11211"),
	}, found, "if two pods have the same name, the one that is not terminating")

	for host, addr := range map[string]string{
		"10-0-0-2": "10.0.0.2", "memcached-0": "10.0.0.1",
		"memcached-1": "10.0.0.10",
	} {
		f.srv[service] = append(f.srv[service], pod(host+".memcached.ns.svc.cluster.local"))
		f.addrs[host+".memcached.ns.svc.cluster.local"] = []string{addr}
	}
	six := pod("six.memcached.ns.svc.cluster.local")
	six.Target, six.Port = "memcached-0.memcached.ns.svc.cluster.local.", 5
	f.srv[service] = append(f.srv[service], six)
	byRecords := f.find(t, spec("srv+"+service))
	require.Len(t, byRecords, len(found))
	for i := range found {
		require.Equal(t, byRecords[i].Name, found[i].Name)
	}
}

func TestOfSeveralAddressesOfAnEndpointTheOneInUseStays(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	a.PutPods("s", "10.0.0.7")
	f := newWatching(t, a)
	used := server("memcached-0", "10.0.0.7:11211")
	require.Equal(t, []route.Server{used}, f.find(t, spec(watched)))
	a.Put("s", "IPv4", 11211, mctest.At("memcached-0", "10.0.0.3"), mctest.At("memcached-0", "10.0.0.7"))
	lists, _ := a.Requests()
	require.Equal(t, 1, lists)
	a.Put("s2", "IPv4", 11211, mctest.At("memcached-1", "10.0.0.2"))
	f.refreshed(t, used, server("memcached-1", "10.0.0.2:11211"))
}

func TestAStreamThatEndsIsResumedAndOneWhoseVersionHasExpiredBeginsWithAList(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	a.PutPods("s", "10.0.0.1")
	f := newWatching(t, a)
	f.find(t, spec(watched))
	a.PutPods("s", "10.0.0.2")
	f.refreshed(t, server("memcached-0", "10.0.0.2:11211"))
	a.BreakStreams()
	a.PutPods("s", "10.0.0.3")
	f.refreshed(t, server("memcached-0", "10.0.0.3:11211"))
	lists, streams := a.Requests()
	require.Equal(t, 1, lists)
	require.Equal(t, []string{"1", "2"}, streams)

	for i, address := range []string{"10.0.0.4", "10.0.0.5"} { // reported by the status of the answer, then by an event
		a.Expire()
		a.PutPods("s", address)
		f.refreshed(t, server("memcached-0", address+":11211"))
		lists, _ := a.Requests()
		require.Equal(t, 2+i, lists)
	}
	require.Zero(t, f.counts.Snapshot().WatchesBroken)
	require.Equal(t, "level=INFO msg=\"the service's endpoints are watched\" name="+watched+"\n", f.log.String())
}

func TestAServerHasTheZoneOfItsEndpointAndKeepsItWhileRecordsAreLookedUp(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	east, west := mctest.At("memcached-0", "10.0.0.1"), mctest.At("memcached-1", "10.0.0.2")
	east.Zone, west.Zone = "east", "west"
	a.Put("s", "IPv4", 11211, east, west, mctest.At("memcached-2", "10.0.0.3"))
	f := newWatching(t, a)
	zones := func(s discover.Spec) (zones []string) {
		for _, found := range f.find(t, s) {
			zones = append(zones, found.Zone)
		}
		return zones
	}
	require.Equal(t, []string{"east", "west", ""}, zones(spec(watched)))
	given := spec(watched)
	given.Server.Zone = "here"
	require.Equal(t, []string{"here", "here", "here"}, zones(given))

	f.withPods("memcached-0", "memcached-1", "memcached-2")
	a.Refuse(http.StatusForbidden)
	f.awaitBroken(t, 1)
	require.Equal(t, []string{"east", "west", ""}, zones(spec(watched)))
}

func TestTheRecordsAreLookedUpWhileTheEndpointsCannotBeWatched(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	a.PutPods("s", "10.9.0.1")
	a.Scale(2)
	a.Refuse(http.StatusForbidden)
	f := newWatching(t, a).withPods("memcached-0", "memcached-1")
	byDNS := []route.Server{server("memcached-0", "10.0.0.1:11211"), server("memcached-1", "10.0.0.2:11211")}
	require.Equal(t, byDNS, f.find(t, spec(watched)))
	f.awaitBroken(t, 1)
	require.Equal(t, byDNS, f.find(t, spec(watched)))

	a.Renew("second")
	a.Refuse(0)
	f.awaitBroken(t, 0)
	f.refreshed(t, server("memcached-0", "10.9.0.1:11211"), byDNS[1])

	a.Close()
	f.awaitBroken(t, 1)
	require.Equal(t, byDNS, f.find(t, spec(watched)))
	f.finder.Close()
	lines := strings.Split(strings.TrimSpace(f.log.String()), "\n")
	require.Len(t, lines, 3)
	require.Equal(t,
		`level=WARN msg="the service's endpoints cannot be watched; its DNS records are looked up until they can" name=`+watched+
			` error="the API server answers 403 Forbidden: not for you"`, lines[0])
	require.Contains(t, lines[1], "are watched")
	require.Contains(t, lines[2], "cannot be watched")
	s := f.counts.Snapshot()
	require.Zero(t, s.WatchesLive+s.WatchesBroken)
}

func TestOutsideOfAClusterTheRecordsAreLookedUp(t *testing.T) {
	for want, cluster := range map[string]discover.Cluster{
		"mcmw does not run in a Kubernetes pod":     {},
		"the pod has no token of a service account": {URL: "https://127.0.0.1:1", Dir: t.TempDir()},
	} {
		f := newFixture().withPods("memcached-0")
		f.watchIn(t, cluster)
		require.Equal(t, []route.Server{server("memcached-0", "10.0.0.1:11211")}, f.find(t, spec(watched)))
		f.finder.Close()
		require.Contains(t, f.log.String(), want)
	}
}

func TestAServerWhosePodTheStatefulSetIsToHaveIsNotRemovedHoweverLongItIsAway(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	a.Scale(3)
	a.PutPods("s", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	f := newWatching(t, a)
	first, second := server("memcached-0", "10.0.0.1:11211"), server("memcached-1", "10.0.0.2:11211")
	third := server("memcached-2", "10.0.0.3:11211")
	require.Equal(t, []route.Server{first, second, third}, f.find(t, spec(watched)))
	a.PutPods("s", "10.0.0.1")
	require.Eventually(t, func() bool {
		f.refreshed(t, first, second, third)
		return len(f.finder.Lacking(discover.Lookups{Specs: []discover.Spec{spec(watched)}})) == 2
	}, mctest.Patience, mctest.Tick)
	for range 9 {
		require.Len(t, f.find(t, spec(watched)), 3)
	}
	once := discover.Lookups{Specs: []discover.Spec{spec(watched)}, RemoveAfter: 1}
	refreshed, err := f.finder.Refresh(t.Context(), once)
	require.NoError(t, err)
	require.Len(t, refreshed, 3, "even if one answer without it were enough")
	a.Scale(2)
	require.Len(t, f.find(t, spec(watched)), 3)
	require.Equal(t, []route.Server{first, second}, f.find(t, spec(watched)), "somebody said that the third is removed")
	require.Empty(t, f.log.String()[len("level=INFO msg=\"the service's endpoints are watched\" name="+watched+"\n"):])
	a.Scale(0)
	require.Len(t, f.find(t, spec(watched)), 2)
	require.Equal(t, []route.Server{first}, f.find(t, spec(watched)), "as without a StatefulSet")
	require.Contains(t, f.log.String(), "the number of pods of a StatefulSet is unknown")
}

func TestAFirstStartKnowsTheServersThatTheStatefulSetIsToHave(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	a.Scale(3)
	a.Put("s", "IPv4", 11211, mctest.At("memcached-1", "10.0.0.2"))
	f := newWatching(t, a)
	l := discover.Lookups{Specs: []discover.Spec{spec(watched)}}
	away := func(name string) route.Server { return server(name, name+".memcached.ns.svc:11211") }
	there := server("memcached-1", "10.0.0.2:11211")
	require.Equal(t, []route.Server{there}, f.find(t, l.Specs...))
	inForce := there
	inForce.Entry = watched
	f.finder.Know(t.Context(), l, []route.Server{inForce})
	require.Equal(t, []route.Server{there}, f.find(t, l.Specs...), "others use a list that has only this one yet")
	f.finder.Know(t.Context(), l, nil)
	require.Equal(t, []route.Server{away("memcached-0"), there, away("memcached-2")}, f.find(t, l.Specs...))
	require.Len(t, f.finder.Lacking(l), 2)
	a.PutPods("s", "10.0.0.1", "10.0.0.2")
	f.refreshed(t, server("memcached-0", "10.0.0.1:11211"), there, away("memcached-2"))
}
