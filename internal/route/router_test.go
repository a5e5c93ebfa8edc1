package route

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// cluster returns n servers of equal weight.
func cluster(n int) []Server {
	servers := make([]Server, n)
	for i := range servers {
		addr := fmt.Sprintf("10.0.0.%d:11211", i+1)
		servers[i] = Server{Name: addr, Addr: addr}
	}
	return servers
}

// keys returns n distinct keys.
func keys(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "user:%d:profile", i*7919)
	}
	return keys
}

func router(t testing.TB, servers []Server, o Options) *Router {
	t.Helper()
	r, err := New(servers, o)
	require.NoError(t, err)
	return r
}

var rings = []RingKind{RingRendezvous, RingTwemproxy, RingLibmemcached, RingLibmemcachedWeighted}

// hashOf returns a hash that spreads keys well on the ring.
func hashOf(ring RingKind) HashKind {
	if ring == RingRendezvous {
		return HashDefault
	}
	return HashMD5
}

func TestReplicasAreDistinctAndStartWithThePrimary(t *testing.T) {
	for _, ring := range rings {
		for _, n := range []int{1, 2, 3, 5, 16} {
			for replicas := range n + 1 {
				r := router(t, cluster(n), Options{Replicas: replicas, Ring: ring})
				want := replicas
				if replicas == 0 {
					want = n
				}
				require.Equal(t, want, r.N())
				for _, key := range keys(200) {
					got := r.Replicas(key, []int{-1})
					require.Len(t, got, want+1)
					require.Equal(t, -1, got[0], "the previous contents of dst must stay")
					require.Equal(t, r.Primary(key), got[1])
					sorted := slices.Clone(got)
					slices.Sort(sorted)
					require.Len(t, slices.Compact(sorted), want+1, "%v", got)
				}
			}
		}
	}
}

// The ring's table is built backwards in one pass; this is the definition it must agree with.
func TestReplicasAreTheNextDistinctServersOfTheRing(t *testing.T) {
	servers := cluster(7)
	for i := range servers {
		servers[i].Weight = 1 + 3*i
	}
	points := RingTwemproxy.points(servers, HashFNV1a64)
	r := router(t, servers, Options{Replicas: 4, Ring: RingTwemproxy})
	for _, key := range keys(2000) {
		hash := HashFNV1a64.sum(key)
		at := slices.IndexFunc(points, func(p point) bool { return p.value >= hash })
		var want []int
		for i := max(at, 0); len(want) < 4; i++ {
			if s := points[i%len(points)].server; !slices.Contains(want, s) {
				want = append(want, s)
			}
		}
		require.Equal(t, want, r.Replicas(key, nil), "key %s", key)
	}
}

func TestAHashOnAPointOrPastTheLastFindsItsServer(t *testing.T) {
	points := []point{{5, 0}, {5, 1}, {1 << 31, 2}, {1<<32 - 2, 1}}
	r := newRing(points, 3, 1)
	for hash, want := range map[uint32]uint16{
		0: 0, 4: 0, 5: 0, 6: 2, 1 << 31: 2, 1<<31 + 1: 1, 1<<32 - 2: 1,
		1<<32 - 1: 0,
	} {
		require.Equal(t, []uint16{want}, r.holders(hash), "hash %d", hash)
	}
	one := newRing(points[:1], 1, 1)
	require.Equal(t, []uint16{0}, one.holders(1<<32-1))
}

func TestAServerTooLightForAPointStillHoldsReplicas(t *testing.T) {
	servers := cluster(3)
	servers[0].Weight, servers[1].Weight, servers[2].Weight = 1000, 1, 500
	r := router(t, servers, Options{Ring: RingTwemproxy})
	for _, key := range keys(100) {
		got := r.Replicas(key, nil)
		require.Len(t, got, 3)
		require.Equal(t, 1, got[2])
	}
}

func TestAKeyMovesOnlyToTheNewServer(t *testing.T) {
	const total = 20000
	for _, ring := range rings {
		before := router(t, cluster(5), Options{Replicas: 1, Ring: ring, Hash: hashOf(ring)})
		after := router(t, cluster(6), Options{Replicas: 1, Ring: ring, Hash: hashOf(ring)})
		moved := 0
		for _, key := range keys(total) {
			if from, to := before.Primary(key), after.Primary(key); from != to {
				require.Equal(t, 5, to, "ring %s: key %s moved between old servers", ring, key)
				moved++
			}
		}
		// The new server's share is a sixth of the ring, with the variation that a hundred points leave to chance.
		require.InDelta(t, total/6.0, moved, total/6.0*0.4, "ring %s", ring)
	}
}

func TestAMovedAddressMovesNoKey(t *testing.T) {
	before, moved := cluster(4), cluster(4)
	moved[2].Addr = "192.168.9.9:22122"
	a, b := router(t, before, Options{}), router(t, moved, Options{})
	for _, key := range keys(500) {
		require.Equal(t, a.Replicas(key, nil), b.Replicas(key, nil))
	}
}

