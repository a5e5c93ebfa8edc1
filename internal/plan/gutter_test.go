package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/plan"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// stage is what a middleware knows about the server.
type stage int

const (
	shut   stage = iota // it is read, and the gutter holds nothing
	barred              // some middleware has marked it
	away                // all middlewares know that it is down
	open                // no mark is left
	again               // away once more, before the items in the gutter have expired
)

// The servers of the world: the pool's server, and its gutter's server.
const (
	ownServer = iota
	gutterServer
	readServer // of the pool for reads, if there is one
)

// gutterWorld is a world with two middlewares, each with a client. They bar a server, whose pool has a gutter, and read
// it again. Each knows this of the other: neither is away before both bar the server, and the server is read again only
// when it is clean.
type gutterWorld struct {
	clients [2][]string
	cut     [2]bool // by middleware: it does not reach the server before that is clean
	bare    bool    // the server has given what it holds at first a cas of its own
	old     bool    // the servers do not support versions
	// reads: reads go to a pool of their own, whose only server is away. It has the same gutter.
	reads bool
	check func(w *explore.World) error

	// Faults put into the protocol.
	mutant  mutant
	hasty   bool // a middleware is away whatever the other one knows
	unclean bool // the server is read before the missed keys are deleted
	secret  bool // writes do not delete the key in the gutter
}

// gutterWorker is the worker of a middleware.
type gutterWorker struct {
	*driver
	stage  stage
	cut    bool // it does not reach the server
	secret bool
}

func (w *gutterWorker) enter(stage stage) {
	w.stage = stage
	s := &w.planner.Servers[ownServer]
	s.Readable = stage == shut || stage == open
	s.Recovers = !s.Readable
	s.Away = stage == away || stage == again
	s.Open = stage != shut && !w.secret
}

func (w *gutterWorker) AppendState(dst []byte) []byte {
	return w.driver.AppendState(fmt.Appendf(dst, "%d %t ", w.stage, w.cut))
}

// watcher takes a middleware through the stages, and acts as its prober.
type watcher struct {
	idler
	of      *gutterWorker
	servers []*model.Server
	unclean bool
}

func (s *watcher) Start(command string) {
	if command == step {
		s.of.enter(s.of.stage + 1)
		return
	}
	if s.of.missed[ownServer] && !s.unclean {
		s.servers[ownServer].Evict("k")
	}
	s.of.missed[ownServer], s.of.cut = false, false
}

// withGutter returns the router of a pool with one server, and its gutter with one server.
func withGutter(t testing.TB) *route.Router {
	t.Helper()
	return guttered(t, "own")
}

// guttered is withGutter. Reads go to the pool reads; "copies" is a further pool, which has the same gutter.
func guttered(t testing.TB, reads string) *route.Router {
	t.Helper()
	pool := func(name string, o route.Options) route.Pool {
		return route.Pool{Name: name, Servers: []route.Server{{Name: name + "-1"}}, Options: o}
	}
	r, err := route.NewPools([]route.Pool{
		pool("own", route.Options{Gutter: "spare", GutterTTL: 60}),
		pool("spare", route.Options{Gutter: "copies", GutterTTL: 60}), // which matters for its own keys alone
		pool("copies", route.Options{Gutter: "spare", GutterTTL: 60}),
	}, route.Routes{Default: "own", Reads: reads})
	require.NoError(t, err)
	return r
}

