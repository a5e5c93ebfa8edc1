package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

// placementChange is a world with two middlewares, each with a client, that go through the phases of a change of
// placement. All that they know of each other is that they are at most one phase apart.
type placementChange struct {
	name     string
	from, to []int // servers
	replicas int   // 0: all
	single   bool  // items have no versions
	empty    bool  // no server holds the key at first
	clients  [2][]string
	// first and last are the stages between which the middlewares are; last 0: the last.
	first, last int
	// late: the second middleware starts at any moment, and does not know which phase the other is in.
	late bool
	// copies: the phases are copyPhases, and a worker copies the key while both middlewares are in phase copy. Neither
	// enters the next phase before that is done.
	copies bool
	// copied is what new holders hold at first instead of an old value; "": nothing.
	copied string
	// between returns the router in a phase of another kind of change than from from to to, and after is the router
	// after that change; see rerouted.
	between func(route.Phase) *route.Router
	after   *route.Router

	// Faults put into the protocol.
	phases  []route.Phase // instead of the right ones
	apart   int           // phases apart, instead of 1
	unclean bool          // the old values of new holders are not deleted
	hasty   bool          // the key is copied while only one middleware is in phase copy
	fault   sweep.Transfer
}

// Commands of the worker that takes a middleware through the phases.
const (
	step  = "step"
	clean = "clean"
)

var (
	phasesInOrder = []route.Phase{route.Settled, route.DeleteNew, route.ReadNew}
	copyPhases    = []route.Phase{route.Settled, route.DeleteNew, route.Copy, route.HandOver, route.ReadNew}
	latePhases    = []route.Phase{route.Late}
)

// phased is the worker of a middleware. Its driver is replaced in each phase.
type phased struct {
	*driver
	at    []int // by server of the world: its index in the phase's router; -1: it is not in there
	stage int   // number of steps that it has made
	make  func(stage int) (*driver, []int)
}

func (p *phased) enter(stage int) {
	p.stage = stage
	p.driver, p.at = p.make(stage)
}

func (p *phased) Out(server int) string {
	if p.at[server] < 0 {
		return ""
	}
	return p.driver.Out(p.at[server])
}

func (p *phased) Reply(server int, reply string) { p.driver.Reply(p.at[server], reply) }

func (p *phased) AppendState(dst []byte) []byte {
	return p.driver.AppendState(strconv.AppendInt(dst, int64(p.stage), 10))
}

// member returns the workers of the i-th middleware: that of a client, and one that takes it through its course.
func member(i int, client explore.Driver, commands []string, course explore.Driver, steps ...string) []*explore.Worker {
	return []*explore.Worker{
		{Middleware: 2 * i, Driver: client, Commands: slices.Clone(commands)},
		{Silent: true, Middleware: 2*i + 1, Driver: course, Commands: steps},
	}
}

// idler is a driver that sends nothing to servers.
type idler struct{}

func (idler) Locks(string) ([]string, bool) { return nil, false }
func (idler) Reply(int, string)             {}
func (idler) Lost(int)                      {}
func (idler) Out(int) string                { return "" }
func (idler) Answer() (string, bool)        { return "", true }
func (idler) Busy() bool                    { return false }
func (idler) AppendState(dst []byte) []byte { return dst }

// stepper takes a middleware through the phases, and deletes what new holders hold.
type stepper struct {
	idler
	of      *phased
	servers []*model.Server // all
	gains   []int
}

func (s *stepper) Start(command string) {
	if command == step {
		s.of.enter(s.of.stage + 1)
		return
	}
	for _, server := range s.gains {
		s.servers[server].Evict("k")
	}
}

// routers returns the placements before and after the change.
func (m *placementChange) routers(t *testing.T) (from, to *route.Router) {
	placed := func(servers []int) *route.Router {
		var list []route.Server
		for _, s := range servers {
			list = append(list, route.Server{Name: fmt.Sprintf("server-%d", s)})
		}
		r, err := route.New(list, route.Options{Replicas: m.replicas, Read: route.ReadPrimary})
		require.NoError(t, err)
		return r
	}
	return placed(m.from), placed(m.to)
}

// holders returns the servers of the world that hold the key according to r.
func holders(r *route.Router) (servers []int) {
	for _, s := range r.Replicas([]byte("k"), nil) {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.Servers()[s].Name, "server-"))
		servers = append(servers, n)
	}
	return servers
}

const (
	forgotten = "1" // what new holders held before
	before    = "5" // what old holders hold
)

