package route

import (
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// keyKinds are the ways that applications name keys, by the number of the key.
var keyKinds = map[string]func(i int) []byte{
	"numbered":   func(i int) []byte { return fmt.Appendf(nil, "k%d", i) },
	"prefixed":   func(i int) []byte { return fmt.Appendf(nil, "user:%d", i) },
	"sequential": func(i int) []byte { return fmt.Appendf(nil, "%012d", i) },
	"hex":        func(i int) []byte { return fmt.Appendf(nil, "%x", md5.Sum(fmt.Append(nil, i))) },
	"random": func(i int) []byte {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		return fmt.Appendf(nil, "%016x%016x", rng.Uint64(), rng.Uint64())[:8+rng.IntN(24)]
	},
}

// shares counts the keys of a kind by their primary.
func shares(r *Router, kind func(i int) []byte, keys int) []int {
	count := make([]int, len(r.servers))
	for i := range keys {
		count[r.Primary(kind(i))]++
	}
	return count
}

// Five thousand keys per server leave the fullest of fifty about 3 % above the mean by chance alone.
func TestTheFullestServerHoldsAtMostATwentiethMoreThanTheMean(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	const perServer = 5000
	for name, kind := range keyKinds {
		keys := make([][]byte, 50*perServer)
		for i := range keys {
			keys[i] = kind(i)
		}
		for n := 2; n <= 50; n++ {
			count := shares(router(t, cluster(n), Options{Replicas: 1}), func(i int) []byte { return keys[i] },
				n*perServer)
			require.LessOrEqual(t, slices.Max(count), perServer*105/100, "%s keys on %d servers: %v", name, n, count)
		}
	}
}

// On twemproxy's ring with its default hash four servers get 60, 140, 300 and 500 of the same keys.
func TestAThousandNumberedKeysAreSpreadAsByChance(t *testing.T) {
	count := shares(router(t, cluster(4), Options{Replicas: 1}), keyKinds["numbered"], 1000)
	require.LessOrEqual(t, slices.Max(count), 305, "four standard deviations above the mean: %v", count)
}

func TestEveryReplicaOfAKeyIsSpreadEvenly(t *testing.T) {
	const perServer = 5000
	r := router(t, cluster(12), Options{Replicas: 3})
	var count [3][12]int
	for i := range 12 * perServer {
		for k, s := range r.Replicas(keyKinds["prefixed"](i), nil) {
			count[k][s]++
		}
	}
	for k := range count {
		require.LessOrEqual(t, slices.Max(count[k][:]), perServer*105/100, "replica %d: %v", k+1, count[k])
	}
}

func TestAServersShareIsItsWeight(t *testing.T) {
	const perWeight = 5000
	servers := cluster(5)
	weights := []int{1, 2, 5, 10, 0}
	total := 0
	for i, w := range weights {
		servers[i].Weight = w
		total += max(w, 1)
	}
	count := shares(router(t, servers, Options{Replicas: 1}), keyKinds["hex"], total*perWeight)
	for i, w := range weights {
		share := max(w, 1) * perWeight
		require.InDelta(t, share, count[i], 0.05*float64(share), "weight %d: %v", w, count)
	}
}

func TestEqualWeightsPlaceKeysAsNoWeightsDo(t *testing.T) {
	heavy := cluster(7)
	for i := range heavy {
		heavy[i].Weight = 3
	}
	a, b := router(t, cluster(7), Options{Replicas: 4}), router(t, heavy, Options{Replicas: 4})
	for _, key := range keys(500) {
		require.Equal(t, a.Replicas(key, nil), b.Replicas(key, nil))
	}
}

// A change moves only the share of the server that joins, leaves, or gets another weight.
func TestNoKeyMovesBetweenServersThatStayAsTheyAre(t *testing.T) {
	const total = 20000
	for _, tc := range []struct {
		name          string
		before, after []Server
		changed       string  // the server that gains or loses keys
		moved         float64 // share of the keys
	}{
		{"a fourth joins", cluster(3), cluster(4), "10.0.0.4:11211", 1. / 4},
		{"the fifth leaves", cluster(5), cluster(4), "10.0.0.5:11211", 1. / 5},
		{"the first leaves", cluster(5), cluster(5)[1:], "10.0.0.1:11211", 1. / 5},
		{"a weight is doubled", weighted(1, 1, 1), weighted(2, 1, 1), "10.0.0.1:11211", 2./4 - 1./3},
		{"a weight is halved", weighted(1, 4, 1), weighted(1, 2, 1), "10.0.0.2:11211", 4./6 - 2./4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := router(t, tc.before, Options{Replicas: 1}), router(t, tc.after, Options{Replicas: 1})
			moved := 0
			for _, key := range keys(total) {
				from, to := tc.before[before.Primary(key)].Name, tc.after[after.Primary(key)].Name
				if from != to {
					require.Contains(t, []string{from, to}, tc.changed, "key %s moved between other servers", key)
					moved++
				}
			}
			require.InDelta(t, tc.moved*total, moved, 0.02*total)
		})
	}
}

// weighted returns servers with these weights.
func weighted(weights ...int) []Server {
	servers := cluster(len(weights))
	for i, w := range weights {
		servers[i].Weight = w
	}
	return servers
}

func TestTheOrderOfTheServersMovesNoKey(t *testing.T) {
	servers := weighted(1, 2, 3, 1)
	reversed := slices.Clone(servers)
	slices.Reverse(reversed)
	a, b := router(t, servers, Options{Replicas: 2}), router(t, reversed, Options{Replicas: 2})
	for _, key := range keys(500) {
		var names [2][]string
		for i, r := range []*Router{a, b} {
			for _, s := range r.Replicas(key, nil) {
				names[i] = append(names[i], r.Servers()[s].Name)
			}
		}
		require.Equal(t, names[0], names[1])
	}
}

// The values were computed by another program from the definition. A release that places keys elsewhere would empty its
// users' caches.
func TestKeysStayWhereTheyAreFromReleaseToRelease(t *testing.T) {
	servers := []Server{{Name: "cache-a"}, {Name: "cache-b"}, {Name: "cache-c", Weight: 2}, {Name: "cache-d"}}
	r := router(t, servers, Options{Replicas: 2})
	for key, want := range map[string][]int{
		"": {2, 1}, "a": {1, 2}, "user:1": {1, 3}, "user:2": {2, 1}, "session/6c1f": {0, 1},
		"0123456789abcdef0123456789abcdef": {2, 1},
	} {
		require.Equal(t, want, r.Replicas([]byte(key), nil), "key %q", key)
	}
}
