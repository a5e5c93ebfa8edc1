package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/plan"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// gutterChange is a world like gutterWorld. Meanwhile its middlewares go through the phases of a change of the gutter,
// or of the pool that has the key. Each pool has one server. All that the middlewares know of each other is that they
// are at most one phase apart, and what they know of the server in gutterWorld.
type gutterChange struct {
	name          string
	pools         int               // named "0", "1" ..
	before, after map[string]string // gutters, by pool
	from, to      string            // the key's pools before and after
	victim        int               // the server that is barred
	clients       [2][]string
	cut           [2]bool
	// late: the second middleware starts at any moment, and does not know which phase the other is in.
	late bool
	// joins: it joins the change in gutterRead, at any moment after the other was there.
	joins bool
	// began is the stage of the server at first, for both. once: the server fails once, not again.
	began stage
	once  bool
	// migrates: the key migrates from from to to, or, if missed, to is warmed up. It is in phases, and its gutters
	// stay. cleanLate: what to and its gutter hold is deleted in phase delete-new, and not before. live: a write is
	// answered without a server once all bar that; otherwise it fails.
	migrates, missed, cleanLate, live bool
	// changeFirst: the client of the second middleware begins when that has gone through all phases, and the server
	// fails after that.
	changeFirst bool

	// Faults put into the protocol.
	phases  []gutterPhase // instead of the right ones
	apart   int           // phases apart, instead of 1
	spared  bool          // what the gutter of the pool that keys migrate to holds is not deleted
	unclean bool          // what gutters held before the change is not deleted
	early   bool          // it is deleted in the first phase instead of the last
	secret  bool          // writes do not delete the key in gutters
	blind   bool          // a middleware whose gutter is closed ignores marks
	hasty   bool          // a middleware ignores marks as soon as it has no gutter
}

// gutterPhase is a phase of such a change: the gutters and routes before it, those after it, or a phase between.
type gutterPhase int

const (
	asBefore gutterPhase = iota
	gutterDelete
	gutterRead
	gutterTail
	gutterLate
	asAfter
	migrating // the first phase of a migration
)

// phasesOf returns the phases of a migration.
func phasesOf(phases ...route.Phase) (path []gutterPhase) {
	for _, phase := range phases {
		path = append(path, migrating+gutterPhase(phase))
	}
	return path
}

// router returns the router of a phase.
func (g *gutterChange) router(t *testing.T, phase gutterPhase) *route.Router {
	routed := func(pool string) route.Routes {
		return route.Routes{Default: "0", Prefixes: []route.Prefix{{Prefix: "k", Pool: pool}}}
	}
	var pools []route.Pool
	for i := range g.pools {
		name := strconv.Itoa(i)
		o := route.Options{Gutter: g.after[name]}
		if phase == asBefore {
			o.Gutter = g.before[name]
		} else if phase < asAfter && g.closes(name) {
			o.Closed, o.PreviousGutter = true, route.Standin{Pool: g.before[name], TTL: 60}
		}
		if o.Gutter != "" {
			o.GutterTTL = 60
		}
		pools = append(pools, route.Pool{Name: name, Servers: []route.Server{{Name: "server-" + name}}, Options: o})
	}
	pool := g.to
	if phase == asBefore || phase >= migrating {
		pool = g.from
	}
	r, err := route.NewPools(pools, routed(pool))
	require.NoError(t, err)
	if phase >= migrating && phase != migrating+gutterPhase(route.MigrationBack) {
		return r.Migrate([]route.Move{{
			From: number(g.from), To: number(g.to), Phase: route.Phase(phase - migrating), WarmsUp: g.missed,
		}})
	}
	if phase != asBefore && phase < asAfter {
		r, err = r.Reroute(routed(g.from), []route.Phase{
			gutterDelete: route.DeleteNew, gutterRead: route.ReadNew,
			gutterTail: route.Settled, gutterLate: route.Late,
		}[phase])
		require.NoError(t, err)
	}
	return r
}

// closes reports whether the gutters of pool are closed during the change.
func (g *gutterChange) closes(pool string) bool {
	return g.before[pool] != g.after[pool] || pool == g.to && g.from != g.to && g.after[pool] != ""
}

// changeWorker is the worker of a middleware.
type changeWorker struct {
	*gutterWorker
	at    int           // index in path
	path  []gutterPhase // the phases that it goes through
	world *gutterChange
	// respects: it respects the marks of the other one. lingers: it does so although it has no gutter any more.
	respects, lingers bool
	make              func(phase gutterPhase) *driver
}

