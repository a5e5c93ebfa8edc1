package plan_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/follow"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// unheld is a defect of a delivery with a tombstone, or of what respects it, that the explorer must find.
type unheld string

const (
	deleteFirst unheld = "the delete comes before the tombstone"
	buriedOnce  unheld = "a delivery that is repeated leaves no tombstone again"
	guardFirst  unheld = "the tombstone is looked for before the item is stored"
	blindGuard  unheld = "a tombstone that can't be read is none"
	noGuard     unheld = "nobody looks for the tombstone"
	// failedGuard is a fault, and no defect: no tombstone can be read.
	failedGuard unheld = "no tombstone can be read"
)

// grave is the key of k's tombstone.
var grave = func() string {
	op := follow.Bury(follow.Debt{Key: "k"}, 0)
	return string(op.KeyText().Key(nil))
}()

// deliverer is a driver that pays what a ledger owes to a server of the following pool, as follow.Follower does. After
// a break it has another connection. Meanwhile the tombstone expires.
type deliverer struct {
	defect unheld
	ledger *follow.Ledger
	server *model.Server
	to     int // its connection to the server
	other  int // that after a break

	left   []protocol.Op // what is to be sent for debt; the first is sent
	debt   follow.Debt
	broken bool
	out    string
}

func (*deliverer) Locks(string) ([]string, bool) { return nil, false }

func (d *deliverer) Start(string) { d.take() }

// take begins the next delivery.
func (d *deliverer) take() {
	d.left, d.out = nil, ""
	debts, _, _ := d.ledger.Take(1, false, time.Time{})
	if len(debts) == 0 {
		return
	}
	d.debt = debts[0]
	d.left = []protocol.Op{follow.Bury(d.debt, time.Second), follow.Delivery(d.debt, &follow.Present{}, false)}
	switch {
	case d.defect == deleteFirst:
		slices.Reverse(d.left)
	case d.defect == buriedOnce && d.broken:
		d.left = d.left[1:]
	}
	d.out = string(d.left[0].Bytes())
}

func (d *deliverer) Reply(_ int, reply string) {
	code, _, _ := strings.Cut(strings.TrimSpace(reply), " ")
	switch d.left = d.left[1:]; {
	case follow.Answered(code) != follow.Paid:
		panic(reply)
	case len(d.left) > 0:
		d.out = string(d.left[0].Bytes())
	default:
		d.ledger.Settle(d.debt, follow.Paid, time.Time{})
		d.take()
	}
}

func (d *deliverer) Lost(server int) {
	if server != d.to {
		return
	}
	d.to, d.broken = d.other, true
	if d.Busy() {
		d.server.Evict(grave)
		d.ledger.Settle(d.debt, follow.Lost, time.Time{})
		d.take()
	}
}

func (d *deliverer) Out(server int) (out string) {
	if server == d.to {
		out, d.out = d.out, ""
	}
	return out
}

func (d *deliverer) Answer() (string, bool) { return "", !d.Busy() }
func (d *deliverer) Busy() bool             { return len(d.left) > 0 }

func (d *deliverer) AppendState(dst []byte) []byte {
	return fmt.Appendf(dst, "%d %q %d %t", len(d.left), d.out, d.to, d.broken)
}

// filler is a driver of a middleware of the following pool, whose clients fill it.
type filler struct {
	*driver
	defect unheld
}

var shownCAS = regexp.MustCompile(` c(\d+)`)

func isGuard(line string) bool { return strings.HasPrefix(line, "mg bWNtdyB0") }

func (r *filler) Out(server int) string {
	if server >= len(r.out) {
		return ""
	}
	out := r.driver.Out(server)
	if at := strings.Index(out, "mg bWNtdyB0"); r.defect == guardFirst && at > 0 {
		waiting := r.waiting[server]
		slices.Reverse(waiting[len(waiting)-2:])
		return out[at:] + out[:at]
	}
	return out
}

func (r *filler) Reply(server int, reply string) {
	if isGuard(string(r.planner.Calls[r.waiting[server][0]].Bytes[0])) {
		switch r.defect {
		case failedGuard:
			reply = "SERVER_ERROR out of memory\r\n"
		case blindGuard:
			reply = "EN\r\n"
		}
	}
	r.driver.Reply(server, reply)
	if m := shownCAS.FindStringSubmatch(r.answer.String()); m != nil {
		r.token = m[1]
	}
}

func (r *filler) Lost(server int) {
	if server < len(r.out) {
		r.driver.Lost(server)
	}
}

// Rows that readers put into the cache: one fetched it from a database that lags behind; one leases the key first.
var (
	addOld   = []string{"add k 0 0 3\r\nold\r\n"}
	leaseOld = []string{"mg k N30 c\r\n", "ms k 3 C$\r\nold\r\n"}
)