// servers returns the servers of the world before the change from the placement from.
func (m *placementChange) servers(from *route.Router) (servers []*model.Server) {
	for s := range slices.Max(append(slices.Clone(m.from), m.to...)) + 1 {
		server := &model.Server{}
		switch {
		case m.empty:
		case slices.Contains(holders(from), s), m.copied == before:
			server.Put("k", model.Item{Value: before, CAS: initialVersion})
		case m.first > 0:
		default:
			server.Put("k", model.Item{Value: forgotten, CAS: initialVersion + 1})
		}
		servers = append(servers, server)
	}
	return servers
}

// gained returns the servers of the world that hold the key according to to, but not according to from.
func gained(from, to *route.Router) (gains []int) {
	for _, s := range holders(to) {
		if !slices.Contains(holders(from), s) {
			gains = append(gains, s)
		}
	}
	return gains
}

// indexes returns, by server of a world with that many, its index in r; -1: it is not in there.
func indexes(r *route.Router, servers int) []int {
	at := make([]int, servers)
	for s := range at {
		at[s] = slices.IndexFunc(r.Servers(), func(o route.Server) bool {
			return o.Name == fmt.Sprintf("server-%d", s)
		})
	}
	return at
}

// explore explores what can happen, at most limit states.
func (m *placementChange) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	from, to := m.routers(t)
	between := func(phase route.Phase) *route.Router { return route.Change(from, to, phase) }
	after := to
	if m.between != nil {
		between, after = m.between, m.after
	}
	apart, gains, copying := max(m.apart, 1), gained(from, to), slices.Index(copyPhases, route.Copy)
	phases := m.phases
	switch {
	case phases != nil:
	case m.copies:
		phases = copyPhases
	default:
		phases = phasesInOrder
	}
	return explore.UpTo(func() *explore.World {
		w := &explore.World{Servers: m.servers(from)}
		servers := len(w.Servers)
		var middlewares [2]*phased
		for i, commands := range m.clients {
			path := phases
			if m.late && i == 1 {
				path = latePhases
			}
			versions := plan.NewVersions(uint64(100*i), 1)
			p := &phased{make: func(stage int) (*driver, []int) {
				r := after
				switch {
				case stage == len(path):
				case path[stage] == route.Settled && m.between == nil:
					r = from
				default:
					r = between(path[stage])
				}
				given := versions
				if m.single || r.N() == 1 {
					given = nil
				}
				return drive(t, r, replica.AckAll, given), indexes(r, servers)
			}}
			p.enter(m.first)
			middlewares[i] = p
			steps := slices.Repeat([]string{step}, len(path))
			if !m.unclean {
				at := slices.Index(path, route.DeleteNew)
				steps = slices.Insert(steps, max(at, 0), clean)
			}
			if m.last > 0 {
				steps = slices.Repeat([]string{step}, m.last-m.first)
			}
			w.Workers = append(w.Workers,
				member(i, p, commands, &stepper{of: p, gains: gains, servers: w.Servers}, steps...)...)
		}
		if m.copies {
			w.Workers = append(w.Workers, &explore.Worker{
				Silent: true, Middleware: 4, Commands: []string{"copy"},
				Driver: &copyDriver{
					of: m.transfer(from, to), servers: servers,
					late: func() bool { return max(middlewares[0].stage, middlewares[1].stage) > copying },
				},
			})
		}
		w.May = func(w *explore.World, i int) bool {
			if i == 4 {
				first, second := middlewares[0].stage, middlewares[1].stage
				return min(first, second) >= copying || m.hasty && max(first, second) == copying
			}
			mine, other := middlewares[i/2], middlewares[1-i/2]
			switch {
			case m.late && i == 2: // clients are served once the servers are clean
				return m.unclean || len(w.Workers[3].Commands) <= 1 && !w.Workers[3].Running()
			case i%2 == 0 || w.Workers[i].Commands[0] == clean:
				return true
			case w.Workers[i-1].Running():
				return false // the worker's driver is replaced when no request is in flight
			case m.late && i == 3: // it stays in this phase for longer than the change takes
				return other.stage >= len(phases)-1 // no middleware reads old holders any more
			}
			if m.copies && mine.stage == copying && w.Workers[4].Running() {
				return false
			}
			return m.late || mine.stage < other.stage+apart
		}
		return w
	}, limit, explore.Checks{Always: func(w *explore.World) error {
		return errors.Join(noneReadOlder(w), decidedOnce(w))
	}})
}

// transfer returns how the key is copied.
func (m *placementChange) transfer(from, to *route.Router) sweep.Transfer {
	t, old := m.fault, holders(from)
	t.Key, t.Hold = protocol.KeyText{Text: []byte("k")}, 30
	t.Source, t.Others, t.To = old[0], old[1:], gained(from, to)
	return t
}

