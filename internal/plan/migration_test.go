package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

// migrationWorld is a world with two middlewares, each with a client, that go from phase to phase of the migration of a
// pool. All that they know of each other is that they are at most one phase apart.
type migrationWorld struct {
	replicas int // replicas of each pool; 0: 1
	phases   []route.Phase
	old, new string // what the pools hold at first; "": nothing
	clients  [2][]string
	// copies: the first middleware copies the key while both are in phase copy, and neither enters the next phase
	// before the copy is done. It copies from the old server with the number source.
	copies bool
	source int

	// missed: only missed keys are copied, by the first middleware while it is in phase warm-up. No copy is in progress
	// when a middleware enters phase both.
	missed bool

	// cold: there is one pool, whose last servers are filled from the first ones. coldFirst: the key's first server is
	// one that is filled.
	cold, coldFirst bool

	// Faults put into the protocol.
	apart     int  // phases apart, instead of 1
	unchecked bool // a copy is not checked afterwards
	alone     bool // it is checked on one server only
	// unverified: it is not checked once it has its expiry.
	unverified bool
	hasty      bool // copying continues in other phases
	// overwrites: a copy replaces the present item. seen: a copy is read before it is checked. parallel: writes are
	// sent to both pools at once.
	overwrites, seen, parallel bool
}

// copyDriver is the explore.Driver of the worker that copies the key.
type copyDriver struct {
	of      sweep.Transfer // how it begins
	servers int
	move    *sweep.Transfer
	out     []string
	waiting []bool
	// provisional returns the given-th provisional version; nil: copies have none.
	provisional func(given uint64) uint64
	given       uint64      // number of provisional versions given out
	late        func() bool // the key is not copied any more
}

func (c *copyDriver) Start(string) {
	if c.late() {
		return
	}
	move := c.of
	if c.provisional != nil {
		move.Provisional = func() uint64 {
			c.given++
			return c.provisional(c.given)
		}
	}
	c.move = &move
	c.out, c.waiting = make([]string, c.servers), make([]bool, c.servers)
	c.ask()
}

func (c *copyDriver) ask() {
	for any := false; !any; {
		for s := range c.out {
			op, asks := c.move.Ask(s)
			if c.out[s], c.waiting[s] = "", asks; asks {
				c.out[s] = string(op.Bytes())
			}
			any = any || c.waiting[s]
		}
		if !any && !c.move.Next() {
			return
		}
	}
}

func (c *copyDriver) Reply(server int, reply string) {
	c.move.Answer(server, []byte(reply))
	c.waiting[server] = false
	if !slices.Contains(c.waiting, true) && c.move.Next() {
		c.ask()
	}
}

func (c *copyDriver) Out(server int) string {
	if c.out == nil {
		return ""
	}
	out := c.out[server]
	c.out[server] = ""
	return out
}

func (*copyDriver) Locks(string) ([]string, bool) { return nil, false }
func (*copyDriver) Lost(int)                      {}
func (*copyDriver) Answer() (string, bool)        { return "", true }
func (c *copyDriver) Busy() bool                  { return c.move != nil && c.move.Outcome() == sweep.TransferOpen }

func (c *copyDriver) AppendState(dst []byte) []byte {
	if c.move == nil {
		return dst
	}
	move := *c.move
	move.Provisional = nil
	return fmt.Appendf(dst, "%+v %q %v %d", move, c.out, c.waiting, c.given)
}

// transfer returns how the key is copied.
func (m *migrationWorld) transfer() sweep.Transfer {
	t := sweep.Transfer{
		Key: protocol.KeyText{Text: []byte("k")}, Source: m.source, Hold: 30,
		Unchecked: m.unchecked, Unverified: m.unverified, Overwrites: m.overwrites,
	}
	for n := range m.count() {
		if n != m.source && !m.alone {
			t.Others = append(t.Others, n)
		}
		t.To = append(t.To, m.count()+n)
	}
	return t
}

// provisional returns copyDriver.provisional.
func (m *migrationWorld) provisional() func(given uint64) uint64 {
	switch {
	case !m.missed:
		return nil
	case m.seen:
		return func(given uint64) uint64 { return protocol.FirstVersion + 1000 + given }
	}
	return func(given uint64) uint64 { return protocol.FirstProvisional + given }
}

// count returns how many servers each pool has. All of them hold every key.
func (m *migrationWorld) count() int { return max(m.replicas, 1) }

