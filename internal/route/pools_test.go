package route

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// poolNames are the pools of the tables in tests.
var poolNames = []string{"zero", "one", "two", "three"}

// naive finds the pool of a key, and its pool for reads, by trying all prefixes.
func naive(r Routes, key string) (pool, reads string) {
	pool, reads = r.Default, cmp.Or(r.Reads, r.Default)
	longest := 0
	for _, p := range r.Prefixes {
		if strings.HasPrefix(key, p.Prefix) && len(p.Prefix) > longest {
			pool, reads, longest = p.Pool, cmp.Or(p.Reads, p.Pool), len(p.Prefix)
		}
	}
	return pool, reads
}

func TestEveryKeyIsInThePoolOfTheLongestPrefixThatItBeginsWith(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = "ab:\xff"[random.IntN(4)]
		}
		return string(b)
	}
	for range 300 {
		r := Routes{Default: "one"}
		given := map[string]bool{"": true}
		for range random.IntN(40) {
			if p := word(5); !given[p] {
				given[p] = true
				r.Prefixes = append(r.Prefixes,
					Prefix{
						Prefix: p, Pool: poolNames[random.IntN(len(poolNames))],
						Reads: append(poolNames, "")[random.IntN(len(poolNames)+1)],
					})
			}
		}
		table, err := NewTable(poolNames, r)
		require.NoError(t, err)
		for range 200 {
			key := word(8)
			pool, reads := naive(r, key)
			require.Equal(t, pool, poolNames[table.Pool([]byte(key))], "key %q, %+v", key, r)
			require.Equal(t, reads, poolNames[table.forReads().Pool([]byte(key))], "key %q, %+v", key, r)
			if prefix := table.Prefix([]byte(key)); prefix != "" {
				require.True(t, given[prefix] && strings.HasPrefix(key, prefix))
			}
		}
	}
}

func FuzzEveryKeyIsInThePoolOfItsLongestPrefix(f *testing.F) {
	f.Add("a b ab aba", "abab")
	f.Add("\xff \xff\xff", "\xff\xff\xff")
	f.Fuzz(func(t *testing.T, prefixes, key string) {
		r := Routes{Default: "zero"}
		for i, p := range strings.Fields(prefixes) {
			r.Prefixes = append(r.Prefixes, Prefix{Prefix: p, Pool: poolNames[i%len(poolNames)]})
		}
		table, err := NewTable(poolNames, r)
		if err != nil {
			require.ErrorContains(t, err, "twice")
			return
		}
		pool, _ := naive(r, key)
		require.Equal(t, pool, poolNames[table.Pool([]byte(key))])
	})
}

// The other mistakes in routes are tested where a file has them: in package config.
func TestRoutesThatNoFileCanHaveAreRefused(t *testing.T) {
	_, err := NewTable(poolNames, Routes{Default: "one", Prefixes: []Prefix{{Pool: "one"}}})
	require.ErrorContains(t, err, "routes[0]: empty prefix")
	_, err = NewTable([]string{"a", "a"}, Routes{Default: "a"})
	require.ErrorContains(t, err, `pool 2 is named "a"`)
}

// pooled returns a pool of n servers.
func pooled(name string, n int, o Options) Pool {
	p := Pool{Name: name, Options: o}
	for i := range n {
		p.Servers = append(p.Servers, Server{Name: fmt.Sprintf("%s%d", name, i), Addr: fmt.Sprintf("%s:%d", name, i)})
	}
	return p
}

func TestARouterOfSeveralPoolsAnswersAsThePoolsOfTheKeysDo(t *testing.T) {
	pools := []Pool{
		pooled("a", 3, Options{Replicas: 2}), pooled("b", 1, Options{}),
		pooled("c", 4, Options{Ring: RingTwemproxy, Replicas: 1, Read: ReadLeastBusy}), pooled("d", 3, Options{}),
	}
	r, err := NewPools(pools, Routes{Prefixes: []Prefix{
		{Prefix: "b", Pool: "b"},
		{Prefix: "c", Pool: "c"},
		{Prefix: "cd", Pool: "d"},
	}, Default: "a"})
	require.NoError(t, err)
	require.Len(t, r.Servers(), 11)
	require.Equal(t, 3, r.N(), "the largest, that of pool d")
	require.False(t, r.Common().Everywhere())
	require.True(t, r.Measures())
	bases := map[string]int{"a": 0, "b": 3, "c": 4, "d": 8}
	for i := range 200 {
		prefix := []string{"x", "b", "c", "cd"}[i%4]
		key := fmt.Appendf(nil, "%s%d", prefix, i)
		pool := pools[i%4]
		alone, err := New(pool.Servers, pool.Options)
		require.NoError(t, err)
		var want []int
		for _, s := range alone.Replicas(key, nil) {
			want = append(want, bases[pool.Name]+s)
		}
		require.Equal(t, want, r.Replicas(key, nil))
		require.Equal(t, want, r.In(key).Replicas(key, nil))
		require.Equal(t, []int{77, want[0]}, append([]int{77}, r.Readers(key, nil)[0]))
		require.Equal(t, want[0], r.Primary(key))
		require.True(t, r.Holds(r.Servers()[want[0]].Name, key))
		require.Equal(t, alone.Common().Everywhere(), r.In(key).Everywhere())
		require.Same(t, r.In(key), r.Of(want[0]))
		require.Empty(t, r.With(Drop, 0, key, nil))
	}
	require.True(t, r.Covers(func(s int) bool { return s != 0 && s != 8 }))
	require.False(t, r.Covers(func(s int) bool { return s != 3 }), "b has no other")
	require.Same(t, r.Pools()[0], r.Default())
}