// enterPhase replaces the driver.
func (w *changeWorker) enterPhase(at int) {
	respected := w.respects
	w.at = at
	missed := map[int]bool{}
	if w.gutterWorker.driver != nil {
		missed = w.missed
	}
	w.driver = w.make(w.path[at])
	w.unreached = func(s int) bool { return w.cut && s == w.world.victim }
	w.missed = missed
	w.lingers = respected && (w.stage == barred || w.stage == away) && !w.world.hasty
	w.know(w.stage)
}

// know applies what is known about the server.
func (w *changeWorker) know(stage stage) {
	w.stage = stage
	s := &w.planner.Servers[w.world.victim]
	w.lingers = w.lingers && stage != open
	respects := w.lingers // until no mark is left
	for _, p := range w.router.Pools() {
		respects = respects || len(p.Gutters()) > 0 && (p.Gutter() != nil || !w.world.blind)
	}
	w.respects = respects
	s.Readable = !respects || stage == shut || stage == open
	s.Recovers = !s.Readable
	s.Away = respects && (stage == away || stage == again)
	s.Open = respects && stage != shut && !w.world.secret
}

// waits reports whether a read must wait because it would go to a server that is not read.
func (w *changeWorker) waits() bool {
	in := w.router.In([]byte("k"))
	s := w.planner.Servers[w.world.victim]
	reads := slices.Contains(in.Readers([]byte("k"), nil), w.world.victim)
	return reads && (!s.Readable || w.missed[w.world.victim]) && (!s.Away || in.Gutter() == nil)
}

func (w *changeWorker) AppendState(dst []byte) []byte {
	return w.driver.AppendState(fmt.Appendf(dst, "%d %d %t %t ", w.at, w.stage, w.cut, w.lingers))
}

// stageDriver takes a middleware through the stages of the server, or through the phases. cleans returns the servers
// that a clean command empties.
type stageDriver struct {
	idler
	of      *changeWorker
	servers []*model.Server
	phases  bool
	cleans  func() []int
}

func (k *stageDriver) Start(command string) {
	switch {
	case command != step && k.phases:
		for _, s := range k.cleans() {
			k.servers[s].Evict("k")
		}
	case command != step:
		if v := k.of.world.victim; k.of.missed[v] {
			k.servers[v].Evict("k")
		}
		k.of.missed[k.of.world.victim], k.of.cut = false, false
	case k.phases:
		k.of.enterPhase(k.of.at + 1)
	default:
		k.of.know(k.of.stage + 1)
	}
}

// Commands of a stageDriver of phases.
const (
	cleanRoutes  = "clean routes"
	cleanGutters = "clean gutters"
)

// number returns the server of the pool.
func number(pool string) int {
	n, _ := strconv.Atoi(pool)
	return n
}

