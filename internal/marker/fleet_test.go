package marker

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/mctest"
)

// A model of the marks that all middlewares of a fleet respect while they run. n servers hold the one key. Two middlewares write it, one write after the
// other; each can lose its connection to any server. Servers restart empty; a middleware dies and is started again. The rules:
//
//   - A writer marks the servers that missed its write. The marks come into force when a look of the writer, begun after the last of them was stored,
//     finds them on enough witnesses. They stay in force until a look does not find them, or one of them has to be stored again. The writer answers the write
//     when they have been in force for the time that a look is relied on, a look begun after that has found them again, and while it may rely on its last look.
//   - A reader relies on a look at so many witnesses that every mark in force is on one of them, and does not read a server that others have marked.
//   - A server that has restarted is no witness until a middleware has copied marks to it: those of a look on which the middleware could still rely when it
//     noticed the restart. So marks survive the restart of any number of servers. A mark that this middleware doesn't know came into force after that look
//     began. Before its writer may answer, the writer has to find the mark a second time, and then does not find it on that server.
//   - A middleware removes its own marks after the server is clean. The marks of a dead middleware are removed by the one that has cleaned the server.
//
// Not modelled is what a middleware does when Fleet.Lost is true: for lostAfter a majority of the servers, A, has answered, with too few witnesses among them.
// The middleware marks all servers itself. Only then it makes the servers of A that hold no marks witnesses, with its own marks and all that it has seen.
// It flushes each server that it reaches, and then removes its own mark of it. No stale value is read, because
//   - no server is read before: a lease needs a majority of witnesses. A middleware that relies on one of the new witnesses finds there the mark of every server
//     that has not been flushed yet;
//   - a mark in force is on a majority, which has a server in common with A. If that server is still a witness, the mark is copied from it. If it lost its
//     marks at a time r, the mark's owner has not relied on it since r + relied, and the flush comes after r + lostAfter. So the writes that were answered
//     because of this mark were answered before the flush, which removes the values that they replaced;
//   - after that the owner must store its mark on the new witnesses, find it, and wait, as with any new mark.
//
// The price is all that the servers hold, and no reads for lostAfter. Other middlewares that wait find the new witnesses and do not flush again;
// Records.slack spreads them in time.

// fleet is the protocol. Each mutant changes one rule.
type fleet struct {
	n, copies, looks int
	// Bounds of the numbers of events.
	writes, cuts, restarts, deaths uint8
	// prefix are the events before the exploration begins.
	prefix []string

	hasty     bool // a write is answered as soon as its marks are in force
	short     bool // a write is answered without finding its marks again
	early     bool // a look that finds its marks again may have begun before the wait was over
	trusting  bool // a server that has restarted is a witness
	forgetful bool // nothing is copied to a server that has restarted
	late      bool // marks may be copied from a look that can't be relied on any more
	hopeful   bool // marks that a witness lacks are still in force
	unchecked bool // marks are in force once they are stored, without a look that finds them
	sweeping  bool // a middleware removes the marks of others, too
	rash      bool // the marks of a dead middleware are removed before the server is clean
	dirty     bool // a mark is removed before its server is clean
}

type fleetServer struct {
	value   uint8
	witness bool
	marks   [3]uint8 // by server: the middlewares that have marked it
}

// fleetLook is the look of a middleware at the servers, so far.
type fleetLook struct {
	under     bool
	old       bool     // begun before the marks that a writer waits for were in force
	seen      uint8    // servers that have answered
	witnesses uint8    // those of them that are witnesses
	found     [3]uint8 // by server: the middlewares whose mark was found
	mine      [3]uint8 // by server: where the middleware's own mark was found
}

type fleetMiddleware struct {
	id     uint8 // bit of the marks
	dead   bool
	reach  uint8    // servers that it reaches
	own    uint8    // servers that it has marked, or has to mark
	clean  uint8    // servers whose marks by this middleware are to be removed
	placed [3]uint8 // by server: where its mark is, as far as it knows
	waited uint8    // servers whose mark has been in force for long enough and was found again
	fresh  bool     // it may rely on its last look
	old    bool     // the last look began before the marks that a writer waits for came into force, or before the wait was over
	known  [3]uint8 // by server: the middlewares that have marked it, by the last look
	joins  uint8    // servers that it has noticed to be no witnesses
	saved  [3]uint8 // known at the time when it noticed that
	buried [3]uint8 // by server: dead middlewares whose marks are to be removed
	look   fleetLook
}

