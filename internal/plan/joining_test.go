package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/plan"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// joining is a world like placementChange in which the second middleware starts at any moment, and joins the change by
// what the first has announced. Each look, announcement and step is an event of its own. What they assume of each
// other's time is that an announcement lasts longer than it takes to look twice, and that the first, which learned of
// the change first, does not read by the new list before the second, if it found no announcement, has learned of the
// change as well.
type joining struct {
	placementChange
	// Faults put into the protocol.
	silent bool // the second does not announce the phase in which it joins
	deaf   bool // it ignores that the first reads by the new list
	hasty  bool // read-new ends although somebody is in delete-new
}

// The stages of a middleware, which has left its earlier ones.
const (
	isSettled = iota
	deletesNew
	readsNew
	hasEnded
)

// Commands of the workers that take the two middlewares through the phases.
const (
	looks, announces, looksAgain, joins = "look", "announce", "look again", "join"
	saysDelete, toDelete                = "say delete-new", "to delete-new"
	saysRead, toRead                    = "say read-new", "to read-new"
	unsaysDelete, awaitsOthers, toEnd   = "say no more delete-new", "await others", "to the end"
	unsaysRead                          = "say no more read-new"
)

// announcements are what the two middlewares have announced.
type announcements struct{ deleting, reading [2]bool }

// of returns what the middleware has announced that is not number i.
func (a *announcements) of(i int) (deleting, reading []route.Announced) {
	change := []route.Announced{{From: "old", To: "new"}}
	if a.deleting[1-i] {
		deleting = change
	}
	if a.reading[1-i] {
		reading = change
	}
	return deleting, reading
}

// joiner takes a middleware through the phases.
type joiner struct {
	idler
	world  *joining
	number int
	of     *phased
	other  *phased
	said   *announcements
	clean  func()
	phase  route.Phase // in which it joins
	ended  bool        // the change had ended when it looked
	looked bool
	serves bool
}

func (j *joiner) Start(command string) {
	stage := map[string]int{toDelete: deletesNew, toRead: readsNew, toEnd: hasEnded}[command]
	switch command {
	case looks:
		j.phase, j.ended, j.looked = j.joinsBy(j.said.of(j.number)), j.other.stage == hasEnded, true
	case announces:
		j.said.deleting[j.number] = j.phase == route.DeleteNew && !j.world.silent
	case looksAgain:
		if j.phase == route.DeleteNew {
			_, reading := j.said.of(j.number)
			j.phase = j.joinsBy([]route.Announced{{From: "old", To: "new"}}, reading)
		}
	case joins:
		j.said.reading[j.number] = j.phase == route.ReadNew
		switch j.serves = true; {
		case j.phase != route.Settled:
			j.of.enter(int(j.phase))
		case j.ended:
			j.of.enter(hasEnded)
		}
	case saysDelete:
		j.said.deleting[j.number] = j.of.stage <= deletesNew
	case saysRead:
		j.said.reading[j.number] = j.of.stage <= readsNew
	case unsaysDelete:
		j.said.deleting[j.number] = false
	case unsaysRead:
		j.said.reading[j.number] = false
	case clean:
		j.clean()
	case awaitsOthers:
	default:
		if j.of.stage < stage {
			j.of.enter(stage)
		}
	}
}

func (j *joiner) joinsBy(deleting, reading []route.Announced) route.Phase {
	if j.world.deaf {
		reading = nil
	}
	_, phase := route.Join(deleting, reading)
	return phase
}

func (j *joiner) AppendState(dst []byte) []byte {
	return fmt.Appendf(dst, "%v %d %t %t %t", *j.said, j.phase, j.ended, j.looked, j.serves)
}