// explore explores what can happen, at most limit states.
func (m *gutterWorld) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	router := withGutter(t)
	if m.reads {
		router = guttered(t, "copies")
	}
	return explore.UpTo(func() *explore.World {
		w := &explore.World{Servers: []*model.Server{{}, {}, {}}}
		if m.bare { // the gutter gives the same cas to the first item that it stores
			w.Servers[ownServer].Do(&strict.Request{Line: "set k 0 0 1", Data: before})
		} else {
			w.Servers[ownServer].Put("k", model.Item{Value: before, CAS: initialVersion})
		}
		var middlewares [2]*gutterWorker
		for i, commands := range m.clients {
			worker := &gutterWorker{driver: driveWith(t, router, replica.AckLive, plan.NewVersions(uint64(100*i), 1),
				func(o *plan.Options) {
					for k := range o.Pools {
						o.Pools[k].Versions, o.Pools[k].Several = !m.old, false
					}
				}), cut: m.cut[i], secret: m.secret}
			worker.mutant = m.mutant
			worker.unreached = func(s int) bool { return worker.cut && s == ownServer }
			worker.planner.Servers[readServer] = plan.Server{Away: true, Open: true}
			worker.enter(shut)
			middlewares[i] = worker
			w.Workers = append(w.Workers,
				member(i, worker, commands, &watcher{of: worker, servers: w.Servers, unclean: m.unclean},
					step, step, clean, step, step)...)
		}
		w.May = func(w *explore.World, i int) bool {
			mine, other := middlewares[i/2], middlewares[1-i/2]
			next := w.Workers[i].Commands[0]
			switch {
			case i%2 == 0: // a read waits until the server is clean, or away
				return m.reads || mine.stage != barred || strings.HasPrefix(next, "set") ||
					strings.HasPrefix(next, "delete")
			case next == clean:
				return true
			case mine.stage == barred:
				return m.hasty || other.stage >= barred
			case mine.stage == away: // all marks are removed
				return !mine.cut && !other.cut && !mine.missed[ownServer] && !other.missed[ownServer]
			case mine.stage == open:
				return other.stage >= open
			}
			return true
		}
		return w
	}, limit, explore.Checks{Always: m.check})
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileAGutterStandsIn(t *testing.T) {
	computes(t)
	clients, cuts, limit := clientsInChange[:2], [][2]bool{{true, false}}, mostStates/2
	if mctest.Long() {
		limit, clients, cuts = mostStates, clientsInChange,
			[][2]bool{{false, false}, {true, false}, {false, true}, {true, true}}
	}
	sum := newTally(t)
	for _, cut := range cuts {
		for _, c := range clients {
			for _, reads := range []bool{false, true} {
				m := gutterWorld{clients: c, cut: cut, reads: reads, check: noneReadOlder}
				r, failure := m.explore(t, limit)
				sum.holds(r, failure, "%q, cut off %v, reads %t", c, cut, reads)
			}
		}
	}
}

func TestEveryFaultInjectedIntoTheUseOfAGutterIsFound(t *testing.T) {
	computes(t)
	set, other, get := "set k 0 0 2\r\n10\r\n", "set k 0 0 2\r\n20\r\n", "get k\r\n"
	finds(t, map[string]gutterWorld{
		"away before all know": {
			hasty: true, cut: [2]bool{true, false},
			clients: [2][]string{{set}, {get}},
		},
		"read before it is clean": {
			unclean: true, cut: [2]bool{true, false},
			clients: [2][]string{{set}, {get}},
		},
		"writes that the gutter of reads never had": {
			secret: true, reads: true, clients: [2][]string{{set}, {other, get}},
		},
		"writes that the gutter never had": {secret: true, clients: [2][]string{{set}, {other, get}}},
		string(onlyInTheGutter):            {mutant: onlyInTheGutter, clients: [2][]string{{set}, {get}}},
	}, func(t *testing.T, _ string, m gutterWorld) (explore.Result, *explore.Failure) {
		m.check = noneReadOlder
		return m.explore(t, 1_000_000)
	})
}

// The server and its gutter count their items alike, so a cas of one may be that of another item in the other.
func TestATokenFromOneSideOfAGutterWinsOverNothingOnTheOther(t *testing.T) {
	computes(t)
	set, incr, sum := "set k 0 0 2\r\n10\r\n", "incr k 1\r\n", newTally(t)
	for _, m := range []gutterWorld{
		{clients: [2][]string{{gets, cas}, {set}}},
		{clients: [2][]string{{gets, cas}, {set}}, bare: true},
		{clients: [2][]string{{gets, cas}, {"set k 0 0 1\r\n8\r\n", incr}}, bare: true},
		{clients: [2][]string{{"set k 0 0 1\r\n8\r\n", gets, cas}, {set}}},
		{old: true, clients: [2][]string{{gets, cas}, {set}}, bare: true},
		{old: true, clients: [2][]string{{"set k 0 0 1\r\n8\r\n", gets, cas}, {set}}},
	} {
		limit, cuts := mostStates/2, [][2]bool{{false, false}}
		if mctest.Long() {
			limit, cuts = 5*mostStates, [][2]bool{{false, false}, {true, false}, {false, true}}
		}
		for _, m.cut = range cuts {
			m.check = tokensHold
			r, failure := m.explore(t, limit)
			sum.holds(r, failure, "%q, bare %t", m.clients, m.bare)
		}
	}
}