func TestAServerOfAPoolGainsKeysWhenTheRoutesChange(t *testing.T) {
	pools := []Pool{pooled("a", 2, Options{}), pooled("b", 2, Options{Replicas: 1})}
	before, err := NewPools(pools, Routes{Default: "a"})
	require.NoError(t, err)
	same, err := NewPools([]Pool{pools[1], pools[0]}, Routes{Default: "a"})
	require.NoError(t, err)
	after, err := NewPools(pools, Routes{Default: "a", Prefixes: []Prefix{{Prefix: "x", Pool: "b"}}})
	require.NoError(t, err)
	require.False(t, same.Gains("b0", before))
	require.True(t, after.Gains("b0", before))
	for _, to := range []Routes{
		{Default: "b", Prefixes: []Prefix{{Prefix: "x", Pool: "b"}}},
		{Default: "a", Prefixes: []Prefix{{Prefix: "y", Pool: "b"}}},
		{Default: "a", Prefixes: []Prefix{{Prefix: "x", Pool: "a"}}},
		{Default: "a", Prefixes: []Prefix{{Prefix: "x", Pool: "b", Strip: true}}},
	} {
		others, err := NewPools(pools, to)
		require.NoError(t, err)
		require.True(t, others.Gains("b0", after), "%+v", to)
	}
	pools[0].Servers, pools[1].Servers, pools[0].Options = pools[1].Servers, pools[0].Servers, pools[1].Options
	swapped, err := NewPools(pools, Routes{Default: "a"})
	require.NoError(t, err)
	require.True(t, swapped.Gains("b0", before), "it is in another pool")
}

func TestReadsGoToThePoolForReadsAndDoNotChangeItsShare(t *testing.T) {
	pools := []Pool{pooled("main", 2, Options{}), pooled("copy", 3, Options{Replicas: 2}), pooled("new", 1, Options{})}
	routes := Routes{Prefixes: []Prefix{
		{Prefix: "a:", Pool: "main", Reads: "copy"},
		{Prefix: "b:", Pool: "copy", Reads: "copy"},
	}, Default: "main"}
	r, err := NewPools(pools, routes)
	require.NoError(t, err)
	reads := r.ForReads()
	for key, want := range map[string][2]string{
		"a:1": {"main", "copy"}, "b:1": {"copy", "copy"},
		"x": {"main", "main"},
	} {
		require.Equal(t, want, [2]string{
			pools[r.In([]byte(key)).Number()].Name,
			pools[reads.In([]byte(key)).Number()].Name,
		}, key)
	}
	require.Same(t, r.In([]byte("x")), reads.In([]byte("x")), "the pointer identifies the pool")
	require.Len(t, reads.Replicas([]byte("a:1"), nil), 2)
	require.GreaterOrEqual(t, reads.Primary([]byte("a:1")), 2)

	// Only the pools for writes decide which keys a pool has, and so which of its servers gain keys.
	routes.Prefixes[0].Reads = ""
	plain, err := NewPools(pools, routes)
	require.NoError(t, err)
	require.Same(t, plain, plain.ForReads())
	for pool := range pools {
		require.Equal(t, plain.Share(pool), r.Share(pool))
	}
	require.False(t, r.Gains("copy0", plain))

	// A migration moves the reads of a pool's keys as well.
	routes.Prefixes[0], routes.Default = Prefix{Prefix: "a:", Pool: "main", Reads: "main"}, "copy"
	routes.Prefixes[1] = Prefix{Prefix: "b:", Pool: "new", Reads: "copy"}
	r, err = NewPools(pools, routes)
	require.NoError(t, err)
	moved := r.Migrate([]Move{{From: 0, To: 2, Phase: MigrationDone}})
	for after, want := range map[*Router]int{r: 0, moved: 2} {
		require.Equal(t, want, after.In([]byte("a:1")).Number())
		require.Equal(t, want, after.ForReads().In([]byte("a:1")).Number())
	}
}