// noneReadOlder checks the promise: the value that a client gets is not older than a write that was answered before the
// client asked.
func noneReadOlder(w *explore.World) error {
	history := w.History()
	for _, read := range history {
		if read.Ended == 0 {
			continue
		}
		seen, ok := valueRead(read)
		if !ok {
			continue
		}
		ended := 0 // when the write of the value that was seen ended
		if seen != before && seen != forgotten {
			ended = read.Began // it may be in progress
			for _, o := range history {
				failed := strings.HasPrefix(o.Answer, "SERVER_ERROR") && strings.HasPrefix(o.Command, "set") &&
					value(o.Command) == seen
				if written, ok := valueWritten(o); failed {
					ended = read.Began // a failed write may take effect at any time
				} else if ok && written == seen && o.Ended != 0 {
					ended = o.Ended
				}
			}
		}
		for _, newer := range history {
			if _, ok := valueWritten(newer); ok && newer.Ended != 0 && newer.Ended < read.Began && ended < newer.Began {
				return fmt.Errorf("%q was answered with %q after %q", read.Command, read.Answer, newer.Command)
			}
		}
		if seen == forgotten {
			return fmt.Errorf("%q was answered with %q, an old value of a new holder", read.Command, read.Answer)
		}
	}
	return nil
}

// valueRead returns the value on which the answer to o depends.
func valueRead(o explore.Operation) (value string, ok bool) {
	switch verb := strings.Fields(o.Command)[0]; {
	case verb == "get" && strings.HasPrefix(o.Answer, "VALUE"):
		return strings.Split(o.Answer, "\r\n")[1], true
	case verb == "incr":
		if n, err := strconv.Atoi(strings.TrimSpace(o.Answer)); err == nil {
			return strconv.Itoa(n - 1), true
		}
	}
	return "", false
}

// valueWritten returns what o writes, "" for a deletion. ok is false if it has written nothing.
func valueWritten(o explore.Operation) (written string, ok bool) {
	switch verb := strings.Fields(o.Command)[0]; {
	case verb == "incr":
		return strings.TrimSpace(o.Answer), o.Answer != "" && o.Answer[0] <= '9'
	case verb == "delete":
		return "", o.Answer == "" || o.Answer == "DELETED\r\n" || o.Answer == "NOT_FOUND\r\n"
	case verb == "set", verb == "add", verb == "cas":
		return value(o.Command), o.Answer == "" || o.Answer == "STORED\r\n"
	}
	return "", false
}

// placementsInChange are changes of the key's holders.
var placementsInChange = []placementChange{
	{name: "the only holder is replaced", from: []int{0}, to: []int{1}, replicas: 1},
	{name: "one of two is replaced", from: []int{0, 1}, to: []int{1, 2}},
	{name: "a second joins", from: []int{0}, to: []int{0, 1}},
	{name: "one of two leaves", from: []int{0, 1}, to: []int{1}},
	{name: "both are replaced", from: []int{0, 1}, to: []int{2, 3}},
	{name: "the first of two leaves", from: []int{0, 1}, to: []int{0}},
	{name: "a third becomes the first", from: []int{1, 3}, to: []int{0, 1, 3}},
}

