package route

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// serversOf returns n servers of a pool.
func serversOf(pool string, n int) (servers []Server) {
	for i := range n {
		servers = append(servers, Server{Name: fmt.Sprintf("%s-%d", pool, i)})
	}
	return servers
}

// A key that goes to another pool is written on one side and emptied on all other servers of both pools. A key that
// stays is not touched.
func TestAChangeOfRoutesMovesOnlyKeysThatGetAnotherPool(t *testing.T) {
	pools := []Pool{
		{Name: "a", Servers: serversOf("a", 3), Options: Options{Replicas: 2}},
		{Name: "b", Servers: serversOf("b", 2), Options: Options{Replicas: 1}},
		{Name: "c", Servers: serversOf("c", 2)},
		{Name: "bare", Servers: serversOf("bare", 1)},
	}
	stripped := Prefix{Prefix: "s:", Pool: "bare", Strip: true}
	before := Routes{Default: "a", Prefixes: []Prefix{
		{Prefix: "x", Pool: "b"},
		{Prefix: "xy", Pool: "a", Reads: "c"},
		{Prefix: "z", Pool: "c"},
		stripped,
	}}
	after := Routes{Default: "c", Reads: "a", Prefixes: []Prefix{
		{Prefix: "x", Pool: "b"},
		{Prefix: "xyz", Pool: "b"},
		{Prefix: "z", Pool: "a"},
		{Prefix: "za", Pool: "c"},
		stripped,
	}}
	old, err := NewPools(pools, before)
	require.NoError(t, err)
	current, err := NewPools(pools, after)
	require.NoError(t, err)
	var moved int
	for _, phase := range []Phase{DeleteNew, ReadNew, Late} {
		r, err := current.Reroute(before, phase)
		require.NoError(t, err)
		require.Equal(t, phase, r.Phase())
		require.Equal(t, current.Default().Number(), r.Default().Number())
		require.Equal(t, current.Stripped(), r.Stripped())
		for i := range pools {
			require.Equal(t, current.Share(i), r.Share(i), pools[i].Name)
			if was := old.Share(i); was.Equal(current.Share(i)) {
				require.Nil(t, r.Before(i), pools[i].Name)
			} else {
				require.Equal(t, was, r.Before(i), pools[i].Name)
			}
		}
		for _, prefix := range []string{"", "x", "xy", "xyz", "xyzz", "z", "za", "zb", "s:", "s:x"} {
			for n := range 20 {
				key := fmt.Appendf(nil, "%s%d", prefix, n)
				was, now := old.Replicas(key, nil), current.Replicas(key, nil)
				written, emptied, read := r.Replicas(key, nil), r.With(Drop, 0, key, nil), r.Readers(key, nil)
				in, _ := r.At(key)
				if old.In(key).Number() == current.In(key).Number() {
					require.Equal(t, now, written, "%s", key)
					require.Empty(t, emptied, "%s", key)
					require.False(t, in.Moving(), "%s", key)
					continue
				}
				moved++
				require.True(t, in.Moving(), "%s", key)
				require.Equal(t, phase, in.phase)
				wantWritten, wantRead, wantEmptied := was, was, now
				switch phase {
				case ReadNew:
					wantWritten, wantRead, wantEmptied = now, now, was
				case Late:
					wantRead = now
				}
				require.Equal(t, wantWritten, written, "%s", key)
				require.Equal(t, wantRead, read, "%s", key)
				require.Equal(t, wantEmptied, emptied, "%s", key)
				require.Equal(t, wantWritten[0], r.Primary(key), "%s", key)
				_, decider := r.Holders(key, nil, nil)
				require.Equal(t, phase == Late, decider == Refused)
				require.True(t, r.Gives(current.In(key).Number(), key))
				require.False(t, r.Gives(old.In(key).Number(), key))
			}
			key := []byte(prefix + "0")
			side := current
			if phase == DeleteNew {
				side = old
			}
			reads, own := r.ForReads(), side.ForReads()
			if side.In(key).Number() == own.In(key).Number() {
				require.Equal(t, r.Readers(key, nil), reads.Readers(key, nil), "%s", key)
			} else {
				require.Equal(t, own.Readers(key, nil), reads.Readers(key, nil), "%s", key)
			}
		}
	}
	require.NotZero(t, moved)
	_, err = current.Reroute(Routes{Default: "gone"}, Late)
	require.ErrorContains(t, err, `the default pool "gone" is unknown`)
	require.Equal(t, []Moved{{"a", "c", ""}, {"a", "b", "x"}, {"c", "a", "z"}},
		MovedBetween(old.Table(), current.Table()))
}

// A key that no known share has was in a pool whose share is unknown, if there is one; otherwise it is where the table
// has it.
func TestThePreviousRoutesFollowFromTheSharesOfThePools(t *testing.T) {
	names := []string{"a", "b", "c"}
	table := func(routes Routes) *Table {
		t, err := NewTable(names, routes)
		if err != nil {
			panic(err)
		}
		return t
	}
	before := table(Routes{
		Default:  "a",
		Prefixes: []Prefix{{Prefix: "x", Pool: "b"}, {Prefix: "xy", Pool: "a"}, {Prefix: "z", Pool: "c"}},
	})
	after := table(Routes{Default: "b", Prefixes: []Prefix{{Prefix: "xyz", Pool: "c"}}})
	require.Equal(t, []Moved{{"a", "b", ""}, {"c", "b", ""}}, MovedBetween(before, table(Routes{Default: "b"})))
	shares := []*Share{before.Share(0), before.Share(1), before.Share(2)}
	found := table(after.RoutesBefore(shares))
	for _, key := range []string{"k", "x1", "xy1", "xyz1", "z1"} {
		require.Equal(t, before.Pool([]byte(key)), found.Pool([]byte(key)), key)
	}
	require.Equal(t, before.Share(0), found.Share(0))
	shares[1] = nil
	found = table(after.RoutesBefore(shares))
	require.Equal(t, 1, found.Pool([]byte("x1")), "the only one that may have had it")
	require.Equal(t, 2, found.Pool([]byte("z1")))
	shares[1] = &Share{}
	found = table(after.RoutesBefore(shares))
	require.Equal(t, after.Pool([]byte("x1")), found.Pool([]byte("x1")), "no pool had it")
	require.True(t, slices.Equal(names, found.names))
}