// heldWorld returns a world of a following pool of that many servers, which lose the key k, and of readers, each of a
// middleware of its own. versions: the middlewares are several writers. through: the deliveries go through another one
// of them, otherwise to the servers.
func heldWorld(t *testing.T, servers int, versions, through bool, defect unheld, faults explore.Faults,
	readers ...[]string,
) func() *explore.World {
	router := newRouter(t, servers, route.ReadPrimary)
	return func() *explore.World {
		w := &explore.World{Faults: faults}
		for range servers {
			s := &model.Server{}
			s.Put("k", model.Item{Value: "older", CAS: initialVersion})
			w.Servers = append(w.Servers, s)
		}
		w.Servers = append(w.Servers, w.Servers...)
		add := func(silent bool, d explore.Driver, commands ...string) {
			w.Workers = append(w.Workers, &explore.Worker{
				Middleware: len(w.Workers), Driver: d, Commands: slices.Clone(commands), Silent: silent,
			})
		}
		region := func() *filler {
			var v *plan.Versions
			if versions {
				v = plan.NewVersions(uint64(100*len(w.Workers)), 1)
			}
			d := driveWith(t, router, replica.AckAll, v, func(o *plan.Options) { o.Pools[0].Holds = defect != noGuard })
			d.token, d.lies = "1", true
			return &filler{driver: d, defect: defect}
		}
		for s := range servers {
			if through {
				break
			}
			ledger := follow.NewLedger(1 << 20)
			ledger.Owe([]byte("k"), false, time.Time{})
			add(true, &deliverer{
				defect: defect, ledger: ledger, server: w.Servers[s], to: s, other: servers + s,
			}, "deliver")
		}
		if through {
			bury, remove := follow.Bury(follow.Debt{Key: "k"}, time.Second),
				follow.Delivery(follow.Debt{Key: "k"}, &follow.Present{}, false)
			delivery := []string{string(bury.Bytes()), string(remove.Bytes())}
			if defect == deleteFirst {
				slices.Reverse(delivery)
			}
			add(true, region(), delivery...)
		}
		for _, commands := range readers {
			add(false, region(), commands...)
		}
		return w
	}
}

// stays returns an error if a server holds an old row after all deliveries, and will not lose it: no middleware knows
// that it has missed a write.
func stays(w *explore.World) error {
	missed := map[int]bool{}
	for _, worker := range w.Workers {
		switch d := worker.Driver.(type) {
		case *filler:
			for s := range d.missed {
				missed[s] = true
			}
		case *deliverer:
			if s := d.ledger.State(time.Time{}); !s.Clear() {
				return nil
			}
		}
	}
	for s, server := range w.Servers[:len(w.Servers)/2] {
		if it, ok := server.Get("k"); ok && it.Value == "old" && !missed[s] {
			return fmt.Errorf("server %d holds an old row", s)
		}
	}
	return nil
}

func TestAnOldRowDoesNotStayAfterADeliveredDelete(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	breaks := explore.Faults{Breaks: 1}
	for _, c := range []struct {
		name              string
		servers           int
		versions, through bool
		defect            unheld
		faults            explore.Faults
		readers           [][]string
	}{
		{name: "one server", servers: 1, readers: [][]string{addOld, leaseOld}},
		{name: "one server, with a break", servers: 1, faults: breaks, readers: [][]string{addOld}},
		{name: "no tombstone can be read", servers: 1, defect: failedGuard, readers: [][]string{addOld, leaseOld}},
		{name: "through another middleware", servers: 1, through: true, readers: [][]string{addOld, leaseOld}},
		{name: "two servers, of one writer", servers: 2, readers: [][]string{addOld}},
		{name: "two servers", servers: 2, versions: true, readers: [][]string{addOld}},
		{name: "two servers, leased", servers: 2, versions: true, readers: [][]string{leaseOld}},
		{name: "two servers, with a break", servers: 2, versions: true, faults: breaks, readers: [][]string{addOld}},
		{
			name: "two servers, through another middleware", servers: 2, versions: true, through: true,
			readers: [][]string{addOld},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limit := 4000
			if mctest.Long() {
				limit = 60_000
			}
			build := heldWorld(t, c.servers, c.versions, c.through, c.defect, c.faults, c.readers...)
			result, failure := explore.UpTo(build, limit, explore.Checks{AtEnd: stays})
			require.Nil(t, failure, "%v", failure)
			assert.Positive(t, result.Ends)
			assert.False(t, mctest.Long() && result.Cut, "there are more states")
		})
	}
}

func TestTheExplorerFindsDefectsOfTombstones(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	for _, c := range []struct {
		defect  unheld
		through bool
		faults  explore.Faults
	}{
		{defect: noGuard},
		{defect: deleteFirst},
		{defect: deleteFirst, through: true},
		{defect: buriedOnce, faults: explore.Faults{Breaks: 1}},
		{defect: guardFirst},
		{defect: blindGuard},
		{faults: explore.Faults{Deaths: 1}}, // no defect, but a limit: a middleware dies before it has undone its store
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			build := heldWorld(t, 1, false, c.through, c.defect, c.faults, addOld)
			_, failure := explore.UpTo(build, 400_000, explore.Checks{AtEnd: stays})
			require.NotNil(t, failure)
			t.Log(failure)
		})
	}
}