// explore explores what can happen, at most limit states.
func (g *gutterChange) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	routers := map[gutterPhase]*route.Router{}
	for phase := asBefore; phase < migrating+gutterPhase(route.NumPhases); phase++ {
		routers[phase] = g.router(t, phase)
	}
	path := g.phases
	if path == nil {
		path = []gutterPhase{asBefore, gutterDelete, gutterRead, gutterTail, asAfter}
	}
	return explore.UpTo(func() *explore.World {
		w := &explore.World{}
		for i := range g.pools {
			server := &model.Server{}
			switch used := slices.Contains(slices.Collect(maps.Values(g.before)), strconv.Itoa(i)); {
			case i == number(g.from):
				server.Put("k", model.Item{Value: before, CAS: initialVersion})
			case g.migrates && path[0] > migrating+gutterPhase(route.MigrationDeleteNew):
				if i == number(g.to) {
					server.Put("k", model.Item{Value: before, CAS: initialVersion}) // it was copied
				}
			case !used, g.migrates && strconv.Itoa(i) != g.before[g.from]:
				server.Put("k", model.Item{Value: forgotten, CAS: initialVersion + 1})
			}
			w.Servers = append(w.Servers, server)
		}
		var middlewares [2]*changeWorker
		for i, commands := range g.clients {
			ack, versions := replica.AckLive, (*plan.Versions)(nil)
			if g.migrates {
				versions = plan.NewVersions(uint64(100*i), 1)
				if !g.live {
					ack = replica.AckAll
				}
			}
			m := &changeWorker{
				gutterWorker: &gutterWorker{cut: g.cut[i]}, world: g, path: path,
				make: func(phase gutterPhase) *driver {
					return drive(t, routers[phase], ack, versions)
				},
			}
			if g.late && i == 1 {
				m.path = []gutterPhase{gutterLate, gutterTail, asAfter}
			}
			if g.joins && i == 1 {
				m.path = []gutterPhase{gutterRead, gutterTail, asAfter}
			}
			m.stage = g.began
			m.enterPhase(0)
			middlewares[i] = m
			var steps []string
			for at := range m.path[1:] {
				if !g.unclean && (m.path[at] == gutterTail && !g.early || m.path[at] == gutterDelete && g.early) {
					steps = append(steps, cleanGutters)
				}
				if (m.path[at] == gutterDelete || m.path[at] == gutterLate) && g.from != g.to {
					steps = append(steps, cleanRoutes)
				}
				steps = append(steps, step)
			}
			if first := path[0] - migrating; g.migrates && !g.unclean &&
				first <= gutterPhase(route.MigrationDeleteNew) {
				at := 0
				if g.cleanLate && first == gutterPhase(route.MigrationWaiting) {
					at = 1
				}
				steps = slices.Insert(steps, at, cleanRoutes)
			}
			stages := []string{step, step, clean, step, step}
			if g.once {
				stages = stages[:4]
			}
			stages = stages[g.began:] // began is away at most
			k := &stageDriver{of: m, servers: w.Servers, phases: true}
			k.cleans = func() (servers []int) {
				if m.path[m.at] == gutterTail || g.early {
					for pool, gutter := range g.after {
						if g.closes(pool) && (pool == g.to) {
							servers = append(servers, number(gutter))
						}
					}
				}
				if gutter := g.after[g.to]; g.migrates && gutter != "" && !g.spared {
					servers = append(servers, number(gutter))
				}
				if m.path[m.at] != gutterTail {
					servers = append(servers, number(g.to))
				}
				return servers
			}
			w.Workers = append(w.Workers,
				&explore.Worker{Middleware: 3 * i, Driver: m, Commands: slices.Clone(commands)},
				&explore.Worker{
					Silent: true, Middleware: 3*i + 1, Driver: &stageDriver{of: m, servers: w.Servers},
					Commands: stages,
				},
				&explore.Worker{Silent: true, Middleware: 3*i + 2, Driver: k, Commands: steps})
		}
		w.May = func(w *explore.World, i int) bool {
			mine, other := middlewares[i/3], middlewares[1-i/3]
			next := w.Workers[i].Commands[0]
			switch i % 3 {
			case 0:
				ready := !g.late || mine.path[mine.at] != gutterLate || g.from == g.to ||
					!slices.Contains(w.Workers[i+2].Commands, cleanRoutes)
				ready = ready && (!g.joins || i == 0 || other.path[other.at] >= gutterRead)
				ready = ready && (!g.live || !mine.cut || mine.stage >= barred && other.stage >= barred)
				ready = ready && (!g.changeFirst || i == 0 || mine.at == len(mine.path)-1)
				return ready && (!mine.waits() || strings.HasPrefix(next, "set") || strings.HasPrefix(next, "delete"))
			case 1:
				switch {
				case g.changeFirst && (middlewares[0].at < len(path)-1 || middlewares[1].at < len(path)-1):
					return false
				case next == clean:
					return true
				case mine.stage == barred:
					return other.stage >= barred
				case mine.stage == away: // all marks are removed
					return !mine.cut && !other.cut && !mine.missed[g.victim] && !other.missed[g.victim]
				case mine.stage == open:
					return other.stage >= open
				}
				return true
			}
			switch {
			case next != step:
				return true
			case g.migrates && slices.Contains(w.Workers[i].Commands, cleanRoutes) &&
				mine.path[mine.at] == migrating+gutterPhase(route.MigrationDeleteNew):
				return false // the new pool is cleaned in time
			case w.Workers[i-2].Running():
				return false // the worker's driver is replaced when no request is in flight
			case g.joins && i/3 == 1:
				return other.path[other.at] >= gutterRead &&
					(mine.path[mine.at] == gutterRead || other.path[other.at] >= gutterTail)
			case g.joins:
				return true
			case !g.late:
				return mine.at < other.at+max(g.apart, 1)
			case i/3 == 0:
				return true
			case mine.path[mine.at] == gutterLate: // it stays in this phase until the others read by the new routes
				return other.path[other.at] >= gutterRead
			}
			return other.path[other.at] >= gutterTail
		}
		return w
	}, limit, explore.Checks{Always: noneReadOlder})
}

