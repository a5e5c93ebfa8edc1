package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

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
	hasty  bool // read-new ends although somebody is in an earlier phase
	stage  int  // in which the first is at the beginning; 0: it has not begun
}

// The stages of a middleware, which has left its earlier ones: the phases in their order, and the end.
const (
	isSettled  = int(route.Settled)
	deletesNew = int(route.DeleteNew)
	copies     = int(route.Copy)
	handsOver  = int(route.HandOver)
	readsNew   = int(route.ReadNew)
	hasEnded   = readsNew + 1
)

// Commands of the workers that take the two middlewares through the phases.
const (
	looks, announces, looksAgain, joins = "look", "announce", "look again", "join"
	saysDelete, toDelete                = "say delete-new", "to delete-new"
	saysCopy, toCopy                    = "say copy", "to copy"
	saysHandOver, toHandOver            = "say hand-over", "to hand-over"
	saysRead, toRead                    = "say read-new", "to read-new"
	unsaysDelete, awaitsOthers, toEnd   = "say no more delete-new", "await others", "to the end"
	unsaysCopy, unsaysRead              = "say no more copy", "say no more read-new"
)

// announcements are what the two middlewares have announced.
type announcements struct{ deleting, copying, reading [2]bool }

// of returns what the middleware has announced that is not number i.
func (a *announcements) of(i int) (deleting, copying, reading []route.Announced) {
	change := []route.Announced{{From: "old", To: "new"}}
	if a.deleting[1-i] {
		deleting = change
	}
	if a.copying[1-i] {
		copying = change
	}
	if a.reading[1-i] {
		reading = change
	}
	return deleting, copying, reading
}

// says makes middleware i announce that it is in phase, in addition to what it has announced before.
func (a *announcements) says(i int, phase route.Phase) {
	a.deleting[i] = a.deleting[i] || phase == route.DeleteNew
	a.copying[i] = a.copying[i] || phase == route.Copy || phase == route.HandOver
	a.reading[i] = a.reading[i] || phase == route.HandOver || phase == route.ReadNew
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
	stage := map[string]int{
		toDelete: deletesNew, toCopy: copies, toHandOver: handsOver, toRead: readsNew, toEnd: hasEnded,
	}[command]
	switch command {
	case looks:
		j.phase, j.ended, j.looked = j.joinsBy(j.said.of(j.number)), j.other.stage == hasEnded, true
	case announces:
		if !j.world.silent && j.phase < route.ReadNew {
			j.said.says(j.number, j.phase)
		}
	case looksAgain:
		if own := []route.Announced{{From: "old", To: "new"}}; j.phase != route.Settled && j.phase != route.ReadNew {
			deleting, copying, reading := j.said.of(j.number)
			switch j.phase {
			case route.DeleteNew:
				deleting = own
			case route.HandOver:
				copying, reading = own, own
			default:
				copying = own
			}
			j.phase = j.joinsBy(deleting, copying, reading)
		}
	case joins:
		if !j.world.silent || j.phase == route.ReadNew {
			j.said.says(j.number, j.phase)
		}
		switch j.serves = true; {
		case j.phase != route.Settled:
			j.of.enter(int(j.phase))
		case j.ended:
			j.of.enter(hasEnded)
		}
	case saysDelete, saysCopy, saysHandOver, saysRead:
		phase := map[string]route.Phase{
			saysDelete: route.DeleteNew, saysCopy: route.Copy, saysHandOver: route.HandOver, saysRead: route.ReadNew,
		}[command]
		if j.of.stage <= int(phase) {
			j.said.says(j.number, phase)
		}
	case unsaysDelete:
		j.said.deleting[j.number] = false
	case unsaysCopy:
		j.said.copying[j.number] = false
	case unsaysRead:
		j.said.reading[j.number] = false
	case toDelete:
		if j.of.stage < deletesNew {
			_, copying, reading := j.said.of(j.number)
			phase := route.DeleteNew
			if len(copying) > 0 {
				_, phase = route.Join(nil, copying, reading)
				j.said.says(j.number, phase)
			}
			j.of.enter(int(phase))
		}
	case clean:
		j.clean()
	case awaitsOthers:
	default:
		if j.of.stage < stage {
			j.of.enter(stage)
		}
	}
}

func (j *joiner) joinsBy(deleting, copying, reading []route.Announced) route.Phase {
	if j.world.deaf {
		copying, reading = nil, nil
	}
	_, phase := route.Join(deleting, copying, reading)
	return phase
}

func (j *joiner) AppendState(dst []byte) []byte {
	return fmt.Appendf(dst, "%v %d %t %t %t", *j.said, j.phase, j.ended, j.looked, j.serves)
}