func TestFindingAPoolAllocatesNothing(t *testing.T) {
	table, keys := thousandPrefixes()
	reads := table.forReads()
	require.NotSame(t, table, reads)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, k := range keys {
			table.Pool(k)
			reads.Pool(k)
		}
	}))
}

func thousandPrefixes() (*Table, [][]byte) {
	r := Routes{Default: "zero"}
	var keys [][]byte
	for i := range 1000 {
		prefix := fmt.Sprintf("service-%d:", i)
		if i%3 == 0 {
			prefix = fmt.Sprintf("service-%d:sub:", i/2)
		}
		if !slices.ContainsFunc(r.Prefixes, func(p Prefix) bool { return p.Prefix == prefix }) {
			r.Prefixes = append(r.Prefixes, Prefix{Prefix: prefix, Pool: poolNames[i%4], Reads: poolNames[i%3]})
		}
		keys = append(keys, fmt.Appendf(nil, "service-%d:user:%d", i*7%1100, i))
	}
	table, err := NewTable(poolNames, r)
	if err != nil {
		panic(err)
	}
	return table, keys
}

// The promise is less than 100 ns.
func BenchmarkFindThePoolAmong1000Prefixes(b *testing.B) {
	table, keys := thousandPrefixes()
	table = table.forReads()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		table.Pool(keys[i%len(keys)])
	}
}

func TestAShareHasTheKeysOfItsPoolAndNoOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		r := Routes{Default: poolNames[random.IntN(4)]}
		for _, p := range []string{"a", "ab", "aba", "abb", "b", "ba", "bab"} {
			if random.IntN(2) == 0 {
				r.Prefixes = append(r.Prefixes, Prefix{Prefix: p, Pool: poolNames[random.IntN(4)]})
			}
		}
		table, err := NewTable(poolNames, r)
		require.NoError(t, err)
		alone, err := New([]Server{{Name: "s"}}, Options{})
		require.NoError(t, err)
		for pool := range poolNames {
			share, err := table.Share(pool).Of(alone)
			require.NoError(t, err)
			for _, key := range []string{"c", "a", "ac", "ab", "aba1", "abb", "abc", "b", "bb", "ba", "bab", "babb"} {
				require.Equal(t, table.Pool([]byte(key)) == pool, share.Holds("s", []byte(key)), "%+v of %+v: %q",
					table.Share(pool), r, key)
			}
		}
	}
	one, err := NewTable(poolNames,
		Routes{Default: "one", Prefixes: []Prefix{{Prefix: "a", Pool: "two"}, {Prefix: "ab", Pool: "two"}}})
	require.NoError(t, err)
	other, err := NewTable(poolNames, Routes{Default: "three", Prefixes: []Prefix{{Prefix: "a", Pool: "two"}}})
	require.NoError(t, err)
	require.True(t, one.Share(2).Equal(other.Share(2)), "the pools of the other keys do not matter")
	require.False(t, one.Share(1).Equal(other.Share(1)))
}

func TestAPoolThatStripsAPrefixGetsTheRestOfTheKey(t *testing.T) {
	names := []string{"rest", "bare", "nested"}
	var routers []*Router
	for range names {
		r, err := New([]Server{{Name: "s"}}, Options{})
		require.NoError(t, err)
		routers = append(routers, r)
	}
	r, err := Compose(names, routers,
		Routes{Default: "rest", Prefixes: []Prefix{
			{Prefix: "a:", Pool: "bare", Strip: true},
			{Prefix: "a:b:", Pool: "nested"},
		}})
	require.NoError(t, err)
	for key, want := range map[string][2]string{
		"x": {"rest", "x"}, "a:x": {"bare", "x"}, "a:": {"bare", ""},
		"a:b:x": {"nested", "a:b:x"}, "a": {"rest", "a"},
	} {
		in, stored := r.At([]byte(key))
		require.Equal(t, want, [2]string{names[in.Number()], string(stored)}, key)
	}
	share := r.Share(1)
	require.Equal(t, &Share{Default: true, Prefixes: []string{"b:"}, Stripped: "a:"}, share)
	alone, err := share.Of(routers[1])
	require.NoError(t, err)
	require.True(t, alone.Holds("s", []byte("x")), "the name under which the servers store a:x")
	require.False(t, alone.Holds("s", []byte("b:x")), "a:b:x is not in the pool")
	whole := &Share{Default: true, Prefixes: []string{"b:"}}
	require.False(t, share.Equal(whole))
	require.False(t, share.SameNames(whole))
	require.True(t, share.SameNames(&Share{Stripped: "a:"}))
}
