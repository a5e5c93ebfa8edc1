package explore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
)

// agree is the protocol by which several middlewares keep replicas alike, for one key: every stored value has a version of its own as
// its cas; the first server decides what has a condition; behind every write the writer looks at all servers, and cuts what disagrees.
//
// Its commands: "set V", "add V", "delete", "incr", "swap V" (gets and a cas with what it returned) and "get".
type agree struct {
	number  int // of the worker, for its versions
	servers int
	mutant  mutant

	written  int    // versions so far
	asked    string // what was asked last
	version  uint64
	value    string
	out      []string
	waits    map[int]int
	replies  map[int]string
	acked    map[int]bool // servers that acknowledged the value
	step     func()       // what follows when every reply is there
	answer   string
	answered bool
	busy     bool
	seen     []string // the last look
}

// mutant is a fault put into the protocol. That a cut is unconditional is none: it costs copies, not a promise, as the first server is
// never cut.
type mutant string

const (
	noCheck            mutant = "no check"
	earlyCheck         mutant = "a check before the last acknowledgement"
	healByCopy         mutant = "healing by copy"
	serversCAS         mutant = "the server's cas as version"
	incrWithoutVersion mutant = "incr without a new version"
)

func (a *agree) Locks(string) ([]string, bool) { return nil, false }
func (a *agree) Out(server int) string {
	out := a.out[server]
	a.out[server] = ""
	return out
}
func (a *agree) Answer() (string, bool) { return a.answer, a.answered }
func (a *agree) Busy() bool             { return a.busy }

func (a *agree) newVersion() uint64 {
	a.written++
	return 1<<62 + uint64(100*a.written+a.number)
}

// e returns the flag that sets the version.
func (a *agree) e() string {
	if a.mutant == serversCAS {
		return ""
	}
	return fmt.Sprintf(" E%d", a.version)
}

// ask sends one command to each of the servers; next follows when all have answered.
func (a *agree) ask(next func(), servers []int, command func(s int) string) {
	a.asked = ""
	a.waits, a.replies, a.step = map[int]int{}, map[int]string{}, next
	for _, s := range servers {
		line := command(s)
		a.out[s] += line
		a.asked += line
		a.waits[s] = 1
		if strings.Contains(line, "\r\nm") {
			a.waits[s] = 2
		}
	}
	a.advance()
}

func (a *agree) advance() {
	for len(a.waits) == 0 && a.step != nil {
		next := a.step
		a.step = nil
		next()
	}
}

func (a *agree) Reply(server int, reply string) {
	a.replies[server] += reply
	if a.waits[server]--; a.waits[server] == 0 {
		delete(a.waits, server)
	}
	a.advance()
}

func (a *agree) Lost(server int) { a.Reply(server, "SERVER_ERROR lost\r\n") }

func (a *agree) all() (list []int) {
	for s := range a.servers {
		list = append(list, s)
	}
	return list
}

func (a *agree) others() []int { return a.all()[1:] }

func (a *agree) AppendState(dst []byte) []byte {
	return fmt.Appendf(dst, "%q %d %s %v %v %v %q %t %t %v", a.asked, a.version, a.value, a.waits, a.replies, a.acked, a.answer, a.answered, a.busy, a.seen)
}

func (a *agree) tell(answer string) { a.answer, a.answered = answer, true }

func (a *agree) end() { a.busy = false }