type fleetState struct {
	servers             [3]fleetServer
	middlewares         [2]fleetMiddleware
	writer              int8 // -1: none
	passed              bool // the writer's wait is over, and it has to find its marks again
	missed              uint8
	number, answered    uint8
	cuts, restarts, ids uint8 // numbers so far
}

// with returns f with these numbers where it has none.
func (f fleet) with(n, copies, looks int) *fleet {
	f.n, f.copies, f.looks = cmp.Or(f.n, n), cmp.Or(f.copies, copies), cmp.Or(f.looks, looks)
	return &f
}

func bit(i int) uint8 { return 1 << i }

func (f *fleet) first() fleetState {
	s := fleetState{writer: -1, number: 1, answered: 1, ids: 2}
	all := bit(f.n) - 1
	for i := range f.n {
		s.servers[i] = fleetServer{value: 1, witness: true}
	}
	for m := range s.middlewares {
		s.middlewares[m] = fleetMiddleware{id: bit(m), reach: all, fresh: true}
	}
	return s
}

// counts reports whether the server counts as a witness.
func (f *fleet) counts(s *fleetServer) bool { return s.witness || f.trusting }

// inForce reports whether the marks of the servers in missed are on enough servers.
func (f *fleet) inForce(m *fleetMiddleware, missed uint8) bool {
	for t := range f.n {
		if missed&bit(t) != 0 && bits.OnesCount8(m.placed[t]) < f.copies {
			return false
		}
	}
	return true
}

// successors calls add for each state that can follow s, with the name of the event.
func (f *fleet) successors(s fleetState, add func(what string, next fleetState)) {
	change := func(what string, do func(c *fleetState)) {
		c := s
		do(&c)
		if c != s {
			add(what, c)
		}
	}
	for i := range f.n {
		if s.restarts < f.restarts {
			change(fmt.Sprintf("server %d restarts", i), func(c *fleetState) {
				c.servers[i] = fleetServer{}
				c.restarts++
			})
		}
	}
	for m := range s.middlewares {
		me := &s.middlewares[m]
		if me.dead {
			change(fmt.Sprintf("middleware %d starts", m), func(c *fleetState) {
				c.middlewares[m] = fleetMiddleware{id: bit(int(c.ids)), reach: me.reach}
				c.ids++
			})
			continue
		}
		if s.ids < 2+f.deaths {
			change(fmt.Sprintf("middleware %d dies", m), func(c *fleetState) {
				c.middlewares[m] = fleetMiddleware{id: me.id, dead: true, reach: me.reach}
				if int(c.writer) == m {
					c.writer = -1
				}
			})
		}
		f.write(s, m, change)
		f.lookAround(s, m, change)
		f.join(s, m, change)
		f.bury(s, m, change)
		for i := range f.n {
			reached := me.reach&bit(i) != 0
			switch {
			case reached && s.cuts < f.cuts:
				change(fmt.Sprintf("middleware %d loses %d", m, i), func(c *fleetState) {
					c.middlewares[m].reach &^= bit(i)
					c.cuts++
				})
			case !reached:
				change(fmt.Sprintf("middleware %d reaches %d again", m, i), func(c *fleetState) { c.middlewares[m].reach |= bit(i) })
			}
			if reached {
				change(fmt.Sprintf("middleware %d puts its marks on %d", m, i), func(c *fleetState) { f.put(c, m, i) })
				if me.own&bit(i) != 0 && int(s.writer) != m {
					change(fmt.Sprintf("middleware %d cleans %d", m, i), func(c *fleetState) {
						if !f.dirty {
							c.servers[i].value = 0
						}
						c.middlewares[m].own &^= bit(i)
						c.middlewares[m].waited &^= bit(i)
						c.middlewares[m].placed[i] = 0
						c.middlewares[m].clean |= bit(i)
					})
				}
			}
		}
	}
}

// put updates the marks of middleware m on server i.
func (f *fleet) put(c *fleetState, m, i int) {
	me, server := &c.middlewares[m], &c.servers[i]
	before := f.inForce(me, c.missed)
	for t := range f.n {
		switch {
		case me.own&bit(t) != 0:
			if server.marks[t]&me.id == 0 {
				me.look = fleetLook{}           // a look proves that marks are in force only if they were stored before it began
				if !f.hopeful && !f.unchecked { // the server became a witness without the mark
					me.placed[t] = 0
					me.waited &^= bit(t)
				}
			}
			server.marks[t] |= me.id
			if f.unchecked && f.counts(server) {
				me.placed[t] |= bit(i)
			}
		case f.sweeping && me.clean&bit(t) != 0:
			server.marks[t] = 0
		default:
			server.marks[t] &^= me.id
		}
		server.marks[t] &^= me.buried[t]
	}
	f.forced(c, m, before)
}

