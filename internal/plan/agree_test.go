package plan_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// mutant is a fault that is put between a planner and its servers.
type mutant string

const (
	noCheck            mutant = "no check"
	earlyCheck         mutant = "a check before the last acknowledgement"
	cutAnything        mutant = "an unconditional cut"
	healByCopy         mutant = "healing by copy"
	healBySwap         mutant = "healing by compare and swap"
	serversCAS         mutant = "the server's cas as version"
	incrWithoutVersion mutant = "incr without a new version"
	lostChunk          mutant = "a chunk that was not stored"
	blindDiscard       mutant = "a head that is deleted even if another value has replaced it"
	keptHead           mutant = "a head without its chunks that is not deleted"
	ownTokens          mutant = "a server's own cas that passes for a version"
	readersDecide      mutant = "a token that is compared on the server that has shown it"
	blindCas           mutant = "a cas that compares nothing"
	keptResult         mutant = "a result that its server keeps although nobody has confirmed it"
	onlyInTheGutter    mutant = "a write in the gutter that does not delete the key on its server"
)

// earlyLook stands for a call that the driver has made, not the planner.
const earlyLook = -1

var (
	versionFlag = regexp.MustCompile(` E\d+`)
	seenVersion = regexp.MustCompile(` C\d+`)
	disguised   = regexp.MustCompile(` C4\d{18}`) // a condition with a version
)

// mutate puts the driver's fault into a call. It returns false if the call must not be sent.
func (d *driver) mutate(c *plan.Call) (sent bool) {
	line := string(c.Bytes[0])
	isCut := c.IsCheck() && strings.HasPrefix(line, "md")
	switch d.mutant {
	case earlyCheck:
		if strings.HasPrefix(line, "ms") {
			d.out[c.Server] += line + string(c.Bytes[1]) + "mg k u c k\r\n"
			d.waiting[c.Server] = append(d.waiting[c.Server], int32(d.sent), earlyLook)
			return false
		}
		if seen := d.early[c.Server]; c.IsCheck() && seen != "" {
			d.early[c.Server] = ""
			var r protocol.Reply
			_, _, _ = protocol.DecodeReply([]byte(seen), &r)
			last, _, ok := d.planner.Element(int32(d.sent), &r, []byte(seen), 0, len(seen))
			require.True(d.t, last && ok)
			d.planner.Done(int32(d.sent), r.Kind, []byte(seen))
			return false
		}
	case cutAnything:
		if isCut {
			c.Bytes[0] = []byte("md k\r\nmg k u c k\r\n")
		}
	case healByCopy:
		if strings.HasPrefix(line, "ms") {
			d.stored = line + string(c.Bytes[1])
		}
		if isCut {
			d.out[c.Server] += d.stored + "mg k u c k\r\n"
			d.waiting[c.Server] = append(d.waiting[c.Server], int32(d.sent))
			return false
		}
	case ownTokens:
		c.Bytes[0] = []byte(disguised.ReplaceAllStringFunc(versionFlag.ReplaceAllString(line, ""),
			func(flag string) string {
				token, _ := strconv.ParseUint(flag[len(" C"):], 10, 64)
				return fmt.Sprintf(" C%d", token-protocol.FirstVersion)
			}))
	case readersDecide:
		if !c.IsCheck() && disguised.MatchString(line) {
			c.Server = int32(d.shows)
		}
	case blindCas:
		c.Bytes[0] = []byte(disguised.ReplaceAllString(line, ""))
	case onlyInTheGutter:
		if c.Server == ownServer && strings.HasPrefix(line, "delete") {
			c.Bytes[0] = []byte("delete other\r\n")
		}
	case lostChunk:
		if strings.HasPrefix(line, "ms mcmw:large:") {
			c.Bytes[0] = []byte(strings.Replace(line, "mcmw:large:", "elsewhere:", 1))
		}
	case blindDiscard:
		if strings.HasPrefix(line, "md k C") {
			c.Bytes[0] = []byte("md k\r\n")
		}
	case keptHead:
		if strings.HasPrefix(line, "md k C") {
			c.Bytes[0] = []byte("md other\r\n")
		}
	case healBySwap:
		if strings.HasPrefix(line, "ms") {
			d.stored = line + string(c.Bytes[1])
		}
		seen := seenVersion.FindString(line)
		version := versionFlag.FindString(d.stored)
		if isCut && c.Server != 0 && seen != "" && d.shown(0) == strings.TrimPrefix(version, " E") {
			c.Bytes[0] = []byte(strings.Replace(d.stored, version, seen+version, 1) + "mg k u c k\r\n")
		}
	case serversCAS:
		c.Bytes[0] = []byte(versionFlag.ReplaceAllString(line, ""))
	}
	return true
}

