package marker

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// successors calls add for each state that can follow s, with the name of the event.
func (f *fleet) successors(s *fleetState, add func(what string, next *fleetState)) {
	change := func(what string, do func(c *fleetState)) {
		c := s.clone()
		c.now++
		do(c)
		add(what, c)
	}
	for i := range s.servers {
		if s.restarts < f.restarts && !s.servers[i].blank {
			change(fmt.Sprintf("server %d restarts", i), func(c *fleetState) {
				c.servers[i] = fleetServer{blank: true, cas: c.servers[i].cas + 1}
				c.restarts++
			})
		}
	}
	if s.starts < f.starts {
		change("another middleware starts", func(c *fleetState) {
			c.starts++
			f.start(c)
		})
	}
	if s.times < f.times {
		change("time passes", func(c *fleetState) {
			c.times++
			c.now += int64(instant)
		})
	}
	if s.waits < f.waits {
		change("much time passes", func(c *fleetState) {
			c.waits++
			c.now += int64(startsAfter)
		})
	}
	for m := range s.members {
		if me := &s.members[m]; !me.dead && me.own[reads] == nil && (f.elder == 0 || m != f.elder) {
			change(fmt.Sprintf("middleware %d ends", m), func(c *fleetState) {
				c.members[m].dead = true
				c.members[m].exchanges = [3]exchange{}
			})
		}
		if me := &s.members[m]; !me.dead {
			if s.deaths < f.deaths && s.writer != m && me.own[reads] != nil {
				change(fmt.Sprintf("middleware %d leaves", m), func(c *fleetState) {
					c.deaths++
					c.member(m).Leave()
				})
			}
			if s.deaths < f.deaths {
				change(fmt.Sprintf("middleware %d dies", m), func(c *fleetState) {
					c.deaths++
					c.members[m].dead = true
					c.members[m].exchanges = [3]exchange{}
					if c.writer == m {
						c.writer = -1
					}
				})
			}
			f.write(s, m, change)
			for i := range s.servers {
				f.at(s, m, i, change)
			}
		}
	}
}

// at adds what middleware m may do with server i.
func (f *fleet) at(s *fleetState, m, i int, change func(string, func(*fleetState))) {
	me := &s.members[m]
	if me.reach&bit(i) == 0 {
		change(fmt.Sprintf("middleware %d reaches %d again", m, i),
			func(c *fleetState) { c.members[m].reach |= bit(i) })
		return
	}
	if s.cuts < f.cuts {
		change(fmt.Sprintf("middleware %d loses %d", m, i), func(c *fleetState) {
			c.members[m].reach &^= bit(i)
			c.members[m].exchanges[i] = exchange{}
			c.cuts++
		})
	}
	switch e := &me.exchanges[i]; {
	case !e.under:
		change(fmt.Sprintf("middleware %d looks at %d", m, i), func(c *fleetState) { f.look(c, m, i) })
		if s.slow < f.slow {
			change(fmt.Sprintf("middleware %d asks %d", m, i), func(c *fleetState) {
				c.slow++
				f.ask(c, m, i)
			})
		}
	case !e.heard:
		change(fmt.Sprintf("middleware %d hears %d", m, i), func(c *fleetState) { f.hear(c, m, i) })
		if f.lazy && !e.held.down && !e.held.blank {
			change(fmt.Sprintf("middleware %d hears %d and judges later", m, i), func(c *fleetState) {
				c.member(m).Beat(c.now)
				if c.members[m].Again(nameOf(i), e.held.marks, e.begun, c.now) {
					c.members[m].exchanges[i] = exchange{}
				}
			})
		}
	default:
		change(fmt.Sprintf("middleware %d puts its marks on %d", m, i), func(c *fleetState) { f.store(c, m, i) })
	}
	if me.own[nameOf(i)] != nil && s.writer != m {
		change(fmt.Sprintf("middleware %d cleans %d", m, i), func(c *fleetState) {
			if !f.dirty {
				c.servers[i].value = 0
			}
			c.member(m).Unmark(nameOf(i))
		})
	}
	if k, gone := me.Gone(s.now); gone && k.Server == nameOf(i) && s.writer != m {
		change(fmt.Sprintf("middleware %d marks %d for a dead one", m, i), func(c *fleetState) {
			mine := c.member(m)
			mine.Mark(k.Server, c.now)
			mine.TakeOver(k)
		})
	}
}