func (a *agree) Start(command string) {
	words := strings.Fields(command)
	*a = agree{number: a.number, servers: a.servers, mutant: a.mutant, written: a.written, out: make([]string, a.servers), busy: true}
	if len(words) > 1 {
		a.value = words[1]
	}
	a.version = a.newVersion()
	switch words[0] {
	case "get":
		a.ask(func() {
			value, _, _ := a.item(0)
			a.tell(value)
			a.end()
		}, []int{0}, func(int) string { return "mg k v c u\r\n" })
	case "set":
		if a.mutant == earlyCheck {
			a.ask(a.storedAndLooked, a.all(), func(s int) string { return a.store(s) + "mg k u c\r\n" })
			return
		}
		a.ask(a.storedAll, a.all(), a.store)
	case "delete":
		a.ask(func() {
			a.tell("done")
			a.end()
		}, a.all(), func(int) string { return "md k\r\n" })
	case "add":
		a.ask(a.storedFirst, []int{0}, func(int) string { return a.storeAs(" ME" + a.e()) })
	case "swap":
		a.ask(func() {
			value, cas, ok := a.item(0)
			if !ok {
				a.tell("NF")
				a.end()
				return
			}
			a.answer = value + " "
			a.ask(a.storedFirst, []int{0}, func(int) string { return a.storeAs(fmt.Sprintf(" C%d%s", cas, a.e())) })
		}, []int{0}, func(int) string { return "mg k v c u\r\n" })
	case "incr":
		if a.mutant == incrWithoutVersion {
			a.version = 1 << 62 // what the item had
		}
		a.ask(a.incremented, []int{0}, func(int) string { return "ma k v" + a.e() + "\r\nmg k v c u\r\n" })
	}
}

// store is the line that stores the value on any server.
func (a *agree) store(int) string { return a.storeAs(a.e()) }

func (a *agree) storeAs(flags string) string {
	return fmt.Sprintf("ms k %d%s\r\n%s\r\n", len(a.value), flags, a.value)
}

// item reads what server s answered to an mg with v and c.
func (a *agree) item(s int) (value string, cas uint64, ok bool) {
	line, data, _ := strings.Cut(a.replies[s], "\r\n")
	words := strings.Fields(line)
	if words[0] != "VA" && words[0] != "HD" {
		return "", 0, false
	}
	for _, word := range words[1:] {
		if word[0] == 'c' {
			cas, _ = strconv.ParseUint(word[1:], 10, 64)
		}
	}
	return strings.TrimSuffix(data, "\r\n"), cas, true
}

// storedFirst follows a write with a condition on the first server.
func (a *agree) storedFirst() {
	code := strings.Fields(a.replies[0])[0]
	if code != "HD" {
		a.tell(a.answer + code)
		a.end()
		return
	}
	a.copies("HD")
}

// copies gives the others what the first server has stored.
func (a *agree) copies(answer string) {
	a.answer += answer
	a.ask(func() {
		a.answered = true
		a.checkAll(a.acknowledged(0))
	}, a.others(), a.store)
	a.acked = map[int]bool{}
}

func (a *agree) acknowledged(also ...int) (list []int) {
	for s, reply := range a.replies {
		if strings.HasPrefix(reply, "HD") {
			also = append(also, s)
		}
	}
	slices.Sort(also)
	return slices.Compact(also)
}

// storedAll follows a set.
func (a *agree) storedAll() {
	a.tell("HD")
	a.checkAll(a.acknowledged())
}

// storedAndLooked follows a set that was sent with a look.
func (a *agree) storedAndLooked() {
	a.tell("HD")
	servers := a.acknowledged()
	for s, reply := range a.replies {
		_, a.replies[s], _ = strings.Cut(reply, "\r\n")
	}
	a.looked(servers)
}

// incremented follows ma and mg on the first server.
func (a *agree) incremented() {
	number := strings.SplitN(a.replies[0], "\r\n", 3)
	if !strings.HasPrefix(number[0], "VA") {
		a.tell(strings.Fields(number[0])[0])
		a.end()
		return
	}
	result := number[1]
	a.replies[0] = number[2]
	value, cas, ok := a.item(0)
	a.value = value
	switch {
	case !ok: // deleted or evicted behind it
		a.tell(result)
		a.end()
	case cas == a.version:
		a.copies(result)
	default:
		// The item is new, or somebody else's: it gets a version.
		a.version = a.newVersion()
		a.ask(func() {
			if !strings.HasPrefix(a.replies[0], "HD") {
				a.tell(result) // whoever wrote behind it brings the others its own
				a.end()
				return
			}
			a.copies(result)
		}, []int{0}, func(int) string { return a.storeAs(fmt.Sprintf(" C%d%s", cas, a.e())) })
	}
}

// checkAll looks at the servers until they agree, or what disagrees in two looks in a row is cut.
func (a *agree) checkAll(servers []int) {
	if a.mutant == noCheck || len(servers) < 2 {
		a.end()
		return
	}
	a.ask(func() { a.looked(servers) }, servers, func(int) string { return "mg k u c\r\n" })
}

