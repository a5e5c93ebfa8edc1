package plan_test

import (
	"fmt"
	"slices"
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

// refillWorld is a world with two middlewares, each with a client, in front of two servers. One server, the target, has
// lost what it held. It is refilled from the other one, and then read again. A write that a server missed is known to
// both middlewares before it is answered, as marks see to.
type refillWorld struct {
	target    int
	clients   [2][]string
	faults    explore.Faults
	refillers int // that refill at the same time; 0: 1

	// Faults put into the protocol.
	fault sweep.Refill // its faults
	// early: copies are checked while writes may still be on their way. seen: the target is read before the check.
	// hasty: it is read when the first of the refillers has ended. trusts: a source that missed a write counts. kept:
	// what a refiller that was cut off has copied stays.
	early, seen, hasty, trusts, kept bool
}

const (
	copyIt  = "copy"
	checkIt = "check"
)

// refillDriver is the explore.Driver of a middleware's worker that refills the target.
type refillDriver struct {
	idler
	m       *refillWorld
	world   *explore.World
	missed  map[int]bool
	r       *sweep.Refill
	out     [2]string
	waiting int // the server that has not answered; -1: none
	failed  bool
	// under are, by client, how many commands it had left when the copy was added while it waited for an answer; -1: it
	// did not wait.
	under [2]int
}

func (d *refillDriver) Start(command string) {
	switch {
	case command == copyIt:
		fault := d.m.fault
		fault.Key, fault.Source, fault.Target = protocol.KeyText{Text: []byte("k")}, 1-d.m.target, d.m.target
		d.r = &fault
	case d.failed || !d.r.Pending():
		return
	default:
		d.r.Check(0)
	}
	d.ask()
}

func (d *refillDriver) ask() {
	for s := range d.out {
		if op, asks := d.r.Ask(s); asks {
			d.out[s], d.waiting = string(op.Bytes()), s
			return
		}
	}
}

func (d *refillDriver) Reply(server int, reply string) {
	d.r.Answer(server, []byte(reply))
	if d.waiting = -1; d.missed[1-d.m.target] && !d.m.trusts {
		d.r.Doubt()
	}
	if d.r.Next() {
		d.ask()
		return
	}
	for i := range d.under {
		d.under[i] = -1
		if w := d.world.Workers[2*i]; w.Running() {
			d.under[i] = len(w.Commands)
		}
	}
}

func (d *refillDriver) Lost(int) {
	if d.waiting >= 0 {
		d.failed, d.waiting = true, -1
	}
}

func (d *refillDriver) Out(server int) string {
	out := d.out[server]
	d.out[server] = ""
	return out
}

func (d *refillDriver) Busy() bool { return d.waiting >= 0 }

// ended reports whether no copy is left that was not checked, or the target is flushed because of one.
func (d *refillDriver) ended() bool {
	return d.r != nil && d.waiting < 0 && (d.failed || d.r.Outcome() != sweep.TransferOpen)
}

func (d *refillDriver) AppendState(dst []byte) []byte {
	return fmt.Appendf(dst, "%+v %q %d %t %v", d.r, d.out, d.waiting, d.failed, d.under)
}

// refillClient is the worker of a client's middleware. Like every worker it refuses reads of servers that are not read.
type refillClient struct{ *driver }

func (c refillClient) Start(command string) {
	c.driver.Start(command)
	refused := func(s int) bool { return !c.planner.Servers[s].Readable && len(c.waiting[s]) > 0 }
	for command == getKey && (refused(0) || refused(1)) {
		c.Lost(0)
		c.Lost(1)
	}
}

// reader lets a middleware read the target.
type reader struct {
	idler
	of        *driver
	target    *model.Server
	at        int
	refillers []*refillDriver
	kept      bool
}

func (r *reader) Start(string) {
	for _, d := range r.refillers {
		if d.failed && !r.kept {
			r.target.Evict("k")
			d.failed = false
		}
	}
	if r.of.missed[r.at] { // the prober cleans it
		r.target.Evict("k")
		r.of.missed[r.at] = false
	}
	r.of.planner.Servers[r.at].Readable = true
}

// explore explores what can happen, at most limit states.
func (m *refillWorld) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	router := newRouter(t, 2, route.ReadRoundRobin)
	return explore.UpTo(func() *explore.World {
		w := &explore.World{Faults: m.faults, Servers: []*model.Server{{}, {}}}
		w.Servers[1-m.target].Put("k", model.Item{Value: before, CAS: initialVersion})
		missed := map[int]bool{}
		var refillers []*refillDriver
		for range max(m.refillers, 1) {
			refillers = append(refillers, &refillDriver{
				m: m, world: w, missed: missed, waiting: -1,
				under: [2]int{-1, -1},
			})
		}
		for i, commands := range m.clients {
			d := drive(t, router, replica.AckLive, plan.NewVersions(uint64(100*i), 1))
			d.missed = missed
			d.planner.Servers[m.target].Readable = false
			w.Workers = append(w.Workers, member(i, refillClient{d}, commands, &reader{
				of: d, target: w.Servers[m.target], at: m.target, refillers: refillers, kept: m.kept,
			}, "read")...)
		}
		for i, d := range refillers {
			w.Workers = append(w.Workers, &explore.Worker{
				Silent: true, Middleware: 4 + i, Driver: d, Commands: []string{copyIt, checkIt},
			})
		}
		w.May = func(w *explore.World, i int) bool {
			switch {
			case i < 4 && i%2 == 0:
				return true
			case i < 4: // a middleware reads the target when all refillers have ended
				ended := func(d *refillDriver) bool { return d.ended() || m.seen && d.r != nil && d.r.Pending() }
				if m.hasty {
					return slices.ContainsFunc(refillers, ended)
				}
				return !slices.ContainsFunc(refillers, func(d *refillDriver) bool { return !ended(d) })
			case m.early || w.Workers[i].Commands[0] == copyIt:
				return true
			}
			// What was under way when the copy was added has ended.
			for c, left := range refillers[i-4].under {
				if left >= 0 && w.Workers[2*c].Running() && len(w.Workers[2*c].Commands) == left {
					return false
				}
			}
			return true
		}
		return w
	}, limit, explore.Checks{Always: noneReadOlder})
}