// gutterChanges are changes of the gutters of a key.
var gutterChanges = []gutterChange{
	{
		name: "another gutter", pools: 3, before: map[string]string{"0": "1"}, after: map[string]string{"0": "2"},
		from: "0", to: "0",
	},
	{name: "a first gutter", pools: 2, after: map[string]string{"0": "1"}, from: "0", to: "0"},
	{name: "no gutter any more", pools: 2, before: map[string]string{"0": "1"}, from: "0", to: "0"},
	{
		name: "to a pool with another gutter", pools: 4, before: map[string]string{"0": "1", "2": "3"},
		after: map[string]string{"0": "1", "2": "3"}, from: "0", to: "2",
	},
	{
		name: "to a pool with another gutter, whose server fails", pools: 4,
		before: map[string]string{"0": "1", "2": "3"},
		after:  map[string]string{"0": "1", "2": "3"}, from: "0", to: "2", victim: 2,
	},
	{
		name: "to a pool with the same gutter", pools: 3, before: map[string]string{"0": "1", "2": "1"},
		after: map[string]string{"0": "1", "2": "1"}, from: "0", to: "2", victim: 2,
	},
	{
		name: "to the gutter", pools: 2, before: map[string]string{"0": "1"}, after: map[string]string{"0": "1"},
		from: "0", to: "1",
	},
	{
		name: "from the gutter", pools: 2, before: map[string]string{"0": "1"}, after: map[string]string{"0": "1"},
		from: "1", to: "0",
	},
	{
		name: "to a pool that gets the gutter", pools: 3, before: map[string]string{"0": "1"},
		after: map[string]string{"2": "1"}, from: "0", to: "2", victim: 2,
	},
}

// gutteredMigrations are migrations of a pool with a gutter, or to one.
var gutteredMigrations = []gutterChange{
	{name: "from a pool with a gutter", pools: 3, before: map[string]string{"0": "1"}, from: "0", to: "2"},
	{name: "to a pool with a gutter", pools: 3, before: map[string]string{"2": "1"}, from: "0", to: "2", victim: 2},
	{
		name: "to a pool with the same gutter", pools: 3, before: map[string]string{"0": "1", "2": "1"}, from: "0",
		to: "2", victim: 2,
	},
	{
		name: "from a pool with the same gutter", pools: 3, before: map[string]string{"0": "1", "2": "1"}, from: "0",
		to: "2",
	},
	{name: "to the gutter", pools: 2, before: map[string]string{"0": "1"}, from: "0", to: "1"},
}

