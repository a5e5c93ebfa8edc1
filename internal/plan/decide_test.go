package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/plan"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// term is what a middleware lets a key's first server do.
type term int

const (
	reigns   term = iota // it decides
	fails                // it is marked, but not all middlewares know
	replaced             // all know
	returns              // it is clean, but not all know
	reignsAgain
)

// decidersWorld is a world with two middlewares, each with a client, whose first server fails and returns. All that
// they know of each other is that no term of one is replaced while one of the other reigns.
type decidersWorld struct {
	servers int
	stored  string
	clients [2][]string
	// begins and ends are the terms at first and at last.
	begins, ends term
	cut          bool // no request reaches the first server while it fails or is replaced
	check        func(w *explore.World) error

	// Faults put into the protocol.
	atOnce   bool // the next server decides as soon as the first one fails
	returned bool // the first server decides as soon as it is clean
	blind    bool // a decision counts although its server has ceased to decide
	mutant   mutant
}

// electedWorker is the worker of a middleware.
type electedWorker struct {
	*driver
	world *decidersWorld
	term  term
	first int
}

func (w *electedWorker) enter(to term) {
	w.term = to
	s := &w.planner.Servers[w.first]
	s.Readable = to == reigns || to >= returns
	s.Decides, s.Replaced = to == reigns || to == reignsAgain, to == replaced
	if (to == fails || to == returns) && !w.world.blind {
		s.Turn++
	}
}

func (w *electedWorker) AppendState(dst []byte) []byte {
	return w.driver.AppendState(fmt.Appendf(dst, "%d %d ", w.term, w.planner.Servers[w.first].Turn))
}

// voter takes a middleware through the terms.
type voter struct {
	idler
	of      *electedWorker
	servers []*model.Server
}

func (v *voter) Start(string) {
	w := v.of
	w.enter(w.term + 1)
	w.loseUnreached()
	if w.term != returns {
		return
	}
	for s := range v.servers {
		if w.missed[s] { // the prober cleans it
			v.servers[s].Evict("k")
			w.missed[s] = false
		}
	}
}

// explore explores what can happen, at most limit states.
func (m *decidersWorld) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	router := newRouter(t, m.servers, route.ReadPrimary)
	first := router.Primary([]byte("k"))
	return explore.UpTo(func() *explore.World {
		w := &explore.World{}
		for range m.servers {
			s := &model.Server{}
			if m.stored != "" {
				s.Put("k", model.Item{Value: m.stored, CAS: initialVersion})
			}
			w.Servers = append(w.Servers, s)
		}
		var middlewares [2]*electedWorker
		for i, commands := range m.clients {
			agreed := func(o *plan.Options) { o.Pools[0].Agreed = true }
			d := driveWith(t, router, replica.AckLive, plan.NewVersions(uint64(100*i), 1), agreed)
			worker := &electedWorker{world: m, first: first, driver: d}
			worker.mutant = m.mutant
			worker.unreached = func(s int) bool {
				return m.cut && s == first && (worker.term == fails || worker.term == replaced)
			}
			for s := range worker.planner.Servers {
				worker.planner.Servers[s].Decides = true
			}
			worker.enter(m.begins)
			middlewares[i] = worker
			w.Workers = append(w.Workers, member(i, worker, commands, &voter{of: worker, servers: w.Servers},
				slices.Repeat([]string{step}, int(m.ends-m.begins))...)...)
		}
		w.May = func(_ *explore.World, i int) bool {
			mine, other := middlewares[i/2], middlewares[1-i/2]
			switch {
			case i%2 == 0: // it waits
				return mine.term != fails && mine.term != returns
			case mine.term == fails:
				return m.atOnce || other.term != reigns
			case mine.term == returns:
				return m.returned || other.term >= returns
			}
			return true
		}
		return w
	}, limit, explore.Checks{AtEnd: m.check})
}

// oneWinner returns an error if two commands have both won what only one can win.
func oneWinner(w *explore.World) error {
	won := map[string]bool{}
	for _, o := range w.History() {
		if slices.Contains([]string{"NOT_STORED\r\n", "EXISTS\r\n", "NOT_FOUND\r\n"}, o.Answer) ||
			strings.HasPrefix(o.Answer, "SERVER_ERROR") {
			continue
		}
		if won[o.Answer] {
			return fmt.Errorf("two commands were answered %q", o.Answer)
		}
		won[o.Answer] = true
	}
	return nil
}

var contests = []struct{ stored, command string }{
	{"", agreedCommands[2]},
	{"9", agreedCommands[3]},
	{"9", agreedCommands[4]},
	{"5", agreedCommands[4]},
}

func TestNoTwoCommandsWinOneItemWhileItsFirstServerFailsAndReturns(t *testing.T) {
	computes(t)
	sum := newTally(t)
	for _, c := range contests {
		for _, half := range halves {
			m := decidersWorld{servers: 2, stored: c.stored, begins: half[0], ends: half[1]}
			m.clients = [2][]string{{c.command}, {second(c.command)}}
			m.mutant, m.check = noCheck, oneWinner
			for _, m.cut = range []bool{false, true} {
				if m.cut && half[0] != reigns {
					continue // the server comes back without what it has missed
				}
				r, failure := m.explore(t, wholeStates)
				sum.holds(r, failure, "%q, cut off %t", m.clients, m.cut)
				require.False(t, r.Cut)
			}

			m.cut, m.mutant, m.check = false, "", alikeAfterReturn
			limit := mostStates / 4
			if mctest.Long() {
				limit = 10 * mostStates
			}
			r, failure := m.explore(t, limit)
			sum.holds(r, failure, "with checks, %q", m.clients)
		}
	}
}

// halves are the first and last terms of what is explored: the server fails; it returns.
var halves = [][2]term{{reigns, replaced}, {replaced, reignsAgain}}

// alikeAfterReturn is alike for a world of electedWorkers.
func alikeAfterReturn(w *explore.World) error {
	values := map[string]bool{}
	for s, server := range w.Servers {
		missed := false
		for i := 0; i < len(w.Workers); i += 2 {
			missed = missed || w.Workers[i].Driver.(*electedWorker).missed[s]
		}
		if it, ok := server.Get("k"); ok && !missed {
			values[it.Value] = true
		}
	}
	if len(values) > 1 {
		return fmt.Errorf("the servers hold %v", values)
	}
	return nil
}

func TestEveryFaultInjectedIntoTheElectionOfADeciderIsFound(t *testing.T) {
	computes(t)
	for name, m := range map[string]decidersWorld{
		"the next server decides at once":            {atOnce: true, mutant: noCheck, check: oneWinner},
		"a server that has returned decides at once": {returned: true, mutant: noCheck, check: oneWinner},
		"a decision counts after its server's term":  {blind: true, mutant: noCheck, check: oneWinner},
		string(keptResult):                           {mutant: keptResult, check: alikeAfterReturn},
	} {
		t.Run(name, func(t *testing.T) {
			found := false
			for k := 0; k < 2*len(contests) && !found; k++ {
				c, half := contests[k/2], halves[k%2]
				m.servers, m.stored, m.begins, m.ends = 2, c.stored, half[0], half[1]
				m.clients = [2][]string{{c.command}, {second(c.command)}}
				r, failure := m.explore(t, mostStates)
				t.Logf("%q: %+v, %v", m.clients, r, failure)
				found = failure != nil
			}
			assert.True(t, found)
		})
	}
}
