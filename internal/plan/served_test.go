package plan_test

import (
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
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// unguarded is what a mutant does not do as it must.
type unguarded uint8

const (
	guarded   unguarded = iota
	neverBars           // a write does not begin
	barsLate            // a write begins when the first server has answered
	freesSoon           // a write ends when it was sent
	tokenLate           // a value gets its token when it has come
	tokenBusy           // a token is taken that is not free
)

// served are the values that readers answer with, of one key. One of the drivers of a world asks for it, as a client, before a server is asked;
// others write it, or fetch its value.
type served struct {
	values *hotkeys.Values
	entry  *hotkeys.Entry
	mutant unguarded
	log    []string // what was said to values, in order
}

func newServed(t *testing.T, mutant unguarded) *served {
	v := &served{values: hotkeys.NewValues(time.Second), mutant: mutant}
	v.values.Serve([]string{"k"})
	require.Nil(t, v.values.Get([]byte("k"), 1))
	v.entry = v.values.Wanted(nil)[0]
	return v
}

func (v *served) begin() uint32 {
	v.log = append(v.log, "begin")
	return v.values.Begin([]byte("k"))
}

func (v *served) end(stripe uint32) {
	v.log = append(v.log, "end")
	v.values.End(stripe)
}

func (v *served) token() (hotkeys.Token, bool) {
	token, ok := v.values.Token(v.entry)
	return token, ok || v.mutant == tokenBusy
}

// servedDriver is a driver beside served.
type servedDriver struct {
	*driver
	served *served
	fills  bool // what it gets is put into served
	alone  bool // there is one server, and nobody locks

	writes bool // the write has begun
	stripe uint32
	token  hotkeys.Token
	free   bool
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
	case d.fills:
		d.token, d.free = d.served.token()
	case strings.HasPrefix(command, "get "):
		if d.hit = string(d.served.values.Get([]byte("k"), 1)); d.hit != "" {
			return
		}
	case d.served.mutant != neverBars && d.served.mutant != barsLate:
		d.stripe, d.writes = d.served.begin(), true
	}
	d.driver.Start(command)
	d.follow()
	if d.served.mutant == freesSoon {
		d.finish()
	}
}

func (d *servedDriver) Reply(server int, reply string) {
	if d.served.mutant == barsLate && !d.fills && !d.writes && !strings.HasPrefix(d.told[0], "get ") {
		d.stripe, d.writes = d.served.begin(), true
	}
	d.driver.Reply(server, reply)
	d.follow()
}

// follow does what is due when the command is served.
func (d *servedDriver) follow() {
	if d.driver.Busy() {
		return
	}
	d.finish()
	if !d.fills {
		return
	}
	if d.served.mutant == tokenLate {
		d.token, d.free = d.served.token()
	}
	answer, _ := d.driver.Answer()
	if fields := strings.Fields(answer); d.free && fields[0] == "VALUE" {
		reply := fmt.Sprintf("VALUE k %s %s\r\n%s\r\nEND\r\n", fields[2], fields[3], fields[5])
		d.served.log = append(d.served.log, fmt.Sprint("put ", d.token, reply))
		d.served.values.Put(d.served.entry, d.token, []byte(reply), 0)
	}
}

func (d *servedDriver) finish() {
	if d.writes {
		d.served.end(d.stripe)
		d.writes = false
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
	// Of all that was said to served, what counts is what is under way, and the last value since anything began.
	log, open := d.served.log, 0
	for _, said := range log {
		switch said {
		case "begin":
			open++
		case "end":
			open--
		}
	}
	last := ""
	if n := len(log); n > 0 && strings.HasPrefix(log[n-1], "put") {
		last = log[n-1]
	}
	now, _ := d.served.values.Token(d.served.entry)
	dst = fmt.Appendf(dst, "%d %q %t %t %q %t ", open, string(d.served.values.Get([]byte("k"), 1))+last, d.writes, d.free, d.hit, d.token == now)
	return d.driver.AppendState(dst)
}

// servedWorld has a worker for each write, one that fetches the value, and one whose client asks.
func servedWorld(t *testing.T, servers int, mutant unguarded, fills int, writes ...string) func() *explore.World {
	return func() *explore.World {
		v, w := newServed(t, mutant), &explore.World{}
		for range servers {
			w.Servers = append(w.Servers, stored.Clone())
		}
		add := func(fills bool, commands ...string) {
			d := &servedDriver{driver: newDriver(t, servers, replica.AckAll, route.ReadPrimary), served: v, fills: fills, alone: servers == 1}
			w.Workers = append(w.Workers, &explore.Worker{Driver: d, Commands: slices.Clone(commands), Silent: fills})
		}
		for _, command := range writes {
			add(false, command)
		}
		add(true, slices.Repeat([]string{"gets k\r\n"}, fills)...)
		asks := 2
		if mutant == guarded && len(writes) > 1 {
			asks = 1 // two make many states
		}
		add(false, slices.Repeat([]string{"get k\r\n"}, asks)...)
		return w
	}
}

func TestAnswersFromMemoryAreThoseOfOneMemcachedInEveryOrderOfMessages(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	set, incr, remove := exploredCommands[0], "incr k 1\r\n", "delete k\r\n"
	worlds, fills := map[int][][]string{1: {{set, remove}}, 2: {{incr}}}, 1
	if mctest.Long() {
		worlds, fills = map[int][][]string{1: {{set, incr}, {set, remove}, {incr, remove}}, 2: {{set, incr}, {set, remove}, {incr, remove}}}, 2
	}
	linearly := explore.Checks{AtEnd: func(w *explore.World) error { return linear(w, &stored) }}
	states := 0
	for servers, pairs := range worlds {
		for _, writes := range pairs {
			r, failure := explore.All(servedWorld(t, servers, guarded, fills, writes...), 1_000_000, linearly)
			require.Nil(t, failure, "%q, %d servers: %v", writes, servers, failure)
			states += r.States
		}
	}
	t.Logf("%d states", states)
	for mutant := neverBars; mutant <= tokenBusy; mutant++ {
		_, failure := explore.All(servedWorld(t, 1, mutant, 1, set, remove), 1_000_000, linearly)
		assert.NotNil(t, failure, "mutant %d is not found", mutant)
	}
}
