package route

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// The tables must hold by themselves: middlewares in two neighbouring rows, of any of the changes that go on, never
// harm each other. One reads only where the other writes or deletes, and if both let a server decide, it is the same
// one. The model checks of package plan show that this suffices.

// known is what a middleware knows of a server.
const (
	knownUp   = iota // it is read, and the gutter holds nothing
	knownOpen        // the gutter may hold keys of it
	knownAway        // nobody reads it
	knownStates
)

// position is what one middleware knows: its router, and the states of the servers with a gutter.
type position struct {
	in    *Router
	known []int // by server; nil: no server has a gutter
}

func (p position) states(s int) (away, open bool) {
	if s >= len(p.known) {
		return false, false
	}
	return p.known[s] == knownAway, p.known[s] != knownUp
}

// harm says how middlewares in positions p and q harm each other when they serve key; "": not at all. Servers are known
// by name.
func harm(p, q position, key []byte) string {
	a, deciderOfP := p.in.Holders(key, p.states, nil)
	b, deciderOfQ := q.in.Holders(key, q.states, nil)
	name := func(at position, h Holder) string { return at.in.Servers()[h.Server].Name }
	reached := map[string]bool{}
	for _, h := range b {
		reached[name(q, h)] = h.Roles&(Store|Drop) != 0
	}
	for _, h := range a {
		if h.Roles&(Read|Look) != 0 && !reached[name(p, h)] {
			return fmt.Sprintf("reads %s, which the other neither writes nor empties", name(p, h))
		}
	}
	if p.known != nil {
		return "" // a gutter's item decides while a server fails or returns
	}
	decides := func(at position, holders []Holder, only Decider, readable map[string]bool) string {
		first := -1
		for _, h := range holders {
			if h.Roles.Has(Decide) && (first < 0 || readable[name(at, h)]) {
				if first = int(h.Server); readable[name(at, h)] {
					break
				}
			}
		}
		if first < 0 || !only.Permits(first) {
			return ""
		}
		return at.in.Servers()[first].Name
	}
	var names []string
	for _, at := range []struct {
		position
		holders []Holder
	}{{p, a}, {q, b}} {
		for _, h := range at.holders {
			if n := name(at.position, h); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for up := range 1 << len(names) {
		readable := map[string]bool{}
		for i, n := range names {
			readable[n] = up>>i&1 == 1
		}
		x, y := decides(p, a, deciderOfP, readable), decides(q, b, deciderOfQ, readable)
		if x != y && readable[x] && readable[y] {
			return fmt.Sprintf("lets %s decide, and the other %s", x, y)
		}
	}
	return ""
}

// neighbours returns the first harm between middlewares at two neighbouring places of a course, in any of its
// dimensions. at returns the router at a place.
func neighbours(lengths [2]int, apart int, keys int, known [][]int, at func(i, j int) *Router) string {
	if known == nil {
		known = [][]int{nil}
	}
	for i := range lengths[0] * lengths[1] {
		for j := range lengths[0] * lengths[1] {
			x, y := [2]int{i % lengths[0], i / lengths[0]}, [2]int{j % lengths[0], j / lengths[0]}
			if max(x[0]-y[0], y[0]-x[0], x[1]-y[1], y[1]-x[1]) > apart {
				continue
			}
			for _, k := range known {
				for _, l := range known {
					if !compatible(k, l) {
						continue
					}
					for n := range keys {
						key := fmt.Append(nil, n)
						if why := harm(position{at(x[0], x[1]), k}, position{at(y[0], y[1]), l}, key); why != "" {
							return fmt.Sprintf("in %v (knowing %v) with another in %v (%v): %s of key %s", x, k, y, l,
								why, key)
						}
					}
				}
			}
		}
	}
	return ""
}

// compatible reports whether two middlewares can know k and l of the servers: away and up exclude each other.
func compatible(k, l []int) bool {
	for i := range k {
		if d := k[i] - l[i]; d > 1 || d < -1 {
			return false
		}
	}
	return true
}

// everything returns all that can be known of n servers.
func everything(n int) (known [][]int) {
	total := 1
	for range n {
		total *= knownStates
	}
	for i := range total {
		k := make([]int, n)
		for s := range k {
			k[s] = i % knownStates
			i /= knownStates
		}
		known = append(known, k)
	}
	return known
}

// world has what a course needs: a pool "a" whose servers change, pools "b" and "spare", all on a ring.
type world struct {
	ring     RingKind
	replicas [2]int
	gutters  bool
	copies   bool // values are copied while the servers of pool a change
}

func (w world) router(t *testing.T, name string, replicas int, servers ...int) *Router {
	var list []Server
	for _, s := range servers {
		list = append(list, Server{Name: fmt.Sprint(name, s)})
	}
	r, err := New(list, Options{Replicas: replicas, Ring: w.ring, Hash: hashOf(w.ring)})
	require.NoError(t, err)
	return r
}

// pools returns the router of all pools, with pool a in a phase of the change of its servers, in a phase of the change
// of the routes of all keys from a to b.
func (w world) pools(t *testing.T, own, routes Phase, done bool) *Router {
	r := w.replicas
	a := Change(w.router(t, "a", r[0], 0, 1, 2), w.router(t, "a", r[0], 3, 2, 1), own)
	if own == Settled && !done {
		a = w.router(t, "a", r[0], 0, 1, 2)
	}
	b, spare := w.router(t, "b", r[1], 0, 1), w.router(t, "s", 1, 0, 1)
	if w.gutters {
		a.pools[0].wanted = Standin{"spare", 60}
	}
	p, err := Compose([]string{"a", "b", "spare"}, []*Router{a, b, spare}, Routes{Default: "b"})
	require.NoError(t, err)
	n, err := p.Reroute(Routes{Default: "a"}, routes)
	require.NoError(t, err)
	return n
}

func worlds() (all []world) {
	for _, ring := range rings {
		for _, replicas := range [][2]int{{1, 1}, {2, 1}, {2, 2}, {3, 1}} {
			all = append(all, world{ring: ring, replicas: replicas})
		}
	}
	return all
}

var (
	changePhases  = []Phase{Settled, DeleteNew, ReadNew, Settled}
	copyingPhases = []Phase{Settled, DeleteNew, Copy, HandOver, ReadNew, Settled}
)

// phases are those of a change of servers.
func (w world) phases() []Phase {
	if w.copies {
		return copyingPhases
	}
	return changePhases
}

// course returns the routers of a change of servers with these of its phases, at the same time as a change of routes.
func (w world) course(t *testing.T, own, routes []int) (lengths [2]int, at func(i, j int) *Router) {
	all := map[[2]int]*Router{}
	for i, o := range own {
		for j, r := range routes {
			if r == 0 { // the routes of before
				p := w.pools(t, w.phases()[o], DeleteNew, o == len(w.phases())-1)
				alone := []*Router{p.pools[0].Alone(), p.pools[1].Alone(), p.pools[2].Alone()}
				before, err := Compose(p.table.names, alone, Routes{Default: "a"})
				require.NoError(t, err)
				all[[2]int{i, j}] = before
				continue
			}
			all[[2]int{i, j}] = w.pools(t, w.phases()[o], changePhases[r], o == len(w.phases())-1)
		}
	}
	return [2]int{len(own), len(routes)}, func(i, j int) *Router { return all[[2]int{i, j}] }
}

func TestNeighboursInAChangeOfServersAndOfRoutesDoNotHarmEachOther(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	all := []int{0, 1, 2, 3}
	for _, w := range worlds() {
		lengths, at := w.course(t, all, all)
		require.Empty(t, neighbours(lengths, 1, 30, nil, at), "%+v", w)
		w.copies = true
		lengths, at = w.course(t, []int{0, 1, 2, 3, 4, 5}, all)
		require.Empty(t, neighbours(lengths, 1, 30, nil, at), "%+v", w)
	}
}

// A middleware that starts during a change of routes does not know the phase of the others. It may read what others do
// not write yet: that is empty.
func TestALateMiddlewareAndOneInAnyPhaseDoNotHarmEachOther(t *testing.T) {
	for _, w := range worlds() {
		lengths, at := w.course(t, []int{0}, []int{0, 1, 2, 3})
		late := w.pools(t, Settled, Late, false)
		for phase := range lengths[1] {
			for n := range 30 {
				key, other, late := fmt.Append(nil, n), position{in: at(0, phase)}, position{in: late}
				require.Empty(t, harm(other, late, key), "%+v", w)
				if phase > 0 {
					require.Empty(t, harm(late, other, key), "%+v", w)
				}
			}
		}
	}
}

func TestNeighboursInAChangeOfServersWithAGutterDoNotHarmEachOther(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	w := world{ring: RingRendezvous, replicas: [2]int{2, 1}, gutters: true}
	lengths, at := w.course(t, []int{0, 1, 2, 3}, []int{0, 1, 2})
	for i := range lengths[0] {
		for j := range lengths[1] {
			servers := len(at(i, j).pools[0].servers)
			here := func(int, int) *Router { return at(i, j) }
			require.Empty(t, neighbours([2]int{1, 1}, 1, 6, everything(servers), here))
		}
	}
}

// moving returns the routers of a migration of pool a, or of a warm-up, in these phases. gutters are those of a and b.
func (w world) moving(t *testing.T, m Move, gutters [2]string, phases ...Phase) (lengths [2]int,
	at func(i, _ int) *Router,
) {
	b := w.router(t, "b", w.replicas[1], 0, 1)
	a := w.router(t, "a", w.replicas[0], 0, 1, 2)
	spare, other := w.router(t, "s", 1, 0, 1), w.router(t, "o", 1, 0)
	a.pools[0].wanted, b.pools[0].wanted = Standin{gutters[0], 60}, Standin{gutters[1], 60}
	pools, err := Compose([]string{"a", "b", "spare", "other"}, []*Router{a, b, spare, other}, Routes{Default: "a"})
	require.NoError(t, err)
	var all []*Router
	for _, m.Phase = range phases {
		r := pools
		if m.Phase != MigrationBack {
			r = pools.Migrate([]Move{m})
		}
		all = append(all, r)
	}
	return [2]int{len(all), 1}, func(i, _ int) *Router { return all[i] }
}

var (
	migrationCourse = []Phase{
		MigrationWaiting, MigrationDeleteNew, MigrationCopy, MigrationBoth, MigrationDone,
	}
	warmUpCourse = []Phase{
		MigrationWaiting, MigrationDeleteNew, MigrationWarmUp, MigrationCopy, MigrationBoth, MigrationDone,
	}
	returnCourse = []Phase{
		MigrationWaiting, MigrationDeleteNew, MigrationWarmUp, MigrationCopy, MigrationBack,
	}
	fillCourse = []Phase{
		MigrationWaiting, MigrationUndecided, MigrationWarmUp, MigrationCopy, MigrationUndecided, MigrationDone,
	}
	migrates = Move{From: 0, To: 1}
	warmsUp  = Move{From: 0, To: 1, WarmsUp: true}
	isFilled = Move{From: 0, To: 0, WarmsUp: true, Cold: "a0,a2"}
)

func TestNeighboursInAMigrationDoNotHarmEachOther(t *testing.T) {
	for _, w := range worlds() {
		for _, c := range []struct {
			move   Move
			phases []Phase
		}{{migrates, migrationCourse}, {warmsUp, warmUpCourse}, {warmsUp, returnCourse}, {isFilled, fillCourse}} {
			lengths, at := w.moving(t, c.move, [2]string{}, c.phases...)
			require.Empty(t, neighbours(lengths, 1, 30, nil, at), "%+v, %+v", w, c.move)
		}
	}
}

func TestNeighboursInAMigrationWithGuttersDoNotHarmEachOther(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	w := world{ring: RingRendezvous, replicas: [2]int{2, 1}}
	for _, gutters := range [][2]string{
		{"spare", ""},
		{"", "spare"},
		{"spare", "other"},
		{"spare", "spare"},
		{"b", ""},
	} {
		for _, c := range []struct {
			move   Move
			phases []Phase
		}{{migrates, migrationCourse}, {warmsUp, warmUpCourse}, {warmsUp, returnCourse}, {isFilled, fillCourse}} {
			lengths, at := w.moving(t, c.move, gutters, c.phases...)
			require.Empty(t, neighbours(lengths, 1, 2, everything(5), at), "%v, %+v", gutters, c.move)
		}
	}
}

func TestEveryFaultInjectedIntoTheTablesIsFound(t *testing.T) {
	w := world{ring: RingRendezvous, replicas: [2]int{2, 2}}
	change := func(own []int, routes []int, apart int) string {
		lengths, at := w.course(t, own, routes)
		return neighbours(lengths, apart, 30, nil, at)
	}
	migration := func(m Move, apart int, phases ...Phase) string {
		lengths, at := w.moving(t, m, [2]string{}, phases...)
		return neighbours(lengths, apart, 30, nil, at)
	}
	without := func(phases []Phase, phase Phase) []Phase {
		return slices.DeleteFunc(slices.Clone(phases), func(p Phase) bool { return p == phase })
	}
	planted := func(row *Row, fault Row, find func() string) string {
		right := *row
		defer func() { *row = right }()
		*row = fault
		return find()
	}
	servers := func() string { return change([]int{0, 1, 2, 3}, []int{0}, 1) }
	filled := func() string { return migration(isFilled, 1, fillCourse...) }
	w.gutters = true
	_, guttered := w.course(t, []int{0}, []int{0})
	gutter, allAway := guttered(0, 0), []int{knownAway, knownAway, knownAway}
	w.gutters = false
	for fault, why := range map[string]string{
		"servers without delete-new":   change([]int{0, 2, 3}, []int{0}, 1),
		"servers without read-new":     change([]int{0, 1, 3}, []int{0}, 1),
		"routes without delete-new":    change([]int{0}, []int{0, 2, 3}, 1),
		"routes without read-new":      change([]int{0}, []int{0, 1, 3}, 1),
		"two phases apart":             change([]int{0, 1, 2, 3}, []int{0}, 2),
		"delete-new decides":           planted(&changeRows[DeleteNew], Row{Old: settled, New: Drop}, servers),
		"read-new does not delete":     planted(&changeRows[ReadNew], Row{New: settled}, servers),
		"a migration without both":     migration(migrates, 1, without(migrationCourse, MigrationBoth)...),
		"a warm-up without delete-new": migration(warmsUp, 1, without(warmUpCourse, MigrationDeleteNew)...),
		"a warm-up without copy":       migration(warmsUp, 1, without(returnCourse, MigrationCopy)...),
		"a fill without undecided":     migration(isFilled, 1, without(fillCourse, MigrationUndecided)...),
		"undecided decides":            planted(&fillRows[MigrationUndecided], fillRows[MigrationCopy], filled),
		"away while another does not know": harm(position{gutter, allAway}, position{gutter, make([]int, 3)},
			[]byte("k")),
	} {
		require.NotEmpty(t, why, fault)
		t.Log(fault, ": ", why)
	}
}

func TestOneOfAKeysServersIsFilledFromTheOthers(t *testing.T) {
	servers := serversOf("b", 5)
	pools := []Pool{
		{Name: "a", Servers: serversOf("a", 2)},
		{Name: "b", Servers: servers, Options: Options{Replicas: 2}},
	}
	plain, err := NewPools(pools, Routes{Default: "b"})
	require.NoError(t, err)
	cold := []int{2, 5} // b-0 and b-3
	seen := map[string]bool{}
	for _, phase := range []Phase{MigrationUndecided, MigrationWarmUp, MigrationCopy, MigrationDone} {
		r := plain.Migrate([]Move{{From: 1, To: 1, Phase: phase, WarmsUp: true, Cold: "b-0,b-3"}})
		for i := range 200 {
			key := fmt.Appendf(nil, "key-%d", i)
			in, holders := r.In(key), plain.Replicas(key, nil)
			first, second := slices.Contains(cold, holders[0]), slices.Contains(cold, holders[1])
			divided := first != second && phase != MigrationDone
			seen[fmt.Sprint(first, second)] = true
			var after []int
			readers := holders
			if divided {
				readers, after = holders[:1], holders[1:]
				if first {
					readers, after = after, readers
				}
			}
			require.Equal(t, holders, r.Replicas(key, nil), "%s %s", phase, key)
			require.Equal(t, readers, r.Readers(key, nil))
			require.Equal(t, after, in.With(After, 0, key, nil))
			require.Equal(t, readers[0], r.Primary(key))
			require.Empty(t, r.With(Drop, 0, key, nil))
			require.True(t, r.Holds(servers[holders[1]-2].Name, key))
			others, filled := plain.Pools()[1].Alone().Divide("b-0,b-3")
			none := len(filled.Replicas(key, nil)) == 0 && slices.Contains(cold, others.Primary(key)+2)
			require.Equal(t, first && second, none)
		}
		for s := range 7 {
			require.Equal(t, phase == MigrationWarmUp && slices.Contains(cold, s), r.WarmsUpServer(s))
		}
	}
	require.Len(t, seen, 4, "%v", seen)
}