// explore explores what can happen, at most limit states.
func (m *joining) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	from, to := m.routers(t)
	routers := []*route.Router{from}
	for phase := route.DeleteNew; phase <= route.ReadNew; phase++ {
		routers = append(routers, route.Change(from, to, phase))
	}
	routers = append(routers, to)
	if m.between != nil {
		routers = []*route.Router{
			m.between(route.Settled), m.between(route.DeleteNew), nil, nil, m.between(route.ReadNew),
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
			if m.copies {
				path = []string{
					saysDelete, toDelete, clean, saysCopy, toCopy, unsaysDelete, saysHandOver, toHandOver, saysRead,
					toRead, unsaysCopy, awaitsOthers, toEnd, unsaysRead,
				}
			}
			if i == 0 && m.stage == handsOver {
				path = path[slices.Index(path, toHandOver)+1:]
				of[i].enter(handsOver)
				said.says(i, route.HandOver)
			}
			if i == 1 {
				// it finds the mark
				path = append([]string{looks, announces, looksAgain, joins},
					slices.DeleteFunc(path, func(c string) bool { return c == clean })...)
			}
			w.Workers = append(w.Workers, member(i, of[i], commands, steps[i], path...)...)
		}
		if m.copies {
			w.Workers = append(w.Workers, &explore.Worker{
				Silent: true, Middleware: 4, Commands: []string{"copy"}, Driver: &copyDriver{
					of: m.transfer(from, to), servers: len(w.Servers),
					late: func() bool { return of[0].stage > copies || said.reading[1] },
				},
			})
		}
		w.May = func(w *explore.World, i int) bool {
			if i == 4 { // it begins a step after the first has entered copy, and the second looks twice within a step
				return of[0].stage > copies || of[0].stage == copies && !said.deleting[1]
			}
			mine, other := steps[i/2], steps[1-i/2]
			if i%2 == 0 {
				return mine.serves
			}
			switch next := w.Workers[i].Commands[0]; next {
			case toDelete, toCopy, toHandOver, toRead, toEnd, joins:
				if w.Workers[i-1].Running() {
					return false // the worker's driver is replaced when no request is in flight
				}
				// or is about to
				learns := other.looked && other.phase == route.Settled && !other.ended && other.of.stage == isSettled
				switch {
				case m.copies && (next == toHandOver || next == toRead) && w.Workers[4].Running():
					return false // hand-over is longer than what was copied lives
				case next == toCopy && mine.of.stage < copies:
					return !learns && !slices.Contains(w.Workers[1].Commands, clean)
				}
				return next != toRead || mine.of.stage >= readsNew || !learns &&
					!slices.Contains(w.Workers[1].Commands, clean)
			case unsaysRead: // an announcement lasts longer than it takes the other to look twice
				return !slices.Contains(w.Workers[3].Commands, looksAgain) || !other.looked
			case awaitsOthers:
				return mine.of.stage == hasEnded || !said.deleting[1-i/2] && !said.copying[1-i/2] || m.hasty
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
	for name, copies := range map[string]bool{"values are copied": true, "values are not copied": false} {
		t.Run(name, func(t *testing.T) {
			computes(t)
			placements, clients, limit, sum := placementsInChange[:2], clientsOfJoining[:3], mostStates, newTally(t)
			if copies {
				clients, limit = clientsOfJoining[1:2], mostStates/4
			}
			if mctest.Long() {
				placements, clients, limit = placementsInChange, clientsOfJoining, 10*mostStates
			}
			for _, p := range placements {
				p.copies = copies
				for _, p.clients = range clients {
					r, failure := (&joining{placementChange: p}).explore(t, limit)
					sum.holds(r, failure, "%s, %q", p.name, p.clients)
				}
			}
		})
	}
}

func TestAMiddlewareThatJoinsAChangeOfRoutesReadsNothingOldAndLosesNothing(t *testing.T) {
	computes(t)
	pools, clients, limit, sum := poolsInChange[:2], clientsOfJoining[:3], mostStates/5, newTally(t)
	if mctest.Long() {
		pools, clients, limit = poolsInChange, clientsOfJoining, 10*mostStates
	}
	for _, p := range pools {
		for _, commands := range clients {
			m := &joining{placementChange: placementChange{name: p.name, clients: commands}}
			m.rerouted(t, p.replicas, p.copies)
			r, failure := m.explore(t, limit)
			sum.holds(r, failure, "%s, %q", m.name, m.clients)
		}
	}
}

func TestEveryFaultInjectedIntoJoiningAChangeIsFound(t *testing.T) {
	computes(t)
	finds(t, map[string]joining{
		"it does not announce where it joins":         {silent: true},
		"it ignores that others read by the new list": {deaf: true},
		"read-new ends although it is in delete-new":  {hasty: true},
		"read-new ends although it is in hand-over":   {hasty: true, stage: handsOver},
	}, func(t *testing.T, _ string, m joining) (explore.Result, *explore.Failure) {
		m.placementChange = placementsInChange[0]
		m.clients = [2][]string{{setTen}, {getKey}}
		m.copies, m.first = m.stage > 0, m.stage
		return m.explore(t, 1_000_000)
	})
}