// looked follows a look at servers.
func (a *agree) looked(servers []int) {
	look := make([]string, a.servers)
	for _, s := range servers {
		if _, cas, ok := a.item(s); ok {
			look[s] = strconv.FormatUint(cas, 10)
		}
	}
	cut := a.disagreeing(look, servers)
	switch {
	case len(cut) == 0:
		a.end()
	case !slices.Equal(look, a.seen):
		a.seen = look
		a.checkAll(servers)
	default:
		a.seen = nil
		a.ask(func() { a.checkAll(servers) }, slices.Sorted(maps.Keys(cut)), func(s int) string { return cut[s] })
	}
}

// disagreeing returns by server how what disagrees there is cut.
func (a *agree) disagreeing(look []string, servers []int) map[int]string {
	cut := map[int]string{}
	for _, s := range servers {
		if s == 0 || look[s] == "" || look[s] == look[0] {
			continue
		}
		if look[0] == "" && look[s] != strconv.FormatUint(a.version, 10) && a.mutant != serversCAS {
			continue // its own writer looks, too
		}
		cut[s] = "md k C" + look[s] + "\r\n"
		if a.mutant == healByCopy {
			cut[s] = a.store(s)
		}
	}
	return cut
}

// agreeing returns a world in which every middleware serves one client's commands.
func agreeing(servers int, m mutant, faults explore.Faults, stored string, clients ...[]string) func() *explore.World {
	return func() *explore.World {
		w := &explore.World{Faults: faults}
		for range servers {
			s := &model.Server{}
			if stored != "" {
				s.Put("k", model.Item{Value: stored, CAS: 1 << 62})
			}
			w.Servers = append(w.Servers, s)
		}
		for i, commands := range clients {
			w.Workers = append(w.Workers, &explore.Worker{
				Middleware: i, Driver: &agree{number: i, servers: servers, mutant: m}, Commands: slices.Clone(commands),
			})
		}
		return w
	}
}

// sameEverywhere is the first promise: all servers that hold the key hold the same.
func sameEverywhere(w *explore.World) error {
	values := map[string]bool{}
	for _, s := range w.Servers {
		if it, ok := s.Get("k"); ok {
			values[it.Value] = true
		}
	}
	if len(values) > 1 {
		return fmt.Errorf("the servers hold %v", slices.Sorted(maps.Keys(values)))
	}
	return nil
}

// noneOlder is the second promise: behind a set or delete that was answered, no server holds a value whose write was answered before it
// began.
func noneOlder(w *explore.World) error {
	history := w.History()
	for _, newer := range history {
		verb := strings.Fields(newer.Command)[0]
		if newer.Ended == 0 || verb != "set" && verb != "delete" {
			continue
		}
		for _, older := range history {
			words := strings.Fields(older.Command)
			if older.Ended == 0 || older.Ended > newer.Began || len(words) < 2 || !strings.HasSuffix(older.Answer, "HD") {
				continue
			}
			for s, server := range w.Servers {
				if it, ok := server.Get("k"); ok && it.Value == words[1] {
					return fmt.Errorf("server %d holds %s behind %q", s, it.Value, newer.Command)
				}
			}
		}
	}
	return nil
}

// linear is the third promise: the answers are those of one memcached that served the commands one after the other, each between its
// beginning and its end.
func linear(stored string) func(w *explore.World) error {
	return func(w *explore.World) error {
		value := stored
		if stored == "" {
			value = "-"
		}
		if !explore.Linear(w.History(), value, served) {
			return errors.New("the answers are those of no order")
		}
		return nil
	}
}

// served returns the value behind o, and whether it can have been answered as it was.
func served(o explore.Operation, value string) (after string, ok bool) {
	after, answer := one(o.Command, value)
	switch {
	case answer == o.Answer:
		return after, true
	case strings.HasPrefix(o.Command, "swap"):
		// It is two commands; a write between them makes it fail.
		return value, strings.HasSuffix(o.Answer, "EX") || strings.HasSuffix(o.Answer, "NF")
	}
	return value, false
}