// explore explores what can happen, at most limit states.
func (m *joining) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	from, to := m.routers(t)
	routers := []*route.Router{from, route.Change(from, to, route.DeleteNew), route.Change(from, to, route.ReadNew), to}
	if m.between != nil {
		routers = []*route.Router{
			m.between(route.Settled), m.between(route.DeleteNew), m.between(route.ReadNew),
			m.after,
		}
	}
	return explore.UpTo(func() *explore.World {
		w := &explore.World{Servers: m.servers(from)}
		said := &announcements{}
		var of [2]*phased
		var steps [2]*joiner
		for i := range of {
			versions := plan.NewVersions(uint64(100*i), 1)
			of[i] = &phased{make: func(stage int) (*driver, []int) {
				given := versions
				if routers[stage].N() == 1 {
					given = nil
				}
				return drive(t, routers[stage], replica.AckAll, given), indexes(routers[stage], len(w.Servers))
			}}
			of[i].enter(isSettled)
		}
		for i, commands := range m.clients {
			steps[i] = &joiner{
				world: m, number: i, of: of[i], other: of[1-i], said: said, serves: i == 0,
				looked: i == 0, clean: func() {
					for _, s := range gained(from, to) {
						w.Servers[s].Evict("k")
					}
				},
			}
			path := []string{
				saysDelete, toDelete, clean, saysRead, toRead, unsaysDelete, awaitsOthers, toEnd,
				unsaysRead,
			}
			if i == 1 {
				// it finds the mark
				path = append([]string{looks, announces, looksAgain, joins},
					slices.DeleteFunc(path, func(c string) bool { return c == clean })...)
			}
			w.Workers = append(w.Workers,
				&explore.Worker{Middleware: 2 * i, Driver: of[i], Commands: slices.Clone(commands)},
				&explore.Worker{Silent: true, Middleware: 2*i + 1, Driver: steps[i], Commands: path})
		}
		w.May = func(w *explore.World, i int) bool {
			mine, other := steps[i/2], steps[1-i/2]
			if i%2 == 0 {
				return mine.serves
			}
			switch next := w.Workers[i].Commands[0]; next {
			case toDelete, toRead, toEnd, joins:
				if w.Workers[i-1].Running() {
					return false // the worker's driver is replaced when no request is in flight
				}
				// or is about to
				learns := other.looked && other.phase == route.Settled && !other.ended && other.of.stage == isSettled
				return next != toRead || mine.of.stage >= readsNew || !learns &&
					!slices.Contains(w.Workers[1].Commands, clean)
			case unsaysRead: // an announcement lasts longer than it takes the other to look twice
				return !slices.Contains(w.Workers[3].Commands, looksAgain) || !other.looked
			case awaitsOthers:
				return mine.of.stage == hasEnded || !said.deleting[1-i/2] || m.hasty
			}
			return true
		}
		return w
	}, limit, explore.Checks{Always: func(w *explore.World) error {
		return errors.Join(noneReadOlder(w), decidedOnce(w))
	}})
}

// clientsOfJoining are what the clients of the middleware that changes and of the one that joins do.
var clientsOfJoining = append([][2][]string{
	{{setTwenty}, {getKey}},
	{{getKey}, {setTen}},
	{{incrKey}, {incrKey}},
	{{setTen, getKey}, {setTwenty}},
}, clientsInChange...)

func TestAMiddlewareThatJoinsAChangeReadsNothingOldAndLosesNothing(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	placements, clients, limit := placementsInChange[:2], clientsOfJoining[:3], 2*mostStates
	if mctest.Long() {
		placements, clients, limit = placementsInChange, clientsOfJoining, 10*mostStates
	}
	for _, p := range placements {
		for _, p.clients = range clients {
			r, failure := (&joining{placementChange: p}).explore(t, limit)
			require.Nil(t, failure, "%s, %q: %v", p.name, p.clients, failure)
			t.Logf("%s, %q: %+v", p.name, p.clients, r)
		}
	}
}

func TestAMiddlewareThatJoinsAChangeOfRoutesReadsNothingOldAndLosesNothing(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	pools, clients, limit := poolsInChange[:2], clientsOfJoining[:3], mostStates/5
	if mctest.Long() {
		pools, clients, limit = poolsInChange, clientsOfJoining, 10*mostStates
	}
	for _, p := range pools {
		for _, commands := range clients {
			m := &joining{placementChange: placementChange{name: p.name, clients: commands}}
			m.rerouted(t, p.replicas, p.copies)
			r, failure := m.explore(t, limit)
			require.Nil(t, failure, "%s, %q: %v", m.name, m.clients, failure)
			t.Logf("%s, %q: %+v", m.name, m.clients, r)
		}
	}
}

func TestEveryFaultInjectedIntoJoiningAChangeIsFound(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	for name, m := range map[string]joining{
		"it does not announce where it joins":         {silent: true},
		"it ignores that others read by the new list": {deaf: true},
		"read-new ends although it is in delete-new":  {hasty: true},
	} {
		t.Run(name, func(t *testing.T) {
			m.placementChange = placementsInChange[0]
			m.clients = [2][]string{{setTen}, {getKey}}
			r, failure := m.explore(t, 1_000_000)
			require.NotNil(t, failure, "%d states", r.States)
			t.Log(failure)
		})
	}
}