// gutteredPaths are the phases of them: neighbours, or all.
var gutteredPaths = []struct {
	missed bool
	path   []gutterPhase
}{
	{false, phasesOf(route.MigrationWaiting, route.MigrationDeleteNew)},
	{false, phasesOf(route.MigrationDeleteNew, route.MigrationCopy)},
	{false, phasesOf(route.MigrationCopy, route.MigrationBoth)},
	{false, phasesOf(route.MigrationBoth, route.MigrationDone)},
	{false, phasesOf(route.MigrationWaiting, route.MigrationDeleteNew, route.MigrationCopy, route.MigrationBoth,
		route.MigrationDone)},
	{true, phasesOf(route.MigrationDeleteNew, route.MigrationWarmUp)},
	{true, phasesOf(route.MigrationWarmUp, route.MigrationCopy)},
	{true, phasesOf(route.MigrationCopy, route.MigrationBack)},
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileAPoolWithAGutterMigrates(t *testing.T) {
	computes(t)
	clients, limit := clientsInChange[:1], mostStates/100
	if mctest.Long() {
		clients, limit = clientsInChange, mostStates/20
	}
	sum := newTally(t)
	for _, g := range gutteredMigrations {
		g.migrates, g.once, g.after = true, true, g.before
		for _, p := range gutteredPaths {
			g.missed, g.phases = p.missed, p.path
			for _, g.live = range []bool{false, true} {
				g.cleanLate = !g.live
				for _, g.began = range []stage{shut, away} {
					for _, g.cut = range [][2]bool{{false, false}, {true, false}} {
						for _, g.clients = range clients {
							r, failure := g.explore(t, limit)
							sum.holds(r, failure, "%s, %v, %q, live %t, from stage %d, cut off %v", g.name, g.phases,
								g.clients, g.live, g.began, g.cut)
						}
					}
				}
			}
		}
	}
}

func TestEveryFaultInjectedIntoAMigrationWithGuttersIsFound(t *testing.T) {
	computes(t)
	both, done := route.MigrationBoth, route.MigrationDone
	to := gutteredMigrations[1]
	to.migrates, to.live, to.once, to.after, to.began = true, true, true, to.before, away
	unclean, secret := to, to
	unclean.spared, unclean.phases = true, gutteredPaths[4].path
	unclean.clients = [2][]string{nil, {getKey}}
	secret.secret, secret.phases = true, phasesOf(both, done)
	secret.clients = [2][]string{{setTen, getKey}, {setTwenty}}
	for fault, g := range map[string]gutterChange{
		"a gutter that is not clean": unclean, "writes that do not reach the gutter": secret,
	} {
		if g.secret && !mctest.Long() {
			continue // it takes 200,000 states
		}
		r, failure := g.explore(t, 200_000)
		require.NotNil(t, failure, "%s: %d states", fault, r.States)
		require.ErrorContains(t, failure, "was answered with", fault)
		t.Logf("%s: %d states: %v", fault, r.States, failure)
	}
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileAGutterOrTheKeysOfOneChange(t *testing.T) {
	computes(t)
	clients, cuts, stages, limit := clientsInChange[:1], [][2]bool{{true, false}}, []stage{away}, mostStates/100
	if mctest.Long() {
		limit, clients, cuts, stages = mostStates/4, clientsInChange, [][2]bool{{false, false}, {true, false}},
			[]stage{shut, away}
	}
	sum := newTally(t)
	for _, g := range gutterChanges {
		for _, second := range []string{"runs", "starts late", "joins"} {
			g.late, g.joins = second == "starts late", second == "joins"
			for _, g.began = range stages {
				for _, g.cut = range cuts {
					for _, g.clients = range clients {
						r, failure := g.explore(t, limit)
						sum.holds(r, failure, "%s, %q, the second %s, from stage %d, cut off %v", g.name, g.clients,
							second, g.began, g.cut)
					}
				}
			}
		}
	}
}

func TestEveryFaultInjectedIntoAChangeOfGuttersIsFound(t *testing.T) {
	computes(t)
	both, reads, set := [2][]string{{setTen}, {setTwenty, getKey}}, [2][]string{nil, {getKey}},
		[2][]string{{getKey}, {setTwenty}}
	swapped := [2][]string{both[1], both[0]}
	faults := []struct {
		fault, in string
		clients   [2][]string
		began     stage
		put       func(g *gutterChange)
	}{
		{"a gutter that is not clean", "a first gutter", reads, away, func(g *gutterChange) { g.unclean = true }},
		{
			"a late instance with an unclean gutter", "a first gutter", reads, away,
			func(g *gutterChange) { g.unclean, g.late = true, true },
		},
		{
			"an instance that joins with an unclean gutter", "a first gutter", reads, away,
			func(g *gutterChange) { g.unclean, g.joins = true, true },
		},
		{
			"all at once", "no gutter any more", swapped, away,
			func(g *gutterChange) { g.phases = []gutterPhase{asBefore, asAfter} },
		},
		{
			"a gutter that is cleaned too early", "from the gutter", both, shut,
			func(g *gutterChange) { g.early, g.changeFirst = true, true },
		},
		{
			"two phases apart", "another gutter", swapped, away,
			func(g *gutterChange) { g.phases, g.apart = []gutterPhase{asBefore, gutterTail, asAfter}, 2 },
		},
		{"writes that do not reach gutters", "another gutter", both, away, func(g *gutterChange) { g.secret = true }},
		{
			"writes that do not reach a gutter while the key moves", "to a pool with another gutter", both, away,
			func(g *gutterChange) { g.secret = true },
		},
		{
			"marks that are ignored too early", "no gutter any more",
			[2][]string{{setTen, "delete k\r\n"}, {getKey}},
			away, func(g *gutterChange) { g.hasty, g.cut[0] = true, true },
		},
		{
			"marks that are ignored", "a first gutter", set, barred,
			func(g *gutterChange) { g.blind, g.cut[1] = true, true },
		},
	}
	if !mctest.Long() { // the others take minutes
		faults = faults[:5]
	}
	for _, f := range faults {
		t.Run(f.fault, func(t *testing.T) {
			g := gutterChanges[slices.IndexFunc(gutterChanges, func(g gutterChange) bool { return g.name == f.in })]
			g.clients, g.began, g.once = f.clients, f.began, true
			f.put(&g)
			r, failure := g.explore(t, 100_000)
			require.NotNil(t, failure, "%d states", r.States)
			t.Logf("%d states: %v", r.States, failure)
		})
	}
}