// asked returns what the servers are sent for a command while the pool's only server is in that stage.
func asked(t *testing.T, s stage, command string) (own, gutter string) {
	t.Helper()
	w := &gutterWorker{driver: drive(t, withGutter(t), replica.AckLive, nil)}
	w.enter(s)
	w.Start(command)
	return w.Out(ownServer), w.Out(gutterServer)
}

func TestEachStageOfAGutterSendsEachCommandToTheRightServers(t *testing.T) {
	for _, c := range []struct {
		stage       stage
		command     string
		own, gutter string
	}{
		{shut, "get k\r\n", "get k\r\n", ""},
		{shut, "set k 0 0 1\r\n1\r\n", "set k 0 0 1\r\n1\r\n", ""},
		{open, "get k\r\n", "get k\r\n", ""},
		{open, "set k 0 0 1\r\n1\r\n", "set k 0 0 1\r\n1\r\n", "delete k\r\n"},
		{open, "incr k 1\r\n", "incr k 1\r\n", "delete k\r\n"},
		{open, "delete k\r\n", "delete k\r\n", "delete k\r\n"},
		{open, "cas k 0 0 1 7\r\n1\r\n", "cas k 0 0 1 7\r\n1\r\n", ""}, // the deletion follows
		{away, "get k\r\n", "", "get k\r\n"},
		{away, "get k l\r\n", "", "get k l\r\n"},
		{away, "gat 0 k l\r\n", "", "gat 60 k l\r\n"},
		{away, "mg k v\r\n", "", "mg k v\r\n"},
		{away, "set k 0 0 1\r\n1\r\n", "delete k\r\n", "set k 0 60 1\r\n1\r\n"},
		{away, "ms k 1 q\r\n1\r\n", "delete k\r\n", "ms k 1 T60\r\n1\r\n"},
		{away, "incr k 1\r\n", "delete k\r\n", "incr k 1\r\n"},
		{away, "touch k 0\r\n", "delete k\r\n", "touch k 60\r\n"},
		{away, "delete k\r\n", "delete k\r\n", "delete k\r\n"},
		// a token from the other side
		{away, "cas k 0 0 1 7\r\n1\r\n", "", "cas k 0 60 1 4611686018427387903\r\n1\r\n"},
		{away, "cas k 0 0 1 2305843009213693959\r\n1\r\n", "", "cas k 0 60 1 7\r\n1\r\n"},
		{away, "ms k 1 C7 q\r\n1\r\n", "", "ms k 1 C4611686018427387903 T60\r\n1\r\n"},
		{away, "ms k 1 C2305843009213693959 c\r\n1\r\n", "", "ms k 1 C7 c T60\r\n1\r\n"},
	} {
		own, gutter := asked(t, c.stage, c.command)
		assert.Equal(t, [2]string{c.own, c.gutter}, [2]string{own, gutter}, "stage %d: %q", c.stage, c.command)
	}
}

// It is the gutter's answer, whether the pool's server is reachable or not.
func TestAWriteInTheGutterIsAnsweredByTheGutter(t *testing.T) {
	for _, ack := range []replica.Ack{replica.AckAll, replica.AckLive, replica.AckAny} {
		w := &gutterWorker{driver: drive(t, withGutter(t), ack, nil)}
		w.enter(away)
		w.Start("set k 0 0 1\r\n1\r\n")
		w.Lost(ownServer)
		w.Reply(gutterServer, "STORED\r\n")
		answer, done := w.Answer()
		require.True(t, done)
		assert.Equal(t, "STORED\r\n", answer, ack)
		assert.True(t, w.missed[ownServer])

		w.enter(open)
		w.Start("set k 0 0 1\r\n1\r\n")
		w.Reply(ownServer, "STORED\r\n")
		w.Lost(gutterServer)
		answer, done = w.Answer()
		require.True(t, done)
		assert.Equal(t, ack == replica.AckAll, strings.HasPrefix(answer, "SERVER_ERROR server-2: "), "%s: %q", ack,
			answer)
		assert.True(t, w.missed[gutterServer])
	}
}