// shown returns the version that server has shown last.
func (d *driver) shown(server int) string {
	for _, told := range slices.Backward(d.told) {
		if reply, ok := strings.CutPrefix(told, fmt.Sprint(server)); ok {
			for _, word := range strings.Fields(reply) {
				if word[0] == 'c' {
					return word[1:]
				}
			}
			return ""
		}
	}
	return ""
}

// initialVersion is the version of what all servers hold at first.
const initialVersion = 1 << 62

// agreementWorld is a world of several middlewares, each of which serves one client's commands for the key k.
type agreementWorld struct {
	servers int
	stored  string
	faults  explore.Faults
	mutant  mutant
	clients [][]string
	// late: no round has only checks before a client's last command. rides: the rounds of its commands have the checks
	// that are left, too.
	late, rides bool
	// shared: all clients' workers belong to one middleware.
	shared bool
}

// first returns what every server holds at first.
func (a *agreementWorld) first() *model.Server {
	s := &model.Server{}
	if a.stored != "" {
		s.Put("k", model.Item{Value: a.stored, CAS: initialVersion})
	}
	return s
}

// explore explores what can happen, at most limit states.
func (a *agreementWorld) explore(t *testing.T, limit int, checks explore.Checks) (explore.Result, *explore.Failure) {
	router := newRouter(t, a.servers, route.ReadPrimary)
	return explore.UpTo(func() *explore.World {
		w := &explore.World{Faults: a.faults}
		for range a.servers {
			w.Servers = append(w.Servers, a.first())
		}
		for i, commands := range a.clients {
			versions := plan.NewVersions(uint64(100*i), 1)
			if a.mutant == incrWithoutVersion {
				versions = new(plan.Versions) // all versions equal that of the initial item
			}
			d := drive(t, router, replica.AckAll, versions)
			d.mutant, d.rides = a.mutant, a.rides
			if a.late {
				d.waits = len(commands)
			}
			worker := &explore.Worker{Middleware: i, Driver: d, Commands: slices.Clone(commands)}
			if a.shared {
				worker.Middleware = 0
				d.locked = func() bool { return w.Locked(worker) }
			}
			w.Workers = append(w.Workers, worker)
		}
		return w
	}, limit, checks)
}

// value returns the value that command, an unconditional one, stores.
func value(command string) string {
	_, data, _ := strings.Cut(command, "\r\n")
	return strings.TrimSuffix(data, "\r\n")
}

// noneOlder checks promise 2: after a set or delete that was answered, no server holds a value whose write was answered
// before it began.
func noneOlder(w *explore.World) error {
	history := w.History()
	for _, newer := range history {
		verb := strings.Fields(newer.Command)[0]
		if newer.Ended == 0 || verb != "set" && verb != "delete" {
			continue
		}
		for _, older := range history {
			if older.Ended == 0 || older.Ended > newer.Began || older.Answer != "STORED\r\n" ||
				strings.HasPrefix(older.Command, "append") {
				continue
			}
			for s, server := range w.Servers {
				if it, ok := server.Get("k"); ok && it.Value == value(older.Command) {
					return fmt.Errorf("server %d holds %s after %q", s, it.Value, newer.Command)
				}
			}
		}
	}
	return nil
}

// distinguishable returns an error if a sweep, which compares versions, could not see that servers differ. A sweep
// deletes what it sees to differ.
func distinguishable(w *explore.World) error {
	values := map[uint64]string{}
	for _, s := range w.Servers {
		it, ok := s.Get("k")
		if other, seen := values[it.CAS]; ok && seen && other != it.Value {
			return fmt.Errorf("%q and %q have the same version", it.Value, other)
		}
		if ok {
			values[it.CAS] = it.Value
		}
	}
	return nil
}

// agreedCommands are the commands of two clients, with the first client's values.
var agreedCommands = []string{
	"set k 0 0 1\r\n1\r\n", "delete k\r\n", "add k 0 0 1\r\n2\r\n",
	fmt.Sprintf("cas k 0 0 1 %d\r\n3\r\n", initialVersion), "incr k 1\r\n", "append k 0 0 1\r\n4\r\n",
	"md k I\r\n", "mg k N30 v\r\n",
}

// second returns command with the second client's values.
func second(command string) string {
	return strings.NewReplacer("\r\n1\r\n", "\r\n5\r\n", "\r\n2\r\n", "\r\n6\r\n", "\r\n3\r\n", "\r\n8\r\n").
		Replace(command)
}

// Limits on the explored states of a history. wholeStates is above the number of states of every pair of commands on
// two servers without faults. mostStates cuts off other histories, some of which have millions of states, so that the
// long form ends within about twenty minutes.
const (
	wholeStates = 200_000
	mostStates  = 20_000
)