// forced starts the writer's wait if the marks of the write have just come into force.
func (f *fleet) forced(c *fleetState, m int, before bool) {
	if int(c.writer) == m && !before && f.inForce(&c.middlewares[m], c.missed) {
		c.passed = false
		c.age()
	}
}

// age makes all looks old: they began before the present time, and are not relied on after the next "time passes".
func (c *fleetState) age() {
	for o := range c.middlewares {
		c.middlewares[o].old, c.middlewares[o].look.old = true, true
	}
}

// write adds the events of a write.
func (f *fleet) write(s fleetState, m int, change func(string, func(*fleetState))) {
	me := &s.middlewares[m]
	if s.writer < 0 {
		if s.number < 1+f.writes && m < int(f.writes) { // a single write is always that of middleware 0
			change(fmt.Sprintf("middleware %d writes", m), func(c *fleetState) {
				c.number++
				c.writer, c.missed, c.passed = int8(m), 0, false
				for i := range f.n {
					if me.reach&bit(i) != 0 {
						c.servers[i].value = c.number
					} else {
						c.missed |= bit(i)
					}
				}
				w := &c.middlewares[m]
				w.own |= c.missed
				w.clean &^= c.missed
				if f.inForce(w, c.missed) && c.missed&^w.waited != 0 { // the marks are those of an earlier write
					c.age()
				}
			})
		}
		return
	}
	if int(s.writer) != m {
		return
	}
	change("the write fails", func(c *fleetState) { c.writer = -1 })
	if bits.OnesCount8(s.missed) == f.n || !f.inForce(me, s.missed) {
		return
	}
	if s.missed&^me.waited == 0 || f.hasty {
		if me.fresh || s.missed == 0 {
			change("the write is answered", func(c *fleetState) { c.answered, c.writer = c.number, -1 })
		}
		return
	}
	if s.passed {
		return // the writer has to look
	}
	change("time passes", func(c *fleetState) {
		if f.short || f.unchecked {
			c.middlewares[m].waited |= s.missed
		}
		for o := range c.middlewares {
			other := &c.middlewares[o]
			other.fresh = other.fresh && !other.old
			if other.look.old {
				other.look = fleetLook{}
			}
		}
		c.passed = true
		c.age()
	})
}

// lookAround adds the events of a look.
func (f *fleet) lookAround(s fleetState, m int, change func(string, func(*fleetState))) {
	me := &s.middlewares[m]
	if !me.look.under {
		if m > 0 || me.own != 0 || me.id != bit(0) || f.writes > 1 { // otherwise the look would find nothing that the middleware doesn't know
			change(fmt.Sprintf("middleware %d begins a look", m), func(c *fleetState) {
				c.middlewares[m].look = fleetLook{under: true}
			})
		}
		return
	}
	for i := range f.n {
		if me.reach&^me.look.seen&bit(i) == 0 {
			continue
		}
		change(fmt.Sprintf("middleware %d looks at %d", m, i), func(c *fleetState) {
			l, server := &c.middlewares[m].look, &c.servers[i]
			l.seen |= bit(i)
			if !f.counts(server) {
				return
			}
			l.witnesses |= bit(i)
			for t := range f.n {
				l.found[t] |= server.marks[t]
				if server.marks[t]&me.id != 0 {
					l.mine[t] |= bit(i)
				}
			}
		})
	}
	if bits.OnesCount8(me.look.witnesses) < f.looks {
		return
	}
	change(fmt.Sprintf("middleware %d has looked", m), func(c *fleetState) {
		f.rely(c, m)
	})
}

// join adds the events that make a server that has restarted a witness again.
func (f *fleet) join(s fleetState, m int, change func(string, func(*fleetState))) {
	me := &s.middlewares[m]
	for i := range f.n {
		if server := &s.servers[i]; server.witness || me.reach&bit(i) == 0 {
			continue
		}
		if me.fresh || f.late {
			change(fmt.Sprintf("middleware %d notices that %d is no witness", m, i), func(c *fleetState) {
				c.middlewares[m].joins, c.middlewares[m].saved = me.joins|bit(i), me.known
			})
		}
		if me.joins&bit(i) != 0 {
			change(fmt.Sprintf("middleware %d makes %d a witness", m, i), func(c *fleetState) {
				for t := range f.n {
					if !f.forgetful {
						c.servers[i].marks[t] |= me.saved[t]
					}
				}
				c.servers[i].witness = true
				c.middlewares[m].joins &^= bit(i)
			})
		}
	}
}

