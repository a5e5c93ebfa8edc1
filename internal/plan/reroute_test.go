package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/route"
)

// rerouted makes m a change of routes that gives the key to another pool. from and to become the servers of two pools,
// replicas and copies their numbers of replicas and servers.
func (m *placementChange) rerouted(t *testing.T, replicas [2]int, copies [2]int) *placementChange {
	pool := func(i int) route.Pool {
		p := route.Pool{Name: fmt.Sprint(i), Options: route.Options{Replicas: replicas[i], Read: route.ReadPrimary}}
		for range copies[i] {
			n := len(m.from) + len(m.to)
			if i == 0 {
				m.from = append(m.from, n)
			} else {
				m.to = append(m.to, n)
			}
			p.Servers = append(p.Servers, route.Server{Name: fmt.Sprintf("server-%d", n)})
		}
		return p
	}
	pools := []route.Pool{pool(0), pool(1)}
	before, after := route.Routes{Default: "0"},
		route.Routes{Default: "0", Prefixes: []route.Prefix{{Prefix: "k", Pool: "1"}}}
	composed := func(routes route.Routes) *route.Router {
		r, err := route.NewPools(pools, routes)
		require.NoError(t, err)
		return r
	}
	m.between = func(phase route.Phase) *route.Router {
		if phase == route.Settled {
			return composed(before)
		}
		r, err := composed(after).Reroute(before, phase)
		require.NoError(t, err)
		return r
	}
	m.after = composed(after)
	return m
}

// poolsInChange say how many servers the two pools have, and how many of these hold a key.
var poolsInChange = []struct {
	name             string
	replicas, copies [2]int
}{
	{"one server each", [2]int{1, 1}, [2]int{1, 1}},
	{"to one with two replicas", [2]int{1, 0}, [2]int{1, 2}},
	{"from one with two replicas", [2]int{0, 1}, [2]int{2, 1}},
	{"two replicas each", [2]int{0, 0}, [2]int{2, 2}},
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileARouteGivesTheKeyToAnotherPool(t *testing.T) {
	computes(t)
	pools, clients := poolsInChange[:2], clientsInChange[:2]
	limit, sum := mostStates/20, newTally(t)
	if mctest.Long() {
		pools, clients, limit = poolsInChange, clientsInChange, mostStates
	}
	for _, p := range pools {
		for _, commands := range clients {
			for _, late := range []bool{false, true} {
				m := (&placementChange{name: p.name, clients: commands, late: late}).rerouted(t, p.replicas, p.copies)
				r, failure := m.explore(t, limit)
				sum.holds(r, failure, "%s, %q, late %t", m.name, commands, late)
			}
		}
	}
}

func TestOnlyOneOfTwoAddsWinsInNeighbouringPhasesOfAChangeOfRoutes(t *testing.T) {
	computes(t)
	for _, p := range poolsInChange {
		for stage := range len(phasesInOrder) {
			m := (&placementChange{
				empty: true, clients: [2][]string{{addKey, getKey}, {second(addKey), getKey}},
				first: stage, last: stage + 1,
			}).rerouted(t, p.replicas, p.copies)
			_, failure := m.explore(t, mostStates/4)
			require.Nil(t, failure, "%s, from stage %d: %v", p.name, stage, failure)
		}
	}
}

func TestEveryFaultInjectedIntoAChangeOfRoutesIsFound(t *testing.T) {
	computes(t)
	finds(t, map[string]*placementChange{
		"all at once":                          {phases: []route.Phase{route.Settled}},
		"without delete-new":                   {phases: []route.Phase{route.Settled, route.ReadNew}},
		"without read-new":                     {phases: []route.Phase{route.Settled, route.DeleteNew}},
		"two phases apart":                     {apart: 2},
		"a pool that is not clean":             {unclean: true},
		"a late instance with unclean servers": {unclean: true, late: true},
	}, func(t *testing.T, name string, m *placementChange) (explore.Result, *explore.Failure) {
		m.clients = [2][]string{{setTen}, {getKey}}
		if name == "without delete-new" {
			m.clients[1] = slices.Insert(m.clients[1], 0, setTwenty)
		}
		return m.rerouted(t, [2]int{1, 1}, [2]int{1, 1}).explore(t, 1_000_000)
	})
}
