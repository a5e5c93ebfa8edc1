package route

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func pooledWith(name, gutter string, ttl int) Pool {
	return Pool{
		Name: name, Servers: []Server{{Name: name + "-1"}, {Name: name + "-2"}},
		Options: Options{Replicas: 1, Gutter: gutter, GutterTTL: ttl},
	}
}

func TestAPoolKnowsItsGutter(t *testing.T) {
	r, err := NewPools([]Pool{pooledWith("a", "c", 60), pooledWith("b", "c", 1), pooledWith("c", "", 0)},
		Routes{Default: "a", Prefixes: []Prefix{{Prefix: "b", Pool: "b"}}})
	require.NoError(t, err)
	a, b, c := r.Pools()[0], r.Pools()[1], r.Pools()[2]
	require.Same(t, c, a.Gutter())
	require.Same(t, c, b.Gutter())
	require.Nil(t, c.Gutter())
	require.Equal(t, 60, a.GutterTTL())
	require.True(t, c.IsGutter())
	require.False(t, a.IsGutter())
	require.Equal(t, 2, r.N(), "a key has one server, and one in the gutter")
	require.Equal(t, Standin{"c", 60}, r.Share(0).Gutter)
	require.Equal(t, &Share{Default: true, Routed: &Share{}}, r.Share(2), "any key may be there")
	require.Equal(t, []int{c.Primary([]byte("k"))}, c.Replicas([]byte("k"), nil),
		"a gutter places keys that are routed elsewhere")

	for _, phase := range []Phase{DeleteNew, ReadNew} {
		pools := []*Router{Change(a.Alone(), a.Alone(), phase), b.Alone(), c.Alone()}
		changing, err := Compose([]string{"a", "b", "c"}, pools, Routes{Default: "a"})
		require.NoError(t, err)
		require.Same(t, changing.Pools()[2], changing.Pools()[0].Gutter())
	}
	pools := []*Router{routerOf(everyKey(), &Group{}), c.Alone()}
	alone, err := Compose([]string{"b", "c"}, pools, Routes{Default: "c"})
	require.NoError(t, err)
	require.False(t, alone.Pools()[1].IsGutter(), "it is no pool's gutter any more")
}