func TestReplicasAgreeBehindSeveralMiddlewares(t *testing.T) {
	computes(t)
	var runs []agreementWorld
	appends := agreedCommands[5]
	set, remove, incr, get := agreedCommands[0], agreedCommands[1], agreedCommands[4], "get k\r\n"
	pairs := func(servers int, stored string, faults explore.Faults) {
		for i, a := range agreedCommands {
			for _, b := range agreedCommands[i:] {
				if !mctest.Long() && (a == appends || b == appends) {
					continue // it takes the same steps as incr
				}
				runs = append(runs, agreementWorld{
					servers: servers, stored: stored, faults: faults,
					clients: [][]string{{a}, {second(b)}},
				})
			}
		}
	}
	pairs(2, "9", explore.Faults{}) // an incr adds a digit
	if mctest.Long() {
		pairs(2, "", explore.Faults{})
		pairs(2, "7", explore.Faults{})
	}
	// A later store replaces the check, or overlaps it.
	late := func(rides bool, first, then, other string) {
		runs = append(runs, agreementWorld{
			servers: 2, stored: "9", late: true, rides: rides,
			clients: [][]string{{first, then}, {second(other)}},
		})
	}
	another := "set k 0 0 1\r\n7\r\n"
	for _, rides := range []bool{false, true} {
		late(rides, set, another, remove)
	}
	whole := len(runs) // these are explored completely
	if mctest.Long() {
		for _, rides := range []bool{false, true} {
			for _, a := range agreedCommands {
				late(rides, another, a, set)
				late(rides, a, another, a)
			}
		}
		pairs(2, "9", explore.Faults{Evictions: 1, Key: "k"})
		pairs(2, "9", explore.Faults{Deaths: 1})
		pairs(3, "9", explore.Faults{})
		runs = append(runs,
			agreementWorld{servers: 2, clients: [][]string{{set}, {second(set), remove}}},
			agreementWorld{servers: 2, clients: [][]string{{set}, {remove, second(set)}}},
			agreementWorld{servers: 2, stored: "7", clients: [][]string{{set}, {incr, incr}}},
			agreementWorld{servers: 2, stored: "7", clients: [][]string{{incr, get}, {second(set), get}}})
	}
	sum := newTally(t)
	for i, a := range runs {
		limit := mostStates
		if i < whole {
			limit = wholeStates
		}
		result, failure := a.explore(t, limit, explore.Checks{
			Always: noneOlder,
			AtEnd: func(w *explore.World) error {
				switch {
				case a.faults.Deaths > 0:
					return distinguishable(w)
				case a.faults.Evictions > 0: // promise 3 does not hold with evictions
					return alike(w)
				}
				return errors.Join(alike(w), linear(w, a.first()))
			},
		})
		sum.holds(result, failure, "%d servers that hold %q, %+v, %q", a.servers, a.stored, a.faults, a.clients)
		if result.Cut {
			require.GreaterOrEqual(t, i, whole, "%q: more than %d states", a.clients, limit)
		}
	}
}

func TestNoCheckDeletesWhatAnotherWorkerOfItsMiddlewareIsStoring(t *testing.T) {
	computes(t)
	set, incr, appends, sum := agreedCommands[0], agreedCommands[4], agreedCommands[5], newTally(t)
	for _, commands := range [][2]string{{set, set}, {set, incr}, {set, appends}, {incr, set}, {incr, appends}} {
		for servers := 2; servers == 2 || servers == 3 && mctest.Long(); servers++ {
			a := agreementWorld{
				servers: servers, stored: "7", shared: true,
				clients: [][]string{{commands[0]}, {second(commands[1])}},
			}
			result, failure := a.explore(t, wholeStates, explore.Checks{AtEnd: func(w *explore.World) error {
				for s, server := range w.Servers {
					if _, ok := server.Get("k"); !ok {
						return fmt.Errorf("server %d has lost its copy", s)
					}
				}
				return errors.Join(alike(w), linear(w, a.first()))
			}})
			sum.holds(result, failure, "%d servers, %q", servers, a.clients)
			require.False(t, result.Cut, "%d servers, %q: %+v", servers, a.clients, result)
		}
	}
}