// pooled returns the router of one pool in a phase. Reads prefer the servers that are filled.
func (m *migrationWorld) pooled(t *testing.T, phase route.Phase) *route.Router {
	for n := 0; ; n++ { // until the key's first server is the wanted one
		p := route.Pool{Name: "one", Options: route.Options{Read: route.ReadNearest, Zone: "cold"}}
		var cold []string
		for k := range 2 * m.count() {
			s := route.Server{Name: fmt.Sprintf("server-%d-%d", n, k)}
			if k >= m.count() {
				s.Zone, cold = "cold", append(cold, s.Name)
			}
			p.Servers = append(p.Servers, s)
		}
		r, err := route.NewPools([]route.Pool{p}, route.Routes{Default: "one"})
		require.NoError(t, err)
		if r.Primary([]byte("k")) >= m.count() == m.coldFirst {
			if m.parallel {
				return r
			}
			return r.Migrate([]route.Move{{Phase: phase, WarmsUp: true, Cold: strings.Join(cold, ",")}})
		}
	}
}

// router returns the router of the pools in a phase. The old pool has the first servers.
func (m *migrationWorld) router(t *testing.T, phase route.Phase) *route.Router {
	if m.cold {
		return m.pooled(t, phase)
	}
	var pools []route.Pool
	for i, name := range []string{"old", "new"} {
		p := route.Pool{Name: name, Options: route.Options{Read: route.ReadPrimary}}
		for n := range m.count() {
			p.Servers = append(p.Servers, route.Server{Name: fmt.Sprintf("server-%d", i*m.count()+n)})
		}
		pools = append(pools, p)
	}
	r, err := route.NewPools(pools, route.Routes{Default: "old"})
	require.NoError(t, err)
	if phase == route.MigrationBack {
		return r
	}
	return r.Migrate([]route.Move{{From: 0, To: 1, Phase: phase, WarmsUp: m.missed, Parallel: m.parallel}})
}

// explore explores what can happen, at most limit states.
func (m *migrationWorld) explore(t *testing.T, limit int, checks explore.Checks) (explore.Result, *explore.Failure) {
	servers := 2 * m.count()
	return explore.UpTo(func() *explore.World {
		w := &explore.World{}
		for s := range servers {
			server, holds := &model.Server{}, m.old
			if s >= m.count() {
				holds = m.new
			}
			if holds != "" {
				cas := uint64(initialVersion)
				if holds != m.old {
					cas++
				}
				server.Put("k", model.Item{Value: holds, CAS: cas})
			}
			w.Servers = append(w.Servers, server)
		}
		var middlewares [2]*phased
		for i, commands := range m.clients {
			versions := plan.NewVersions(uint64(100*i), 1)
			at := make([]int, servers)
			for s := range at {
				at[s] = s
			}
			p := &phased{make: func(stage int) (*driver, []int) {
				return drive(t, m.router(t, m.phases[stage]), replica.AckAll, versions), at
			}}
			p.enter(0)
			middlewares[i] = p
			w.Workers = append(w.Workers, member(i, p, commands, &stepper{of: p},
				slices.Repeat([]string{step}, len(m.phases)-1)...)...)
		}
		if m.copies {
			w.Workers = append(w.Workers, &explore.Worker{
				Silent: true, Middleware: 4,
				Driver: &copyDriver{
					of: m.transfer(), provisional: m.provisional(), servers: servers,
					late: func() bool { return m.missed && m.phases[middlewares[0].stage] != route.MigrationWarmUp },
				},
				Commands: []string{"copy"},
			})
		}
		w.May = func(w *explore.World, i int) bool {
			if i == 4 && m.missed {
				return m.phases[middlewares[0].stage] >= route.MigrationWarmUp
			}
			if i == 4 {
				return m.hasty || m.phases[middlewares[0].stage] == route.MigrationCopy &&
					m.phases[middlewares[1].stage] == route.MigrationCopy
			}
			mine, other := middlewares[i/2], middlewares[1-i/2]
			switch {
			case i%2 == 0:
				return true
			case w.Workers[i-1].Running():
				return false // the worker's driver is replaced when no request is in flight
			case m.missed && m.phases[mine.stage] == route.MigrationCopy && m.copies && w.Workers[4].Running():
				return false
			case m.copies && !m.missed && !m.hasty && m.phases[mine.stage] == route.MigrationCopy &&
				(w.Workers[4].Running() || len(w.Workers[4].Commands) > 0):
				return false // the next phase begins a step after the copying has ended
			}
			return mine.stage < other.stage+max(m.apart, 1)
		}
		return w
	}, limit, checks)
}

// decidedOnce returns an error if two increments had the same result, or if two cas with the same token or two adds
// were stored, where nothing else wrote.
func decidedOnce(w *explore.World) error {
	told := map[string]bool{}
	for _, o := range w.History() {
		switch verb := strings.Fields(o.Command)[0]; {
		case o.Ended == 0, verb == "get", strings.HasPrefix(o.Answer, "N"), strings.HasPrefix(o.Answer, "E"),
			strings.HasPrefix(o.Answer, "SERVER_ERROR"):
		case verb == "set", verb == "delete":
			return nil
		case told[verb+o.Answer]:
			return fmt.Errorf("%q was answered with %q twice", o.Command, o.Answer)
		default:
			told[verb+o.Answer] = true
		}
	}
	return nil
}