func TestWeightsGiveSharesOfTheKeys(t *testing.T) {
	servers := cluster(3)
	servers[0].Weight, servers[1].Weight, servers[2].Weight = 1, 2, 5
	r := router(t, servers, Options{Replicas: 1, Ring: RingTwemproxy, Hash: HashMD5})
	const total = 40000
	var count [3]int
	for _, key := range keys(total) {
		count[r.Primary(key)]++
	}
	for i, s := range servers {
		share := total * float64(s.Weight) / 8
		require.InDelta(t, share, count[i], share*0.4, "server %d: %v", i, count)
	}
}

func TestTheHashTagAloneIsHashed(t *testing.T) {
	r := router(t, cluster(9), Options{Replicas: 1, HashTag: "{}"})
	plain := router(t, cluster(9), Options{Replicas: 1})
	for _, tc := range []struct{ key, hashed string }{
		{"a{42}b", "42"},
		{"{42}", "42"},
		{"a{}b", "a{}b"},
		{"a{b", "a{b"},
		{"a}b", "a}b"},
		{"a}b{c}d", "c"},
		{"{{x}}", "{x"},
		{"{a}{b}", "a"},
		{"plain", "plain"},
	} {
		require.Equal(t, tc.hashed, string(r.Pools()[0].Hashed([]byte(tc.key))), tc.key)
		require.Equal(t, plain.Primary([]byte(tc.hashed)), r.Primary([]byte(tc.key)), tc.key)
	}
}

func TestTheReadPolicyIsResolved(t *testing.T) {
	for _, tc := range []struct {
		servers, replicas int
		given, want       ReadPolicy
	}{
		{3, 0, ReadDefault, ReadRoundRobin},
		{3, 3, ReadDefault, ReadRoundRobin},
		{3, 2, ReadDefault, ReadPrimary},
		{3, 1, ReadDefault, ReadPrimary},
		{1, 1, ReadDefault, ReadRoundRobin},
		{3, 0, ReadPrimary, ReadPrimary},
		{3, 1, ReadLeastBusy, ReadLeastBusy},
	} {
		r := router(t, cluster(tc.servers), Options{Replicas: tc.replicas, Read: tc.given})
		require.Equal(t, tc.want, r.Pools()[0].Read(), "%+v", tc)
	}
}