func TestTheErrorOfAnUndecidedWriteNamesTheServerThatHasFailedOrIsBack(t *testing.T) {
	const own, next = ownServer, gutterServer
	agreed := func(o *plan.Options) { o.Pools[0].Agreed = true }
	pair := newRouter(t, 2, route.ReadPrimary)
	first := pair.Primary([]byte("k"))
	for name, c := range map[string]struct {
		router         *route.Router
		failed, second int
		replaced       bool // at first
		since          int64
		back           bool // while the second one decides
	}{
		"it has failed since the request came, and its gutter stands in": {withGutter(t), own, next, true, 1, false},
		"it is back while its gutter decides":                            {withGutter(t), own, next, true, 0, true},
		"it is back while another replica decides":                       {pair, first, 1 - first, true, 0, true},
		"it fails while it decides":                                      {pair, first, 1 - first, false, 0, false},
	} {
		d := driveWith(t, c.router, replica.AckLive, plan.NewVersions(0, 1), agreed)
		failed, second := &d.planner.Servers[c.failed], &d.planner.Servers[c.second]
		second.Decides = true
		set := func(replaced bool) {
			failed.Readable, failed.Decides = !replaced, !replaced
			failed.Replaced, failed.Away, failed.Open = replaced, replaced, true
		}
		set(c.replaced)
		failed.Since = c.since
		d.Start("incr k 1\r\n")
		failed.Turn++
		if c.back {
			set(false)
		}
		for _, s := range []int{c.failed, c.second} {
			if len(d.waiting[s]) > 0 {
				d.Reply(s, "VA 1 kk\r\n2\r\nVA 1 f0 t-1 c4611686018427387905 kk\r\n2\r\n")
			}
		}
		answer, done := d.Answer()
		require.True(t, done, name)
		assert.Equal(t, d.planner.TextUndecided(c.failed), answer, name)
	}
}

func TestNoValueOfAGutterIsKeptForReaders(t *testing.T) {
	for s, server := range map[stage]int{shut: ownServer, open: ownServer, away: -1} {
		w := &gutterWorker{driver: drive(t, withGutter(t), replica.AckLive, nil)}
		w.enter(s)
		w.Start("get k\r\n")
		assert.Equal(t, server, w.planner.Asked(0), "stage %d", s)
	}
}

func TestAGutterWithoutVersionsShowsTokensOfItsOwn(t *testing.T) {
	for _, c := range []struct{ command, reply, want string }{
		{"gets k\r\n", "VALUE k 5 1 7\r\nx\r\nEND\r\n", "VALUE k 5 1 2305843009213693959\r\nx\r\nEND\r\n"},
		{
			"gets k l\r\n", "VALUE k 5 1 7\r\nx\r\nVALUE l 0 1 8\r\ny\r\nEND\r\n",
			"VALUE k 5 1 2305843009213693959\r\nx\r\nVALUE l 0 1 2305843009213693960\r\ny\r\nEND\r\n",
		},
		{"gats 0 k\r\n", "VALUE k 5 1 7\r\nx\r\nEND\r\n", "VALUE k 5 1 2305843009213693959\r\nx\r\nEND\r\n"},
		{"mg k c v\r\n", "VA 1 c7\r\nx\r\n", "VA 1 c2305843009213693959\r\nx\r\n"},
		{"mg k c\r\n", "EN\r\n", "EN\r\n"},
		{"get k\r\n", "VALUE k 5 1\r\nx\r\nEND\r\n", "VALUE k 5 1\r\nx\r\nEND\r\n"},
	} {
		w := &gutterWorker{driver: drive(t, withGutter(t), replica.AckLive, nil)}
		w.enter(away)
		w.Start(c.command)
		w.Reply(gutterServer, c.reply)
		answer, done := w.Answer()
		assert.True(t, done)
		assert.Equal(t, c.want, answer)
	}
}