// one returns what a command makes of the value, "-" for none, and its answer.
func one(command, value string) (after, answer string) {
	words := strings.Fields(command)
	switch {
	case words[0] == "set":
		return words[1], "HD"
	case words[0] == "delete":
		return "-", "done"
	case words[0] == "add" && value == "-":
		return words[1], "HD"
	case words[0] == "add":
		return value, "NS"
	case words[0] == "swap" && value != "-":
		return words[1], value + " HD"
	case words[0] == "swap":
		return value, "NF"
	case words[0] == "get":
		if value == "-" {
			return value, ""
		}
		return value, value
	case value == "-":
		return value, "NF"
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return value, "CLIENT_ERROR"
	}
	return strconv.Itoa(n + 1), strconv.Itoa(n + 1)
}

// distinguishable returns an error if a sweep, which compares versions, could not see that servers differ. What it sees it cuts.
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

func TestReplicasAgreeBehindSeveralMiddlewares(t *testing.T) {
	type run struct {
		servers int
		stored  string
		faults  explore.Faults
		clients [][]string
	}
	var runs []run
	commands := []string{"set 1", "delete", "add 2", "swap 3", "incr"}
	pairs := func(servers int, stored string, faults explore.Faults) {
		for i, a := range commands {
			for _, b := range commands[i:] {
				runs = append(runs, run{servers, stored, faults, [][]string{{a}, {strings.Replace(b, "1", "5", 1)}}})
			}
		}
	}
	eviction := explore.Faults{Evictions: 1, Key: "k"}
	death := explore.Faults{Deaths: 1}
	pairs(2, "9", explore.Faults{}) // an incr makes it a digit longer
	if mctest.Long() {
		pairs(2, "", explore.Faults{})
		pairs(2, "7", explore.Faults{})
		pairs(2, "9", eviction)
		pairs(2, "9", death)
		pairs(3, "", explore.Faults{})
		runs = append(runs, run{2, "", explore.Faults{}, [][]string{{"set 1"}, {"set 5", "delete"}}},
			run{2, "", explore.Faults{}, [][]string{{"set 1"}, {"delete", "set 5"}}},
			run{2, "7", explore.Faults{}, [][]string{{"set 1"}, {"incr", "incr"}}},
			run{2, "7", explore.Faults{}, [][]string{{"incr", "get"}, {"swap 3", "get"}}})
	}
	var states, ends int
	for _, r := range runs {
		died := r.faults.Deaths > 0
		result, failure := explore.All(agreeing(r.servers, "", r.faults, r.stored, r.clients...), 3_000_000, explore.Checks{
			Always: noneOlder,
			AtEnd: func(w *explore.World) error {
				switch {
				case died:
					return distinguishable(w)
				case r.faults.Evictions > 0: // the third promise is not for them
					return sameEverywhere(w)
				}
				return errors.Join(sameEverywhere(w), linear(r.stored)(w))
			},
		})
		require.Nil(t, failure, "%d servers that hold %q, %+v, %q: %v", r.servers, r.stored, r.faults, r.clients, failure)
		states, ends = states+result.States, ends+result.Ends
	}
	t.Logf("%d histories, %d states, %d ends", len(runs), states, ends)
}

func TestEveryFaultPutIntoTheProtocolIsFound(t *testing.T) {
	for _, tc := range []struct {
		mutant  mutant
		stored  string
		clients [][]string
	}{
		{noCheck, "", [][]string{{"set 1"}, {"set 7"}}},
		{earlyCheck, "", [][]string{{"set 1"}, {"set 7"}}},
		{healByCopy, "", [][]string{{"set 1"}, {"set 7", "delete"}}},
		{serversCAS, "", [][]string{{"set 1"}, {"set 7"}}},
		{incrWithoutVersion, "7", [][]string{{"incr"}, {"incr"}}},
	} {
		t.Run(string(tc.mutant), func(t *testing.T) {
			r, failure := explore.All(agreeing(2, tc.mutant, explore.Faults{}, tc.stored, tc.clients...), 1_000_000,
				explore.Checks{Always: noneOlder, AtEnd: sameEverywhere})
			require.NotNil(t, failure, "%d states", r.States)
			assert.NotContains(t, failure.Error(), "states")
		})
	}
}
