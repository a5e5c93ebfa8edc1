package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/plan"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// unguarded is a fault in the use of served values.
type unguarded uint8

const (
	guarded   unguarded = iota
	neverBars           // a write does not call Begin
	barsLate            // a write calls Begin when the first server has answered
	freesSoon           // a write calls End when it was sent
	tokenLate           // a value gets its token when it has arrived
	tokenBusy           // a token is used although a write is in progress
	keepsBusy           // a written value is kept although another write was in progress when it began
	keepsLate           // a written value is kept although another write has begun since
)

// served are the values of one key with which readers answer. Some drivers of a world read the key, like clients, from
// there or from a server; others write it.
type served struct {
	values *hotkeys.Values
	wanted uint64
	mutant unguarded
	open   int // writes in progress
	kept   *int
}

// newServed returns values that hold what the servers hold at first.
func newServed(t *testing.T, mutant unguarded, kept *int) *served {
	v := &served{values: hotkeys.NewValues(time.Second, 1<<20), mutant: mutant, kept: kept}
	for v.wanted == 0 {
		_, v.wanted, _ = v.values.Append([]byte{}, []byte("k"), hotkeys.Plain, 1)
	}
	token, ok := v.token()
	require.True(t, ok)
	v.put(token, held(&stored))
	require.NotEmpty(t, v.get())
	return v
}

// held returns a server's answer to a get, "" if it has no value.
func held(s *model.Server) string {
	if it, ok := s.Get("k"); ok {
		return fmt.Sprintf("VALUE k %d %d\r\n%s\r\nEND\r\n", it.Flags, len(it.Value), it.Value)
	}
	return ""
}

func (v *served) get() string {
	reply, _, _ := v.values.Append([]byte{}, []byte("k"), hotkeys.Plain, 1)
	return string(reply)
}

func (v *served) token() (hotkeys.Token, bool) {
	token, ok := v.values.Token(v.wanted)
	return token, ok || v.mutant == tokenBusy
}

// put keeps reply, and serves it once: a written value only replaces one that was served.
func (v *served) put(token hotkeys.Token, reply string) {
	v.values.Put(v.wanted, token, []byte("k"), []byte(reply), 0, time.Hour)
	v.get()
}

// servedDriver is a driver whose gets are answered from served if it has the value.
type servedDriver struct {
	*driver
	served *served
	alone  bool // there is one server, and requests take no locks

	writes bool          // a write has begun
	write  hotkeys.Write // that write
	first  bool          // no other write was in progress
	token  hotkeys.Token // of the value that is fetched or written
	free   bool          // a value is being fetched to be kept
	hit    string
}

func (d *servedDriver) Locks(command string) ([]string, bool) {
	if d.alone {
		return nil, false
	}
	return d.driver.Locks(command)
}

func (d *servedDriver) Start(command string) {
	d.hit = ""
	switch {
	case strings.HasPrefix(command, "get "):
		if d.hit = d.served.get(); d.hit != "" {
			return
		}
		d.token, d.free = d.served.token()
		d.driver.tells = d.free
	case d.served.mutant != neverBars && d.served.mutant != barsLate:
		d.begin()
	}
	d.driver.Start(command)
	d.follow()
	if d.served.mutant == freesSoon {
		d.finish()
	}
}

func (d *servedDriver) Reply(server int, reply string) {
	if d.served.mutant == barsLate && !d.writes && !strings.HasPrefix(d.told[0], "get ") {
		d.begin()
	}
	d.driver.Reply(server, reply)
	d.follow()
}

// follow does what is due when the command has been served.
func (d *servedDriver) follow() {
	if d.driver.Busy() {
		return
	}
	d.finish()
	if !d.free {
		return
	}
	d.free = false
	if d.served.mutant == tokenLate {
		d.token, _ = d.served.token()
	}
	if d.driver.lives {
		d.served.put(d.token, d.driver.fetched)
	}
}

func (d *servedDriver) begin() {
	_, d.first = d.served.values.Token(d.served.wanted)
	d.write, d.writes = d.served.values.Begin([]byte("k")), true
	d.token, _ = d.served.token()
	d.served.open++
}

// finish ends the write.
func (d *servedDriver) finish() {
	if !d.writes {
		return
	}
	if d.driver.whole {
		d.keep()
	}
	d.served.values.End(&d.write)
	d.served.open--
	d.writes, d.first = false, false
}

// keep keeps the written value.
func (d *servedDriver) keep() {
	reply := fmt.Sprintf("VALUE k 0 1\r\n%sEND\r\n", d.driver.request.Data)
	switch d.served.mutant {
	case keepsLate:
		d.token, _ = d.served.token()
		fallthrough
	case keepsBusy:
		d.served.put(d.token, reply)
		return
	}
	before := d.served.get()
	d.served.values.Keep(&d.write, hotkeys.Plain, 0, time.Hour, []byte(reply))
	if d.served.get() != before {
		*d.served.kept++
	}
}

func (d *servedDriver) Answer() (string, bool) {
	if d.hit != "" {
		return d.hit, true
	}
	return d.driver.Answer()
}