func TestEveryFaultInjectedIntoTheProtocolIsFound(t *testing.T) {
	computes(t)
	set, remove, incr := agreedCommands[0], agreedCommands[1], agreedCommands[4]
	for _, tc := range []agreementWorld{
		{mutant: noCheck, clients: [][]string{{set}, {second(set)}}},
		{mutant: earlyCheck, clients: [][]string{{set}, {second(set)}}},
		{mutant: healBySwap, clients: [][]string{{set}, {second(set)}}},
		{mutant: healByCopy, clients: [][]string{{set}, {second(set), remove}}},
		{mutant: serversCAS, clients: [][]string{{set}, {second(set)}}},
		{mutant: incrWithoutVersion, stored: "7", clients: [][]string{{incr}, {incr}}},
	} {
		t.Run(string(tc.mutant), func(t *testing.T) {
			tc.servers = 2
			r, failure := tc.explore(t, 1_000_000, explore.Checks{Always: noneOlder, AtEnd: alike})
			require.NotNil(t, failure, "%d states", r.States)
			assert.NotContains(t, failure.Error(), "states")
		})
	}
}

func TestACutSparesWhatIsStoredAfterTheLook(t *testing.T) {
	newer := model.Item{Value: "7", CAS: initialVersion + 7}
	for m, left := range map[mutant]bool{"": true, cutAnything: false} {
		d := drive(t, newRouter(t, 2, route.ReadPrimary), replica.AckAll, plan.NewVersions(0, 1))
		d.mutant = m
		servers := [2]model.Server{}
		serve := func(also func()) {
			out := []string{d.Out(0), d.Out(1)}
			also()
			for s := range servers {
				for r := bufio.NewReader(strings.NewReader(out[s])); ; {
					q, err := strict.Read(r)
					if err != nil {
						break
					}
					d.Reply(s, servers[s].Do(&q))
				}
			}
		}
		second := d.router.Replicas([]byte("k"), nil)[1]
		d.Start(agreedCommands[0])
		serve(func() {})
		// another client's write, later than this one
		servers[second].Put("k", model.Item{Value: "5", CAS: initialVersion + 5})
		serve(func() {})
		serve(func() {})
		serve(func() { // between the looks and the cut
			servers[0].Put("k", newer)
			servers[1].Put("k", newer)
		})
		require.True(t, d.idle)
		it, ok := servers[second].Get("k")
		assert.Equal(t, left, ok, m)
		assert.Equal(t, left, it == newer, m)
	}
}

func TestAVersionedWriteAndItsCheckAllocateNothing(t *testing.T) {
	d := drive(t, newRouter(t, 3, route.ReadPrimary), replica.AckAll, plan.NewVersions(0, 1))
	p := d.planner
	set, incr := d.decode("set k 0 0 1\r\nx\r\n"), d.decode("incr n 1\r\n")
	answers := map[string][]byte{
		"ms": []byte("HD\r\n"), "ma": []byte("VA 1 kn\r\n6\r\n"),
		"mg n": []byte("VA 1 f0 t-1 c5 kn\r\n6\r\n"), "check mg k": []byte("HD c5 kk\r\n"),
		"check mg n": []byte("HD c5 kn\r\n"),
	}
	from := 0
	reply := func() {
		for ; from < len(p.Calls); from++ {
			line := p.Calls[from].Bytes[0]
			text, ok := answers[string(line[:2])]
			if !ok {
				text = answers[string(line[:4])]
			}
			lines := p.Calls[from].Bytes[0]
			var r protocol.Reply
			for last := false; !last; {
				if p.Calls[from].IsCheck() {
					text = answers["check "+string(lines[:4])]
					lines = lines[bytes.IndexByte(lines, '\n')+1:]
				}
				_, _, _ = protocol.DecodeReply(text, &r)
				last, _, ok = p.Element(int32(from), &r, text, 0, len(text))
				require.True(t, ok)
			}
			for ended := p.Done(int32(from), r.Kind, text); ended &&
				p.End(p.Calls[from].Request, true); ended = false {
				p.Next(p.Calls[from].Request)
			}
		}
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		p.Reset()
		from = 0
		p.Part()
		p.Plan(p.Add(&set))
		p.Plan(p.Add(&incr))
		p.PlanChecks()
		reply()
		d.answer.Reset()
	}))
	p.Reset()
	assert.Equal(t, 2, p.Checking(), "the next write of a key replaces its check")
}

func TestAnItemThatIsTooLargeToHoldIsDeletedWhereItWouldBeCopied(t *testing.T) {
	d := drive(t, newRouter(t, 3, route.ReadPrimary), replica.AckAll, plan.NewVersions(0, 1))
	d.drops = true
	holders := d.router.Replicas([]byte("k"), nil)
	d.Start("append k 0 0 1\r\n1\r\n")
	d.Reply(holders[0], "HD\r\nVA 2 f0 t-1 c5 kk\r\n91\r\n")
	for _, s := range holders[1:] {
		require.Equal(t, "md k\r\n", d.out[s])
		d.Reply(s, "HD\r\n")
	}
	answer, done := d.Answer()
	assert.True(t, done)
	assert.Equal(t, "STORED\r\n", answer)
	assert.Zero(t, d.planner.Checking(), "one server has it")
}