func TestWrongOptionsAreRefusedWithTheAcceptedValues(t *testing.T) {
	named := func(names ...string) []Server {
		servers := make([]Server, len(names))
		for i, name := range names {
			servers[i] = Server{Name: name, Addr: "127.0.0.1:11211"}
		}
		return servers
	}
	ofWeight := func(w int) []Server { return []Server{{Name: "a"}, {Name: "b", Weight: w}} }
	for _, tc := range []struct {
		name    string
		servers []Server
		options Options
		says    []string
	}{
		{"no servers", nil, Options{}, []string{"servers: none", "at least one"}},
		{"too many servers", cluster(501), Options{}, []string{"501", "1 to 500"}},
		{"empty name", named("a", ""), Options{}, []string{"server 2", "127.0.0.1:11211", "empty name"}},
		{"same name", named("a", "b", "a"), Options{}, []string{"servers 1 and 3", `"a"`, "distinct"}},
		{"same place", named("a", "a:11211"), Options{Ring: RingTwemproxy}, []string{`"a"`, `"a:11211"`, "distinct"}},
		{"negative weight", ofWeight(-1), Options{}, []string{`"b"`, "weight -1", "1 to 1000000"}},
		{"huge weight", ofWeight(1_000_001), Options{}, []string{`"b"`, "weight 1000001", "1 to 1000000"}},
		{
			"weight without weights", ofWeight(2),
			Options{Ring: RingLibmemcached},
			[]string{`"b"`, "weight 2", "libmemcached-weighted"},
		},
		{"negative replicas", named("a", "b"), Options{Replicas: -1}, []string{"replicas", "-1", "all, or 1 to 2"}},
		{
			"too many replicas", named("a", "b"),
			Options{Replicas: 3},
			[]string{"3", "more than there are servers (2)", "all, or 1 to 2"},
		},
		{"hash tag of one", named("a"), Options{HashTag: "{"}, []string{`"{"`, "two"}},
		{"unknown ring", named("a"), Options{Ring: 77}, []string{"ring 77", "twemproxy, libmemcached"}},
		{
			"hash without a ring", named("a"),
			Options{Hash: HashMD5},
			[]string{`hash: "md5"`, "rings twemproxy, libmemcached", "default"},
		},
		{"unknown hash", named("a"), Options{Hash: 77}, []string{"hash 77", "fnv1a_64"}},
		{"unknown read policy", named("a"), Options{Read: 77}, []string{"read policy 77", "round-robin"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(tc.servers, tc.options)
			for _, text := range tc.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestTheCallersServersAreNotKept(t *testing.T) {
	servers := cluster(2)
	r := router(t, servers, Options{})
	servers[0].Name = "changed"
	require.Equal(t, "10.0.0.1:11211", r.Servers()[0].Name)
}

func TestLookupAllocatesNothing(t *testing.T) {
	key := []byte("user:1234:profile")
	dst := make([]int, 0, 5)
	for hash := range HashKind(len(HashNames.All())) {
		ring := RingTwemproxy
		if hash == HashDefault {
			ring = RingRendezvous
		}
		r := router(t, cluster(5), Options{Ring: ring, Hash: hash, HashTag: "{}"})
		allocs := testing.AllocsPerRun(100, func() {
			r.Primary(key)
			dst = r.Replicas(key, dst[:0])
		})
		require.Zero(t, allocs, "hash %s", hash)
	}
}

func BenchmarkPrimary(b *testing.B) {
	for _, ring := range []RingKind{RingRendezvous, RingTwemproxy} {
		for _, n := range []int{1, 3, 50} {
			b.Run(fmt.Sprintf("ring=%s/servers=%d", ring, n), func(b *testing.B) {
				r := router(b, cluster(n), Options{Replicas: 1, Ring: ring})
				keys := keys(1024)
				for i := 0; b.Loop(); i++ {
					r.Primary(keys[i%len(keys)])
				}
			})
		}
	}
}

func BenchmarkReplicas(b *testing.B) {
	for _, n := range []int{1, 3, 100} {
		b.Run(fmt.Sprintf("servers=%d/replicas=all", n), func(b *testing.B) {
			r := router(b, cluster(n), Options{})
			keys := keys(1024)
			dst := make([]int, 0, n)
			for i := 0; b.Loop(); i++ {
				dst = r.Replicas(keys[i%len(keys)], dst[:0])
			}
		})
	}
}

// Covers, which is about all keys, must agree with some thousands of them.
func TestCoversIsFalseOnceAllHoldersOfSomeKeyAreAway(t *testing.T) {
	for _, ring := range rings {
		for _, replicas := range []int{1, 2, 4} {
			r := router(t, cluster(4), Options{Replicas: replicas, Ring: ring, Hash: hashOf(ring)})
			for away := range 1 << 4 {
				is := func(server int) bool { return away>>server&1 == 0 }
				want := true
				for _, key := range keys(2000) {
					want = want && slices.ContainsFunc(r.Replicas(key, nil), is)
				}
				require.Equal(t, want, r.Covers(is), "ring %s, %d replicas, servers away %04b", ring, replicas, away)
			}
		}
	}
}

func TestGainsAgreesWithTheKeysThatAServerGains(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	named := func(names ...string) (servers []Server) {
		for _, n := range names {
			servers = append(servers, Server{Name: n})
		}
		return servers
	}
	heavier := named("a", "b", "c")
	heavier[0].Weight = 5
	for _, ring := range []RingKind{RingRendezvous, RingTwemproxy} {
		of := func(servers []Server, replicas int) *Router {
			return router(t, servers, Options{Replicas: replicas, Ring: ring})
		}
		routers := []*Router{
			of(named("a"), 1), of(named("a", "b"), 1), of(named("a", "b", "c"), 1), of(named("c", "b", "a"), 1),
			of(named("a", "b", "c"), 2),
			of(named("a", "b", "c", "d"), 2), of(named("a", "b", "c"), 0), of(heavier, 1),
		}
		for i, to := range routers {
			for j, from := range routers {
				for _, name := range []string{"a", "b", "c", "d"} {
					shown := slices.ContainsFunc(keys(10_000),
						func(key []byte) bool { return to.Holds(name, key) && !from.Holds(name, key) })
					if gains := to.Gains(name, from); ring == RingTwemproxy || shown {
						require.Equal(t, shown, gains, "%s: %s, from %d to %d", ring, name, j, i)
					}
				}
			}
		}
		require.False(t, of(named("a", "b", "c"), 1).Gains("a", of(named("a", "b"), 1)),
			"a server gains nothing when another joins")
	}
	twemproxy := router(t, named("a", "b"), Options{Replicas: 1, Ring: RingTwemproxy})
	for _, o := range []Options{{}, {Ring: RingTwemproxy, Hash: HashMD5}, {Ring: RingTwemproxy, HashTag: "{}"}} {
		o.Replicas = 1
		require.True(t, router(t, named("a", "b"), o).Gains("a", twemproxy), "%+v", o)
	}
}

// What a Group says of keys as its servers have them, the tests ask a Router about keys as clients have them.

func (r *Router) Holders(key []byte, states States, dst []Holder) ([]Holder, Decider) {
	in, stored := r.At(key)
	return in.Holders(stored, states, dst)
}

func (r *Router) With(these, without Roles, key []byte, dst []int) []int {
	in, stored := r.At(key)
	return in.With(these, without, stored, dst)
}

func (r *Router) Readers(key []byte, dst []int) []int { return r.With(Read, Tentative, key, dst) }