func TestNoReadIsOlderThanAnAcknowledgedWriteAfterAServerWasRefilled(t *testing.T) {
	computes(t)
	clients := [][2][]string{
		{{deleteKey, getKey}, {getKey, getKey}},
		{{setTen, deleteKey}, {getKey, getKey}},
		{{deleteKey}, {setTen, getKey, getKey}},
		{{setTen}, {setTwenty, getKey, getKey}},
		{{"touch k -1\r\n"}, {deleteKey, getKey}},
		{{"md k I\r\n"}, {setTen, getKey}},
	}
	limit, sum := migrationStates(), newTally(t)
	for _, m := range []refillWorld{
		{}, {refillers: 2}, {faults: explore.Faults{Evictions: 1, Key: "k"}}, {faults: explore.Faults{Breaks: 1}},
	} {
		for m.target = range 2 {
			for _, m.clients = range clients {
				r, failure := m.explore(t, limit)
				sum.holds(r, failure, "%+v", m)
				require.NotZero(t, r.Ends)
			}
		}
	}
}

func TestEveryFaultInjectedIntoARefillIsFound(t *testing.T) {
	computes(t)
	deletes := [2][]string{{deleteKey}, {getKey, getKey}}
	finds(t, map[string]refillWorld{
		"a copy that is not checked":           {fault: sweep.Refill{Unchecked: true}, clients: deletes},
		"a copy that is checked too early":     {early: true, clients: deletes},
		"a copy that is read before the check": {seen: true, clients: deletes},
		"a copy that is not compared by version": {
			fault:   sweep.Refill{Unversioned: true},
			clients: [2][]string{{deleteKey}, {setTen, getKey, getKey}},
		},
		"a copy that replaces what the target has": {
			fault:   sweep.Refill{Overwrites: true, Unchecked: true},
			clients: [2][]string{{setTen}, {getKey, getKey}},
		},
		"a refiller that is not waited for": {hasty: true, refillers: 2, clients: deletes},
		"a source that has missed a write": {
			trusts: true, faults: explore.Faults{Breaks: 1}, clients: deletes,
		},
		"copies that stay though they could not be checked": {
			kept: true, faults: explore.Faults{Breaks: 1}, clients: deletes,
		},
	}, func(t *testing.T, _ string, m refillWorld) (r explore.Result, found *explore.Failure) {
		for m.target = 0; found == nil && m.target < 2; m.target++ {
			r, found = m.explore(t, 1_000_000)
		}
		return r, found
	})
}
