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

// A model of markers that all middlewares of a fleet heed while they run; so far a middleware reads those of others only when it starts. n
// servers hold the one key. Two middlewares write it, one write after the other; each can lose its way to any server. Servers restart
// empty; a middleware dies and is started again. The rules:
//
//   - A writer marks the servers that missed its write. The marks are in force when a look of its own, begun after the last of them was put,
//     finds them on enough witnesses, until one does not, or has to be put anew. It answers the write while it may rely on its last look, when they have been in
//     force for twice as long as a look is relied on.
//   - A reader relies on a look at so many witnesses that every mark in force is on one of them, and reads no server that others have marked.
//   - A server that has restarted is no witness until a middleware has copied to it what it found in a look that it could still rely on when
//     it noticed. So marks outlive the restart of any number of servers. A mark that it doesn't know came into force behind the beginning of that
//     look: before its writer may answer, the writer would have had to find it a second time, and doesn't.
//   - A middleware removes its own marks, after the server is clean. Those of a dead one are removed by whoever has cleaned the server.
//
// Not modelled is what Fleet.Lost leads to. A middleware that for lostAfter gets answers of a majority of servers, A, with too few witnesses among
// them, marks all servers itself. Only then it makes witnesses of those in A that hold no marks, with its own marks and all that it has seen. It
// flushes each server that it reaches and removes its own mark of that. Nothing stale is read, because
//   - it reads nothing before: a lease takes a majority of witnesses. Who relies on one of the new witnesses finds every server marked there that is
//     not flushed yet;
//   - a mark in force is on a majority, which has a server in common with A. If that is still a witness, the mark is copied from it. If it lost its marks
//     at a time r, the mark's owner has not relied on it since r + relied, and the flush comes behind r + lostAfter. So the writes that were answered
//     by this mark were answered before the flush, which removes what they replaced;
//   - behind that the owner has to put its mark on the new witnesses, to find it, and to wait, as with any new mark.
//
// It costs what the servers hold, and reads for lostAfter. Others that wait find the new witnesses and do not flush again; Records.slack spreads them.

// fleet is the protocol, in which mutants change one rule each.
type fleet struct {
	n, copies, looks int
	// Bounds of what happens.
	writes, cuts, restarts, deaths uint8
	// prefix is what happened before the exploration begins.
	prefix []string

	hasty     bool // a write is answered as soon as its marks are in force
	short     bool // it is answered when they have been for half of that time
	trusting  bool // a server that has restarted is a witness
	forgetful bool // nothing is copied to a server that has restarted
	late      bool // what is copied may be of a look that can't be relied on any more
	hopeful   bool // marks that a witness lacks are still in force
	unchecked bool // marks are in force once they are put, without a look that finds them
	sweeping  bool // a middleware removes the marks of others, too
	rash      bool // the marks of a dead middleware are removed before the server is clean
	dirty     bool // a mark is removed before its server is clean
}

type fleetServer struct {
	value   uint8
	witness bool
	marks   [3]uint8 // by server: the middlewares that have marked it
}

// fleetLook is what a middleware has seen of the servers so far.
type fleetLook struct {
	under     bool
	old       bool  // begun before the marks that a writer waits for were in force
	seen      uint8 // servers looked at
	witnesses uint8 // of them
	found     [3]uint8
	mine      [3]uint8 // by server: where its own mark was found
}

type fleetMiddleware struct {
	id     uint8 // bit of the marks
	dead   bool
	reach  uint8    // servers that it reaches
	own    uint8    // servers that it has marked, or has to
	clean  uint8    // of them those whose marks are to be removed
	placed [3]uint8 // by server: where its mark is, as far as it knows
	waited uint8    // servers whose mark has been in force for long enough
	fresh  bool     // it may rely on its last look
	old    bool     // that began before the marks that a writer waits for were in force, or had been for half of the time
	known  [3]uint8 // by server: the middlewares that have marked it, by the last look
	joins  uint8    // servers that are no witnesses, as it noticed
	saved  [3]uint8 // known, when it noticed
	buried [3]uint8 // by server: dead middlewares whose marks are to be removed
	look   fleetLook
}

type fleetState struct {
	servers             [3]fleetServer
	middlewares         [2]fleetMiddleware
	writer              int8 // -1: none
	half                bool // half of the time that the writer waits is over
	missed              uint8
	number, answered    uint8
	cuts, restarts, ids uint8 // so far
}

// with returns f with the numbers that it lacks.
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

// counts reports whether a look at the server counts.
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

// successors calls add for each state that can follow s, with what happens.
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