// neverMissed returns an error if a get found nothing.
func neverMissed(w *explore.World) error {
	for _, o := range w.History() {
		if o.Ended != 0 && o.Answer == "END\r\n" {
			return fmt.Errorf("%q found nothing", o.Command)
		}
	}
	return nil
}

// sameInBoth returns an error if the new pool finally holds another value than the old one. It does not apply after a
// conditional write that made mcmw forget the key: that key may be copied afterwards.
func (m *migrationWorld) sameInBoth(w *explore.World) error {
	old, there := w.Servers[0].Get("k")
	if !there && slices.Contains(m.phases, route.MigrationUndecided) &&
		slices.ContainsFunc(w.History(), func(o explore.Operation) bool {
			return strings.HasPrefix(o.Answer, "NOT_FOUND") && !strings.HasPrefix(o.Command, "delete") &&
				!strings.HasPrefix(o.Command, "touch")
		}) {
		return nil
	}
	for _, s := range w.Servers[m.count():] {
		if it, ok := s.Get("k"); ok &&
			(!there || it.Value != old.Value || it.Exptime != old.Exptime || it.Stale != old.Stale) {
			return fmt.Errorf("the new pool holds %+v, the old one %+v", it, old)
		}
	}
	return nil
}

// copied returns an error if the new pool does not hold what the old one holds.
func (m *migrationWorld) copied(w *explore.World) error {
	old, there := w.Servers[0].Get("k")
	for _, s := range w.Servers[m.count():] {
		if it, ok := s.Get("k"); ok != there || it.Value != old.Value || it.Exptime != old.Exptime {
			return fmt.Errorf("the new pool holds %+v, the old one %+v", it, old)
		}
	}
	return nil
}

// neighbours are the pairs of phases that two middlewares can be in, with the possible contents of the pools.
var neighbours = []migrationWorld{
	{phases: []route.Phase{route.MigrationWaiting, route.MigrationDeleteNew}, old: before},
	{phases: []route.Phase{route.MigrationDeleteNew, route.MigrationCopy}, old: before},
	{phases: []route.Phase{route.MigrationCopy}, old: before, copies: true},
	{phases: []route.Phase{route.MigrationCopy, route.MigrationBoth}, old: before, new: before},
	{phases: []route.Phase{route.MigrationBoth, route.MigrationDone}, old: before, new: before},
}

// warmUps are the same for a migration that copies missed keys.
var warmUps = []migrationWorld{
	{phases: []route.Phase{route.MigrationWaiting, route.MigrationDeleteNew}, old: before},
	{phases: []route.Phase{route.MigrationDeleteNew, route.MigrationWarmUp}, old: before, copies: true},
	{phases: []route.Phase{route.MigrationWarmUp}, old: before, copies: true},
	{phases: []route.Phase{route.MigrationWarmUp}, old: before, new: before, copies: true},
	{phases: []route.Phase{route.MigrationWarmUp, route.MigrationCopy}, old: before, copies: true},
	{phases: []route.Phase{route.MigrationCopy, route.MigrationBoth}, old: before, new: before},
	{
		phases: []route.Phase{route.MigrationWarmUp, route.MigrationCopy, route.MigrationBack}, old: before,
		new: before,
	},
	{phases: []route.Phase{route.MigrationCopy, route.MigrationBack}, old: before, new: before},
}

// fillings are the same for a pool some of whose servers are filled from the others.
var fillings = []migrationWorld{
	{phases: []route.Phase{route.MigrationWaiting, route.MigrationUndecided}, old: before, new: before},
	{phases: []route.Phase{route.MigrationUndecided, route.MigrationWarmUp}, old: before, copies: true},
	{phases: []route.Phase{route.MigrationWarmUp}, old: before, copies: true},
	{phases: []route.Phase{route.MigrationWarmUp}, old: before, new: before, copies: true},
	{phases: []route.Phase{route.MigrationWarmUp, route.MigrationCopy}, old: before, copies: true},
	{phases: []route.Phase{route.MigrationCopy, route.MigrationUndecided}, old: before, new: before},
	{phases: []route.Phase{route.MigrationUndecided, route.MigrationDone}, old: before, new: before},
}

const (
	setTen, setTwenty = "set k 0 0 2\r\n10\r\n", "set k 0 0 2\r\n20\r\n"
	getKey, deleteKey = "get k\r\n", "delete k\r\n"
	incrKey           = "incr k 1\r\n"
)

var casKey = fmt.Sprintf("cas k 0 0 2 %d\r\n30\r\n", uint64(initialVersion))