// bury adds the events that remove the marks of dead middlewares.
func (f *fleet) bury(s fleetState, m int, change func(string, func(*fleetState))) {
	me := &s.middlewares[m]
	for t := range f.n {
		dead := me.known[t] &^ (s.middlewares[0].id | s.middlewares[1].id)
		for o := range s.middlewares {
			if s.middlewares[o].dead {
				dead |= me.known[t] & s.middlewares[o].id
			}
		}
		if dead &^= me.buried[t]; dead != 0 && me.reach&bit(t) != 0 && int(s.writer) != m {
			change(fmt.Sprintf("middleware %d cleans %d for a dead one", m, t), func(c *fleetState) {
				if !f.rash {
					c.servers[t].value = 0
				}
				c.middlewares[m].buried[t] |= dead
			})
		}
	}
}

// rely ends a look. The middleware relies on it from now on.
func (f *fleet) rely(c *fleetState, m int) {
	me := &c.middlewares[m]
	before := f.inForce(me, c.missed)
	me.fresh, me.old, me.known = true, me.look.old, me.look.found
	for t := range f.n {
		if f.unchecked {
			continue
		}
		me.placed[t] = me.look.mine[t]
		if bits.OnesCount8(me.placed[t]) < f.copies {
			me.waited &^= bit(t)
		}
	}
	if int(c.writer) == m && c.passed && (!me.old || f.early) && before && f.inForce(me, c.missed) {
		me.waited |= c.missed
	}
	me.look = fleetLook{}
	f.forced(c, m, before)
}

// stale describes a read that may return a value which an answered write replaced; "": there is none.
func (f *fleet) stale(s *fleetState) string {
	for m := range s.middlewares {
		me := &s.middlewares[m]
		for i := range f.n {
			if me.fresh && !me.dead && me.reach&^me.own&bit(i) != 0 && me.known[i]&^me.id == 0 && s.servers[i].value != 0 && s.servers[i].value < s.answered {
				return fmt.Sprintf("middleware %d reads %d of %d", m, s.servers[i].value, i)
			}
		}
	}
	return ""
}

// begin returns the state after the prefix.
func (f *fleet) begin() fleetState {
	s := f.first()
	for _, event := range f.prefix {
		before := s
		f.successors(before, func(what string, next fleetState) {
			if what == event {
				s = next
			}
		})
		if s == before {
			panic("impossible event in a prefix: " + event)
		}
	}
	return s
}

// explore returns a shortest path of events to a stale read, nil if there is none, and the number of states.
func (f *fleet) explore(most int) (path []string, states int) {
	type link struct {
		from int
		what string
	}
	all := []fleetState{f.begin()}
	links := []link{{-1, ""}}
	seen := map[fleetState]bool{all[0]: true}
	for at := 0; at < len(all) && len(all) < most && path == nil; at++ {
		f.successors(all[at], func(what string, next fleetState) {
			if seen[next] || path != nil {
				return
			}
			seen[next] = true
			all, links = append(all, next), append(links, link{at, what})
			if read := f.stale(&next); read != "" {
				path = []string{read}
				for k := len(all) - 1; k > 0; k = links[k].from {
					path = append(path, links[k].what)
				}
				slices.Reverse(path)
			}
		})
	}
	return path, len(all)
}

var (
	// placing: server 0 missed a write, and its mark is on one server; checking, answered: later times of the same write.
	placing  = []string{"middleware 0 loses 0", "middleware 0 writes", "middleware 0 puts its marks on 1"}
	checking = append(slices.Clone(placing), "middleware 0 puts its marks on 2", "middleware 0 begins a look")
	answered = append(slices.Clone(checking), "middleware 0 looks at 1", "middleware 0 looks at 2", "middleware 0 has looked",
		"time passes", "middleware 0 begins a look", "middleware 0 looks at 1", "middleware 0 looks at 2", "middleware 0 has looked",
		"the write is answered")
	// noticed: server 1, which had the mark, has restarted, and the other middleware has noticed; crossed: the mark is stored while the other looks.
	noticed = append(slices.Clone(placing), "server 1 restarts", "middleware 1 notices that 1 is no witness")
	crossed = append(slices.Clone(placing), "middleware 1 begins a look", "middleware 1 looks at 2", "middleware 0 puts its marks on 2",
		"middleware 0 begins a look", "middleware 0 looks at 1", "middleware 0 looks at 2", "middleware 0 has looked")
	// waiting: server 1 loses the mark when the writer has found it twice. The other middleware, which has not found the mark, notices the restart.
	waiting = append(slices.Clone(checking), "middleware 0 looks at 1", "middleware 0 looks at 2", "middleware 0 has looked",
		"middleware 0 begins a look", "middleware 0 looks at 1", "middleware 0 looks at 2", "server 1 restarts", "middleware 0 has looked",
		"middleware 1 notices that 1 is no witness")
	// found: the same, but the look that finds the mark again has not ended.
	found = append(slices.Clone(waiting[:len(waiting)-2]), waiting[len(waiting)-1])
	// again: server 0 has been cleaned and has got another write. Now the other middleware loses it and writes.
	again = append(slices.Clone(answered), "middleware 0 reaches 0 again", "middleware 0 cleans 0", "middleware 0 writes", "the write is answered",
		"middleware 1 loses 0", "middleware 1 writes", "middleware 1 puts its marks on 1", "middleware 1 puts its marks on 2",
		"middleware 1 begins a look", "middleware 1 looks at 1", "middleware 1 looks at 2", "middleware 1 has looked",
		"time passes", "middleware 1 begins a look", "middleware 1 looks at 1", "middleware 1 looks at 2", "middleware 1 has looked",
		"the write is answered")
)