// put brings the marks of a middleware on a server up to date.
func (f *fleet) put(c *fleetState, m, i int) {
	me, server := &c.middlewares[m], &c.servers[i]
	before := f.inForce(me, c.missed)
	for t := range f.n {
		switch {
		case me.own&bit(t) != 0:
			if server.marks[t]&me.id == 0 {
				me.look = fleetLook{}           // a look proves that marks are in force if all were put before it
				if !f.hopeful && !f.unchecked { // who made it a witness did not know of the mark
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

// forced notes, for the time that a writer waits, that the marks of the write may have come into force.
func (f *fleet) forced(c *fleetState, m int, before bool) {
	if int(c.writer) == m && !before && f.inForce(&c.middlewares[m], c.missed) {
		c.half = false
		c.age()
	}
}

// age notes the beginning of a time behind which no look that began before it is relied on.
func (c *fleetState) age() {
	for o := range c.middlewares {
		c.middlewares[o].old, c.middlewares[o].look.old = true, true
	}
}

// write has what a writer does.
func (f *fleet) write(s fleetState, m int, change func(string, func(*fleetState))) {
	me := &s.middlewares[m]
	if s.writer < 0 {
		if s.number < 1+f.writes && m < int(f.writes) { // of one write it doesn't matter whose it is
			change(fmt.Sprintf("middleware %d writes", m), func(c *fleetState) {
				c.number++
				c.writer, c.missed, c.half = int8(m), 0, false
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
				if f.inForce(w, c.missed) && c.missed&^w.waited != 0 { // since an earlier write
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
	change("time passes", func(c *fleetState) {
		if s.half || f.short {
			c.middlewares[m].waited |= s.missed
		}
		for o := range c.middlewares {
			other := &c.middlewares[o]
			other.fresh = other.fresh && !other.old
			if other.look.old {
				other.look = fleetLook{}
			}
		}
		if c.half = !s.half && !f.short; c.half {
			c.age()
		}
	})
}

// lookAround has the looks of a middleware at the servers, and what it does with them.
func (f *fleet) lookAround(s fleetState, m int, change func(string, func(*fleetState))) {
	me := &s.middlewares[m]
	if !me.look.under {
		if m > 0 || me.own != 0 || me.id != bit(0) || f.writes > 1 { // where it alone writes the first would only find what it knows
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

// join has what makes a server that has restarted a witness again.
func (f *fleet) join(s fleetState, m int, change func(string, func(*fleetState))) {
	me := &s.middlewares[m]
	for i := range f.n {
		if server := &s.servers[i]; server.witness || me.reach&bit(i) == 0 {
			continue
		}
		if me.fresh || f.late {
			change(fmt.Sprintf("middleware %d notices that %d is none", m, i), func(c *fleetState) {
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

// bury has the removal of the marks of those that died.
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
			change(fmt.Sprintf("middleware %d cleans %d for the dead", m, t), func(c *fleetState) {
				if !f.rash {
					c.servers[t].value = 0
				}
				c.middlewares[m].buried[t] |= dead
			})
		}
	}
}

// rely ends a look, on which the middleware relies from now on.
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
	me.look = fleetLook{}
	f.forced(c, m, before)
}

// stale returns what may be read that an answered write replaced, "" if nothing.
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
			panic(event + " can't happen")
		}
	}
	return s
}

// explore returns a shortest path to a stale read, nil if there is none, and the number of states.
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
	// placing is a write that server 0 missed, and whose mark is on one server; answered the same, later.
	placing  = []string{"middleware 0 loses 0", "middleware 0 writes", "middleware 0 puts its marks on 1"}
	checking = append(slices.Clone(placing), "middleware 0 puts its marks on 2", "middleware 0 begins a look")
	answered = append(slices.Clone(checking), "middleware 0 looks at 1", "middleware 0 looks at 2", "middleware 0 has looked",
		"time passes", "middleware 0 begins a look", "middleware 0 looks at 1", "middleware 0 looks at 2", "middleware 0 has looked",
		"time passes", "the write is answered")
	// noticed: server 1 has restarted with that mark, and the other middleware has noticed; crossed: the mark is put while the other looks.
	noticed = append(slices.Clone(placing), "server 1 restarts", "middleware 1 notices that 1 is none")
	crossed = append(slices.Clone(placing), "middleware 1 begins a look", "middleware 1 looks at 2", "middleware 0 puts its marks on 2",
		"middleware 0 begins a look", "middleware 0 looks at 1", "middleware 0 looks at 2", "middleware 0 has looked")
	// waiting: the mark is lost on server 1 when the writer has found it twice, and the other middleware notices that, which has not found it.
	waiting = append(slices.Clone(checking), "middleware 0 looks at 1", "middleware 0 looks at 2", "middleware 0 has looked",
		"middleware 0 begins a look", "middleware 0 looks at 1", "middleware 0 looks at 2", "server 1 restarts", "middleware 0 has looked",
		"middleware 1 notices that 1 is none")
	// again: server 0 is clean of it and has another write, and now the other middleware loses it, and writes.
	again = append(slices.Clone(answered), "middleware 0 reaches 0 again", "middleware 0 cleans 0", "middleware 0 writes", "the write is answered",
		"middleware 1 loses 0", "middleware 1 writes", "middleware 1 puts its marks on 1", "middleware 1 puts its marks on 2",
		"middleware 1 begins a look", "middleware 1 looks at 1", "middleware 1 looks at 2", "middleware 1 has looked",
		"time passes", "middleware 1 begins a look", "middleware 1 looks at 1", "middleware 1 looks at 2", "middleware 1 has looked",
		"time passes", "the write is answered")
)

func TestNoMiddlewareOfAFleetReadsWhatAnAnsweredWriteReplaced(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	most := 20_000
	if mctest.Long() {
		most = 2_000_000
	}
	for name, f := range map[string]fleet{
		"from the beginning":                    {writes: 1, cuts: 2, restarts: 1},
		"a server restarts with a mark on it":   {writes: 1, cuts: 1, restarts: 1, prefix: placing},
		"a server restarts during the check":    {writes: 1, cuts: 1, restarts: 1, prefix: checking},
		"a server that has restarted joins":     {writes: 1, cuts: 1, restarts: 1, prefix: noticed},
		"a server restarts during the wait":     {writes: 1, cuts: 1, restarts: 1, prefix: waiting},
		"two servers restart behind the answer": {writes: 1, cuts: 1, restarts: 2, prefix: answered},
		"a reader looks meanwhile":              {writes: 1, cuts: 1, restarts: 1, prefix: crossed},
		"a server restarts behind the answer":   {writes: 1, cuts: 1, restarts: 1, prefix: answered},
		"the writer dies behind the answer":     {writes: 1, cuts: 1, deaths: 1, prefix: answered},
		"a reader loses a server, too":          {writes: 1, cuts: 2, prefix: answered},
		"both write":                            {writes: 2, cuts: 2, prefix: answered},
		"both have marked the server in turns":  {writes: 3, cuts: 2, prefix: again},
		"two servers":                           {n: 2, looks: 1, writes: 2, cuts: 2, restarts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			path, states := f.with(3, 2, 2).explore(most)
			assert.Nil(t, path)
			t.Log(states, "states")
		})
	}
}

func TestEveryRuleOfTheFleetsMarkersIsNeeded(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	for name, f := range map[string]fleet{
		"a writer waits for readers":                     {hasty: true, writes: 1, cuts: 1},
		"a reader looks at as many as find a marker":     {looks: 1, writes: 1, cuts: 1, prefix: answered},
		"a marker is on as many as are found":            {copies: 1, writes: 1, cuts: 1, prefix: placing},
		"a server that has restarted is no witness":      {trusting: true, writes: 1, cuts: 1, restarts: 1, prefix: answered},
		"markers are copied to it":                       {forgetful: true, writes: 1, cuts: 1, restarts: 1, prefix: answered},
		"of a look that can be relied on":                {late: true, writes: 1, cuts: 1, restarts: 1, prefix: answered},
		"a writer waits for who copies them, too":        {short: true, writes: 1, cuts: 1, restarts: 1, prefix: waiting},
		"a writer looks for its marks":                   {unchecked: true, writes: 1, cuts: 1, restarts: 1, prefix: append(slices.Clone(noticed), "middleware 0 puts its marks on 2", "time passes", "time passes")},
		"a mark that a witness lacks is not in force":    {hopeful: true, writes: 1, cuts: 1, restarts: 1, prefix: append(slices.Clone(waiting), "time passes", "time passes")},
		"a middleware removes only its own marks":        {sweeping: true, writes: 3, cuts: 2, prefix: again},
		"a server is clean before a dead one's are":      {rash: true, writes: 1, cuts: 1, deaths: 1, prefix: answered},
		"a server is clean before its marks are removed": {dirty: true, writes: 1, cuts: 1, prefix: answered},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := f.with(3, 2, 2).explore(400_000)
			assert.NotNil(t, path)
			t.Log(path)
		})
	}
}
