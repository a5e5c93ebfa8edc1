package plan_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/route"
)

// migrationStates returns how many states of a history are explored.
func migrationStates() int {
	if mctest.Long() {
		return mostStates / 2
	}
	return mostStates / 20
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileAPoolMigrates(t *testing.T) {
	computes(t)
	clients := [][2][]string{
		{{setTen}, {setTwenty, getKey}},
		{{deleteKey}, {setTwenty, getKey}},
		{{incrKey}, {incrKey, getKey}},
		{{casKey}, {casKey, getKey}},
	}
	if mctest.Long() {
		clients = append(clients, [2][]string{{setTen, deleteKey}, {getKey}}, [2][]string{{setTen}, {incrKey, getKey}},
			[2][]string{{incrKey}, {deleteKey, getKey}},
			[2][]string{{setTen, getKey}, {casKey, getKey}},
			[2][]string{{"append k 0 0 1\r\n0\r\n"}, {getKey, deleteKey}},
			[2][]string{{setTen, setTwenty}, {getKey, getKey}})
	}
	exploreMigrations(t, neighbours, clients, migrationStates())
}

// warmUpClients returns what clients do during a warm-up.
func warmUpClients() [][2][]string {
	clients := [][2][]string{
		{{setTen}, {setTwenty, getKey}},
		{{deleteKey}, {getKey, getKey}},
		{{incrKey}, {incrKey, getKey}},
		{{"touch k 0\r\n"}, {deleteKey, "mg k v\r\n"}},
	}
	if mctest.Long() {
		clients = append(clients, [2][]string{{setTen, deleteKey}, {getKey}}, [2][]string{{setTen}, {incrKey, getKey}},
			[2][]string{{casKey}, {casKey, getKey}},
			[2][]string{{"gat 0 k\r\n"}, {deleteKey, getKey}},
			[2][]string{{"append k 0 0 1\r\n0\r\n"}, {getKey, deleteKey}},
			[2][]string{{"flush_all\r\n"}, {getKey, getKey}},
			[2][]string{{deleteKey, "add k 0 0 2\r\n10\r\n"}, {"add k 0 0 2\r\n20\r\n", getKey}})
	}
	return clients
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileAPoolIsWarmedUp(t *testing.T) {
	computes(t)
	var pairs []migrationWorld
	for _, m := range warmUps {
		m.missed = true
		pairs = append(pairs, m)
	}
	exploreMigrations(t, pairs, warmUpClients(), migrationStates()/8)
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileServersOfAPoolAreFilled(t *testing.T) {
	computes(t)
	var pairs []migrationWorld
	for _, m := range fillings {
		m.missed, m.cold = true, true
		pairs = append(pairs, m)
		m.coldFirst = true
		pairs = append(pairs, m)
	}
	exploreMigrations(t, pairs, warmUpClients(), migrationStates()/6)
}

// exploreMigrations explores histories of two clients behind middlewares in each pair of phases.
func exploreMigrations(t *testing.T, pairs []migrationWorld, clients [][2][]string, limit int) {
	sum := newTally(t)
	run := func(m migrationWorld, checks explore.Checks) {
		r, failure := m.explore(t, limit, checks)
		sum.holds(r, failure, "%v, %d replicas, %q", m.phases, m.replicas, m.clients)
	}
	always := func(w *explore.World) error { return errors.Join(noneReadOlder(w), decidedOnce(w)) }
	for _, m := range pairs {
		checks := explore.Checks{Always: always}
		if m.copies {
			checks.AtEnd = m.sameInBoth
		}
		for _, m.clients = range clients {
			run(m, checks)
			if mctest.Long() {
				two := m
				two.replicas = 2
				run(two, explore.Checks{Always: always})
			}
		}
		m.clients = [2][]string{{setTen, getKey}, {getKey, getKey}}
		run(m, explore.Checks{Always: func(w *explore.World) error {
			return errors.Join(noneReadOlder(w), neverMissed(w))
		}})
		m.old, m.new, m.clients = "", "", [2][]string{{"add k 0 0 2\r\n10\r\n"}, {"add k 0 0 2\r\n20\r\n"}}
		run(m, checks)
	}
}

func TestACopyMakesTheNewPoolHoldWhatTheOldOneHolds(t *testing.T) {
	computes(t)
	for _, m := range []migrationWorld{{old: before}, {old: before, new: forgotten}, {old: before, new: before}, {}} {
		m.phases, m.copies = []route.Phase{route.MigrationCopy}, true
		r, failure := m.explore(t, mostStates, explore.Checks{AtEnd: m.copied})
		require.Nil(t, failure, "%+v: %v", m, failure)
		require.NotZero(t, r.Ends)
		for _, command := range []string{
			setTen, deleteKey, "touch k 100\r\n", "append k 0 0 1\r\n0\r\n",
			"md k I\r\n",
		} {
			m.clients = [2][]string{{command}, {getKey}}
			_, failure = m.explore(t, migrationStates(), explore.Checks{Always: noneReadOlder, AtEnd: m.sameInBoth})
			require.Nil(t, failure, "%+v: %v", m, failure)
		}
	}
}

// A deletion reaches the old servers one after the other. A copy from the last one must not bring the key back.
func TestACopyFromAnyServerIsNoOlderThanADeletion(t *testing.T) {
	computes(t)
	for source := range 2 {
		m := migrationWorld{
			phases: []route.Phase{route.MigrationCopy}, replicas: 2, old: before, copies: true, source: source,
			clients: [2][]string{{deleteKey}, {}},
		}
		r, failure := m.explore(t, migrationStates(), explore.Checks{AtEnd: m.sameInBoth})
		require.Nil(t, failure, "%+v: %v", m, failure)
		t.Logf("from server %d: %+v", source, r)
	}
}

func TestAChangeOfTheExpiryReachesWhatWasCopied(t *testing.T) {
	computes(t)
	for _, command := range []string{"touch k 100\r\n", "gat 100 k\r\n", "mg k v T100\r\n"} {
		for _, replicas := range []int{1, 2} {
			m := migrationWorld{
				phases: []route.Phase{route.MigrationCopy}, replicas: replicas, old: before,
				new: before, clients: [2][]string{{command}, {}},
			}
			_, failure := m.explore(t, mostStates, explore.Checks{AtEnd: m.copied})
			require.Nil(t, failure, "%+v: %v", m, failure)
		}
	}
}

func TestEveryFaultInjectedIntoAMigrationIsFound(t *testing.T) {
	computes(t)
	const warmUp = route.MigrationWarmUp
	const waiting, deleteNew, copies, both, done = route.MigrationWaiting, route.MigrationDeleteNew,
		route.MigrationCopy, route.MigrationBoth, route.MigrationDone
	finds(t, map[string]migrationWorld{
		"without both": {
			phases: []route.Phase{copies, done}, old: before, new: before,
			clients: [2][]string{{incrKey}, {incrKey}},
		},
		"without copy": {
			phases: []route.Phase{deleteNew, both}, old: before,
			clients: [2][]string{{getKey}, {getKey}},
		},
		"two phases apart": {
			phases: []route.Phase{deleteNew, copies, both}, old: before,
			new: before, apart: 2, clients: [2][]string{{setTen}, {getKey}},
		},
		"a copy that is not checked": {
			phases: []route.Phase{copies, both}, old: before, copies: true,
			unchecked: true, unverified: true, clients: [2][]string{{deleteKey}, {getKey}},
		},
		"writes to both pools at once next to a copy": {
			phases: []route.Phase{copies}, old: before,
			copies: true, parallel: true, clients: [2][]string{{deleteKey}, {}},
		},
		"a copy that is checked on one server": {
			phases: []route.Phase{copies}, replicas: 2,
			old: before, copies: true, alone: true, clients: [2][]string{{deleteKey}, {}},
		},
		"a copy that is not verified": {
			phases: []route.Phase{copies}, old: before,
			copies: true, unverified: true, clients: [2][]string{{"touch k 100\r\n"}, {}},
		},
		"copies in phase both": {
			phases: []route.Phase{copies, both}, old: before,
			copies: true, hasty: true, clients: [2][]string{{deleteKey}, {getKey}},
		},
		"not copied": {
			phases: []route.Phase{copies, both}, old: before,
			clients: [2][]string{{getKey}, {getKey}},
		},
		"a copy of a missed key that is not checked": {
			phases: []route.Phase{warmUp}, old: before,
			missed: true, copies: true, unchecked: true, clients: [2][]string{{deleteKey}, {getKey}},
		},
		"a copy that replaces the present item": {
			phases: []route.Phase{warmUp}, old: before,
			missed: true, copies: true, overwrites: true, clients: [2][]string{{setTen}, {}},
		},
		"a copy that is read before it is checked": {
			phases: []route.Phase{warmUp}, old: before,
			missed: true, copies: true, seen: true, clients: [2][]string{{deleteKey}, {getKey}},
		},
		"writes to both pools at once during the warm-up": {
			phases: []route.Phase{warmUp}, old: before,
			missed: true, copies: true, parallel: true, clients: [2][]string{{deleteKey}, {getKey}},
		},
		"deletions in one pool only during the warm-up": {
			phases: []route.Phase{waiting, warmUp},
			old:    before, new: before, missed: true, clients: [2][]string{{deleteKey}, {getKey}},
		},
		"a warm-up that is given up at once": {phases: []route.Phase{
			warmUp,
			route.MigrationBack,
		}, old: before, new: before, missed: true, clients: [2][]string{{setTen}, {getKey}}},
		"a copy to a server that is not checked": {
			phases: []route.Phase{warmUp}, old: before,
			missed: true, copies: true, cold: true, unchecked: true, clients: [2][]string{{deleteKey}, {getKey}},
		},
		"a copy to a server that is read before the check": {
			phases: []route.Phase{warmUp}, old: before,
			missed: true, copies: true, cold: true, coldFirst: true, seen: true,
			clients: [2][]string{{deleteKey}, {getKey}},
		},
		"a copy to a server that replaces the present item": {
			phases: []route.Phase{warmUp}, old: before,
			missed: true, copies: true, cold: true, overwrites: true, clients: [2][]string{{setTen}, {}},
		},
		"writes to all servers at once while one is filled": {
			phases: []route.Phase{warmUp}, old: before,
			missed: true, copies: true, cold: true, parallel: true, clients: [2][]string{{deleteKey}, {getKey}},
		},
		"two servers that decide": {
			phases: []route.Phase{waiting, warmUp},
			old:    before, new: before, missed: true, cold: true, coldFirst: true,
			clients: [2][]string{{incrKey}, {incrKey}},
		},
		"unordered writes next to a warm-up": {
			phases: []route.Phase{waiting, warmUp},
			old:    before, missed: true, copies: true, cold: true, clients: [2][]string{{}, {deleteKey, getKey}},
		},
		"without the phase for deletions": {
			phases: []route.Phase{waiting, copies},
			old:    before, new: before, clients: [2][]string{{setTen}, {}},
		},
	}, func(t *testing.T, name string, m migrationWorld) (explore.Result, *explore.Failure) {
		return m.explore(t, 1_000_000, explore.Checks{
			Always: func(w *explore.World) error {
				if name == "without copy" || name == "not copied" || name == "two phases apart" {
					return neverMissed(w)
				}
				return errors.Join(noneReadOlder(w), decidedOnce(w))
			},
			AtEnd: m.sameInBoth,
		})
	})
}
