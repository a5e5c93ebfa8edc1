package route

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// placements returns a placement on servers 0 to 3, and one on servers 5 to 2, in this order.
func placements(t *testing.T, replicas int) (from, to *Router) {
	place := func(servers ...int) *Router {
		var list []Server
		for _, s := range servers {
			list = append(list, Server{Name: fmt.Sprint("server-", s), Addr: fmt.Sprint("host:", s)})
		}
		r, err := New(list, Options{Replicas: replicas})
		require.NoError(t, err)
		return r
	}
	return place(0, 1, 2, 3), place(5, 4, 3, 2)
}

// named returns the names of servers of r, sorted.
func named(r *Router, servers []int) []string {
	var names []string
	for _, s := range servers {
		names = append(names, r.Servers()[s].Name)
	}
	slices.Sort(names)
	return names
}

func TestAChangeOfServersGoesFromOnePlacementToTheOther(t *testing.T) {
	for replicas := 1; replicas <= 4; replicas++ {
		from, to := placements(t, replicas)
		first, second := Change(from, to, DeleteNew), Change(from, to, ReadNew)
		for n := range 200 {
			key := fmt.Append(nil, "key-", n)
			assert.Equal(t, named(from, from.Replicas(key, nil)), named(first, first.Replicas(key, nil)))
			assert.Equal(t, named(from, from.Replicas(key, nil)[:1]), named(first, []int{first.Primary(key)}))
			assert.Equal(t, to.Replicas(key, nil), second.Replicas(key, nil))
			_, decider := first.Holders(key, nil, nil)
			assert.Equal(t, Decider(to.Primary(key)), decider, "the servers of to come first")
			_, decider = second.Holders(key, nil, nil)
			assert.Equal(t, Anyone, decider)
			assert.ElementsMatch(t, slices.DeleteFunc(named(to, to.Replicas(key, nil)), func(name string) bool {
				return from.Holds(name, key)
			}), named(first, first.With(Drop, 0, key, nil)), "the new holders, and only they, lose it")
		}
	}
}

func TestAMiddlewareJoinsTheChangeThatIsFurthest(t *testing.T) {
	change, next, other := Announced{"a", "b"}, Announced{"b", "c"}, Announced{"a", "x"}
	for _, c := range []struct {
		deleting, copying, reading []Announced
		joins                      Announced
		phase                      Phase
	}{
		{nil, nil, nil, Announced{}, Settled},
		{[]Announced{change}, nil, nil, change, DeleteNew},
		{[]Announced{change}, []Announced{change}, nil, change, Copy},
		{nil, []Announced{change}, nil, change, Copy},
		{[]Announced{change}, []Announced{change}, []Announced{change}, change, HandOver},
		{[]Announced{change}, nil, []Announced{change}, change, ReadNew},
		{nil, nil, []Announced{change}, change, ReadNew},
		{[]Announced{other}, nil, []Announced{change}, change, ReadNew},
		{[]Announced{change, next}, []Announced{change}, []Announced{change}, next, DeleteNew},
		{[]Announced{{"b", "a"}}, nil, []Announced{change}, Announced{"b", "a"}, DeleteNew},
	} {
		joins, phase := Join(c.deleting, c.copying, c.reading)
		assert.Equal(t, c.joins, joins, "%v", c)
		assert.Equal(t, c.phase, phase, "%v", c)
	}
}

func TestAServerThatIsRenamedKeepsItsPlaceDuringAChange(t *testing.T) {
	from, err := New([]Server{{Name: "a", Addr: "host:1"}, {Name: "b", Addr: "host:2"}}, Options{Replicas: 1})
	require.NoError(t, err)
	to, err := New([]Server{{Name: "b", Addr: "host:2"}, {Name: "c", Addr: "host:1"}}, Options{Replicas: 1})
	require.NoError(t, err)
	r := Change(from, to, DeleteNew)
	assert.Equal(t, to.Servers(), r.Servers())
	for n := range 100 {
		key := fmt.Append(nil, "key-", n)
		assert.Equal(t, from.Servers()[from.Primary(key)].Addr, r.Servers()[r.Primary(key)].Addr)
	}
	to, err = New([]Server{{Name: "b", Addr: "host:1"}}, Options{})
	require.NoError(t, err)
	r = Change(from, to, DeleteNew)
	assert.Equal(t, []string{"a", "b"}, named(r, []int{0, 1}), "b got the address of a, but was b before")
}

func TestDuringAChangeKeysAreCoveredByTheServersThatMayBeRead(t *testing.T) {
	from, to := placements(t, 4)
	isOld := func(r *Router) func(int) bool {
		return func(s int) bool { return r.Servers()[s].Name == "server-0" }
	}
	first, second := Change(from, to, DeleteNew), Change(from, to, ReadNew)
	assert.True(t, first.Covers(isOld(first)))
	assert.False(t, second.Covers(isOld(second)))
}

func TestPlacingAKeyDuringAChangeAllocatesNothing(t *testing.T) {
	mctest.RaceSkips(t, mctest.Allocates)
	from, to := placements(t, 2)
	key, room, holders := []byte("key"), make([]int, 0, 16), make([]Holder, 0, 16)
	for phase := range Late {
		r := Change(from, to, phase)
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			room = r.Readers(key, r.Replicas(key, room[:0]))
			holders, _ = r.Holders(key, nil, holders[:0])
			r.Primary(key)
		}), phase.String())
	}
}