func TestNoMiddlewareOfAFleetReadsAValueThatAnAnsweredWriteReplaced(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	most := 20_000
	if mctest.Long() {
		most = 2_000_000
	}
	for name, f := range map[string]fleet{
		"from the beginning":                     {writes: 1, cuts: 2, restarts: 1},
		"a server restarts with a mark on it":    {writes: 1, cuts: 1, restarts: 1, prefix: placing},
		"a server restarts during the check":     {writes: 1, cuts: 1, restarts: 1, prefix: checking},
		"a server that has restarted joins":      {writes: 1, cuts: 1, restarts: 1, prefix: noticed},
		"a server restarts before the last look": {writes: 1, cuts: 1, restarts: 1, prefix: found},
		"a server restarts during the wait":      {writes: 1, cuts: 1, restarts: 1, prefix: waiting},
		"two servers restart after the answer":   {writes: 1, cuts: 1, restarts: 2, prefix: answered},
		"a reader looks while a mark is stored":  {writes: 1, cuts: 1, restarts: 1, prefix: crossed},
		"a server restarts after the answer":     {writes: 1, cuts: 1, restarts: 1, prefix: answered},
		"the writer dies after the answer":       {writes: 1, cuts: 1, deaths: 1, prefix: answered},
		"a reader loses a server as well":        {writes: 1, cuts: 2, prefix: answered},
		"both write":                             {writes: 2, cuts: 2, prefix: answered},
		"both have marked the server in turns":   {writes: 3, cuts: 2, prefix: again},
		"two servers":                            {n: 2, looks: 1, writes: 2, cuts: 2, restarts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			path, states := f.with(3, 2, 2).explore(most)
			assert.Nil(t, path)
			t.Log(states, "states")
		})
	}
}

func TestEveryRuleForTheMarksOfAFleetIsNeeded(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	for name, f := range map[string]fleet{
		"a writer waits for readers":                         {hasty: true, writes: 1, cuts: 1},
		"a reader looks at a majority":                       {looks: 1, writes: 1, cuts: 1, prefix: answered},
		"a mark is on a majority":                            {copies: 1, writes: 1, cuts: 1, prefix: placing},
		"a server that has restarted is no witness":          {trusting: true, writes: 1, cuts: 1, restarts: 1, prefix: answered},
		"marks are copied to it":                             {forgetful: true, writes: 1, cuts: 1, restarts: 1, prefix: answered},
		"from a look that can be relied on":                  {late: true, writes: 1, cuts: 1, restarts: 1, prefix: answered},
		"a writer finds its marks again, for those who copy": {short: true, writes: 1, cuts: 1, restarts: 1, prefix: waiting},
		"it does so when the wait is over":                   {early: true, writes: 1, cuts: 1, restarts: 1, prefix: found},
		"a writer looks for its marks":                       {unchecked: true, writes: 1, cuts: 1, restarts: 1, prefix: append(slices.Clone(noticed), "middleware 0 puts its marks on 2", "time passes")},
		"a mark that a witness lacks is not in force":        {hopeful: true, writes: 1, cuts: 1, restarts: 1, prefix: append(slices.Clone(waiting), "time passes")},
		"a middleware removes only its own marks":            {sweeping: true, writes: 3, cuts: 2, prefix: again},
		"a server is clean before a dead owner's are":        {rash: true, writes: 1, cuts: 1, deaths: 1, prefix: answered},
		"a server is clean before its marks are removed":     {dirty: true, writes: 1, cuts: 1, prefix: answered},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := f.with(3, 2, 2).explore(400_000)
			assert.NotNil(t, path)
			t.Log(path)
		})
	}
}