// write adds the events of a write.
func (f *fleet) write(s *fleetState, m int, change func(string, func(*fleetState))) {
	me := &s.members[m]
	switch {
	case s.writer < 0 && s.writes < f.writes:
		change(fmt.Sprintf("middleware %d writes", m), func(c *fleetState) {
			c.number++
			c.writes++
			c.writer, c.missed = m, 0
			for i := range c.servers {
				if me.reach&bit(i) != 0 && !c.servers[i].down {
					c.servers[i].value = c.number
				} else {
					c.missed |= bit(i)
					c.member(m).Mark(nameOf(i), c.now)
				}
			}
		})
	case s.writer == m:
		change("the write fails", func(c *fleetState) { c.writer = -1 })
		if s.missed != bit(len(s.servers))-1 && f.mayAnswer(s) {
			change("the write is answered", func(c *fleetState) { c.answered, c.writer = c.number, -1 })
		}
	}
}

// stale describes a read that may return a value which an answered write replaced; "": there is none.
func (f *fleet) stale(s *fleetState) string {
	for m := range s.members {
		me := &s.members[m]
		known := me.known
		for _, a := range me.answers {
			if f.single && a.begun == s.now-1 {
				known = a.marks
			}
		}
		if me.dead || s.now >= f.lease(s, m) {
			continue
		}
		for other := range s.members {
			if it := &s.members[other]; me.agrees && !it.dead && it.own[reads] != nil && it.Lost(s.now) {
				return fmt.Sprintf("middleware %d takes marks for lost, and %d relies on one server", other, m)
			}
		}
		for i := range s.servers {
			marked := slices.ContainsFunc(known,
				func(k Mark) bool { return k.Server == nameOf(i) && k.Owner != me.owner })
			if me.reach&bit(i) != 0 && !s.servers[i].down && me.own[nameOf(i)] == nil && !marked &&
				s.servers[i].value != 0 &&
				s.servers[i].value < s.answered {
				return fmt.Sprintf("middleware %d reads %d of %d", m, s.servers[i].value, i)
			}
		}
	}
	return ""
}

// begin returns the state after the prefix.
func (f *fleet) begin() *fleetState {
	s := f.first()
	all := *f
	all.sweeping = false
	all.writes, all.cuts, all.restarts, all.deaths, all.starts, all.slow, all.times = 9, 9, 9, 9, 9, 9, 9
	all.waits = 9
	for _, event := range f.prefix {
		before := s
		all.successors(before, func(what string, next *fleetState) {
			if what == event {
				s = next
			}
		})
		if s == before {
			panic("impossible event in a prefix: " + event)
		}
		s.events = events{}
	}
	return s
}

// explore returns a shortest path of events to a stale read, nil if there is none, and the number of states.
func (f *fleet) explore(most int) (path []string, states int) {
	type link struct {
		from int
		what string
	}
	all := []*fleetState{f.begin()}
	links := []link{{-1, ""}}
	seen := map[[sha256.Size]byte]bool{sha256.Sum256(all[0].key()): true}
	for at := 0; at < len(all) && len(all) < most && path == nil; at++ {
		f.successors(all[at], func(what string, next *fleetState) {
			if path != nil {
				return
			}
			key := sha256.Sum256(next.key())
			if seen[key] {
				return
			}
			seen[key] = true
			all, links = append(all, next), append(links, link{at, what})
			if read := f.stale(next); read != "" {
				path = []string{read}
				for k := len(all) - 1; k > 0; k = links[k].from {
					path = append(path, links[k].what)
				}
				slices.Reverse(path)
			}
		})
		all[at] = nil
	}
	return path, len(all)
}