func (d *servedDriver) Busy() bool { return d.hit == "" && d.driver.Busy() }

func (d *servedDriver) AppendState(dst []byte) []byte {
	now, _ := d.served.values.Token(d.served.wanted)
	dst = fmt.Appendf(dst, "%d %q %t %t %t %q %t ", d.served.open, d.served.get(), d.writes, d.first, d.free, d.hit,
		d.token == now)
	return d.driver.AppendState(dst)
}

// servedWorld returns a world with a worker for each write, and one whose client reads several times.
func servedWorld(t *testing.T, servers int, mutant unguarded, kept *int, gets int,
	writes ...string,
) func() *explore.World {
	return func() *explore.World {
		v, w := newServed(t, mutant, kept), &explore.World{}
		for range servers {
			w.Servers = append(w.Servers, stored.Clone())
		}
		for _, commands := range append([][]string{slices.Repeat([]string{"get k\r\n"}, gets)},
			slices.Collect(slices.Chunk(writes, 1))...) {
			d := &servedDriver{
				driver: newDriver(t, servers, replica.AckAll, route.ReadPrimary), served: v,
				alone: servers == 1,
			}
			w.Workers = append(w.Workers, &explore.Worker{Driver: d, Commands: slices.Clone(commands)})
		}
		return w
	}
}

// current returns an error if readers would answer with another value than the servers.
func current(w *explore.World) error {
	if hot, held := w.Workers[0].Driver.(*servedDriver).served.get(), held(w.Servers[0]); hot != "" && hot != held {
		return fmt.Errorf("readers answer %q, servers %q", hot, held)
	}
	return nil
}

func TestAnswersFromMemoryAreThoseOfOneMemcachedInEveryOrderOfMessages(t *testing.T) {
	computes(t)
	set, second, incr, remove := exploredCommands[0], "set k 0 0 1\r\n5\r\n", "incr k 1\r\n", "delete k\r\n"
	worlds, gets := map[int][][]string{1: {{set, remove}}, 2: {{set, incr}}}, 2
	if mctest.Long() {
		pairs := [][]string{{set, incr}, {set, remove}, {set, second}, {incr, remove}}
		worlds, gets = map[int][][]string{1: pairs, 2: pairs}, 3
	}
	checks := explore.Checks{AtEnd: func(w *explore.World) error { return errors.Join(current(w), linear(w, &stored)) }}
	states, kept := 0, 0
	for servers, pairs := range worlds {
		for _, writes := range pairs {
			r, failure := explore.All(servedWorld(t, servers, guarded, &kept, gets, writes...), 1_000_000, checks)
			require.Nil(t, failure, "%q, %d servers: %v", writes, servers, failure)
			states += r.States
		}
	}
	t.Logf("%d states", states)
	require.Positive(t, kept)
	for mutant := neverBars; mutant <= keepsLate; mutant++ {
		found := slices.ContainsFunc([]string{remove, incr}, func(other string) bool {
			_, failure := explore.All(servedWorld(t, 1, mutant, &kept, 2, set, other), 1_000_000, checks)
			return failure != nil
		})
		assert.True(t, found, "mutant %d is not found", mutant)
	}
}

func TestASetCountsAsStoredIfAllServersOfItsKeyHaveStoredIt(t *testing.T) {
	for _, versions := range []*plan.Versions{nil, plan.NewVersions(0, 1)} {
		for _, c := range []struct {
			command string
			replies [2]string // empty: none
			whole   bool
		}{
			{"set k 0 0 1\r\nx\r\n", [2]string{"STORED\r\n", "STORED\r\n"}, true},
			{"set k 0 0 1\r\nx\r\n", [2]string{"STORED\r\n", "SERVER_ERROR out of memory storing object\r\n"}, false},
			{"set k 0 0 1\r\nx\r\n", [2]string{"STORED\r\n", ""}, false},
			{"replace k 0 0 1\r\nx\r\n", [2]string{"STORED\r\n", "STORED\r\n"}, false},
			{"append k 0 0 1\r\nx\r\n", [2]string{"STORED\r\n", "STORED\r\n"}, false},
			{"ms k 1\r\nx\r\n", [2]string{"HD\r\n", "HD\r\n"}, false},
		} {
			if versions != nil && !strings.HasPrefix(c.command, "set ") {
				continue // the others take several steps
			}
			d := drive(t, newRouter(t, 2, route.ReadPrimary), replica.AckAny, versions)
			d.Start(c.command)
			for s, reply := range c.replies {
				switch {
				case reply == "":
					d.Lost(s)
				case versions != nil:
					d.Reply(s, strings.Replace(reply, "STORED", "HD", 1))
				default:
					d.Reply(s, reply)
				}
			}
			for s := range c.replies { // answer the repairs
				switch out := d.Out(s); {
				case strings.Contains(out, "delete k"):
					d.Reply(s, "DELETED\r\n")
				case strings.Contains(out, "md k"):
					d.Reply(s, "HD\r\n")
				}
			}
			require.True(t, d.done, "%q, %q", c.command, c.replies)
			assert.Equal(t, c.whole, d.whole, "%q, %q", c.command, c.replies)
		}
	}
}