// clientsInChange are what the clients of the two middlewares do.
var clientsInChange = [][2][]string{
	{{"set k 0 0 2\r\n10\r\n"}, {"set k 0 0 2\r\n20\r\n", "get k\r\n"}},
	{{"delete k\r\n"}, {"set k 0 0 2\r\n20\r\n", "get k\r\n"}},
	{{"set k 0 0 2\r\n10\r\n", "delete k\r\n"}, {"get k\r\n"}},
	{{"set k 0 0 2\r\n10\r\n"}, {"incr k 1\r\n", "get k\r\n"}},
	{{"set k 0 0 2\r\n10\r\n", "set k 0 0 2\r\n30\r\n"}, {"get k\r\n"}},
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileThePlacementChanges(t *testing.T) {
	computes(t)
	placements, clients, single := placementsInChange[:1], clientsInChange[:2], []bool{false}
	if mctest.Long() {
		placements, clients, single = placementsInChange, clientsInChange, []bool{false, true}
	}
	sum := newTally(t)
	for _, m := range placements {
		for _, m.clients = range clients {
			for _, m.single = range single {
				r, failure := m.explore(t, mostStates)
				sum.holds(r, failure, "%s, %q, single %t", m.name, m.clients, m.single)
			}
		}
	}
}

// copyingChanges are the pairs of neighbouring phases in which two middlewares can be if keys are copied, with what the
// new holders can hold then.
func copyingChanges() (all []placementChange) {
	for _, m := range placementsInChange {
		m.copies = true
		for _, at := range []struct {
			first, last int
			copied      string
		}{
			{1, 2, ""},
			{2, 2, ""},
			{2, 2, before},
			{2, 3, ""},
			{2, 3, before},
			{3, 4, ""},
			{3, 4, before},
			{4, 5, before},
		} {
			m.first, m.last, m.copied = at.first, at.last, at.copied
			all = append(all, m)
		}
	}
	return all
}

func TestNoReadIsOlderThanAnAcknowledgedWriteWhileKeysThatMoveAreCopied(t *testing.T) {
	computes(t)
	clients, limit := [][2][]string{
		clientsInChange[0], clientsInChange[1],
		{{"touch k 100\r\n"}, {deleteKey, getKey}},
		{{incrKey}, {incrKey, getKey}},
	}, migrationStates()/8
	if mctest.Long() {
		clients = append(clients, clientsInChange[2:]...)
	}
	sum := newTally(t)
	for _, m := range copyingChanges() {
		for _, m.clients = range clients {
			r, failure := m.explore(t, limit)
			sum.holds(r, failure, "%s, stages %d to %d, %q, %q", m.name, m.first, m.last, m.copied, m.clients)
		}
	}
}

// dependingClients are clients of whose commands only one may succeed with the same answer.
var dependingClients = [][2][]string{
	{{incrKey}, {incrKey}},
	{{casKey}, {casKey}},
	{{incrKey, incrKey}, {incrKey}},
	{{casKey, getKey}, {incrKey, getKey}},
}

var addKey = agreedCommands[2]

func TestOnlyOneOfTwoDependentCommandsWinsWhileThePlacementChanges(t *testing.T) {
	computes(t)
	clients, single, limit := dependingClients[:2], []bool{false}, mostStates/4
	if mctest.Long() {
		clients, single, limit = dependingClients, []bool{false, true}, 10*mostStates
	}
	sum := newTally(t)
	for _, m := range placementsInChange {
		for _, m.clients = range clients {
			for _, m.single = range single {
				if m.single && m.replicas != 1 {
					continue // replicas without versions do not agree when several instances write them
				}
				r, failure := m.explore(t, limit)
				sum.holds(r, failure, "%s, %q, single %t", m.name, m.clients, m.single)
			}
		}
	}
}

// A key that moves is lost, so that an add of it succeeds again afterwards. But middlewares that are at most one phase
// apart never both let one succeed.
func TestOnlyOneOfTwoAddsWinsInNeighbouringPhases(t *testing.T) {
	computes(t)
	for _, m := range placementsInChange {
		m.empty, m.clients = true, [2][]string{{addKey, getKey}, {second(addKey), getKey}}
		for m.first = range len(phasesInOrder) {
			m.last = m.first + 1
			_, failure := m.explore(t, mostStates/4)
			require.Nil(t, failure, "%s, from stage %d: %v", m.name, m.first, failure)
		}
	}
}

func TestEveryFaultInjectedIntoThePhasesIsFound(t *testing.T) {
	computes(t)
	set, other, get := "set k 0 0 2\r\n10\r\n", "set k 0 0 2\r\n20\r\n", "get k\r\n"
	finds(t, map[string]placementChange{
		"all at once":        {phases: []route.Phase{route.Settled}},
		"without delete-new": {phases: []route.Phase{route.Settled, route.ReadNew}},
		"without read-new":   {phases: []route.Phase{route.Settled, route.DeleteNew}},
		"two phases apart":   {apart: 2},
		"two servers that decide": {
			phases: []route.Phase{route.Settled, route.ReadNew}, from: []int{0, 1},
			to: []int{0}, clients: dependingClients[0],
		},
		"new holders that are not clean": {unclean: true},
		"a copy that is not checked": {
			copies: true, first: 2, last: 4, fault: sweep.Transfer{Unchecked: true},
		},
		"a copy made while another middleware is in delete-new": {copies: true, first: 1, last: 4, hasty: true},
		"a copy made while another middleware hands over":       {copies: true, first: 2, last: 4, hasty: true},
		"two servers that decide because there is no hand-over": {
			phases: []route.Phase{route.Copy, route.ReadNew}, from: []int{0, 1},
			to: []int{0}, clients: dependingClients[0],
		},
	}, func(t *testing.T, name string, m placementChange) (explore.Result, *explore.Failure) {
		if m.from == nil {
			m.from, m.to, m.replicas, m.single = []int{0}, []int{1}, 1, true
			m.clients = [2][]string{{set}, {get}}
		}
		if name == "without delete-new" {
			m.clients[1] = []string{other, get}
		}
		return m.explore(t, 1_000_000)
	})
}
