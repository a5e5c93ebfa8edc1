package marker

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/mctest"
)

// The marks that all middlewares of a fleet respect while they run, explored on Fleet itself: every order of events, up
// to a number of states. Three servers hold the one key. Middlewares write it, one write after the other; each can lose
// its connection to any server. Servers restart empty, middlewares die and start. The rules:
//
//   - A writer marks the servers that missed its write. The marks are in force when a look of the writer, begun after
//     the last of them was stored, finds them on a majority, all of them witnesses. The writer answers the write when
//     all who read respect them, and a look begun after that has found them again.
//   - A reader relies on a look at a majority, and for relied, so that it finds every mark in force. It does not read a
//     server that others have marked.
//   - Who reads is registered: its registration is a mark that has been in force for inForce, unless nobody else was
//     registered. All who were registered before then know of it.
//   - All respect a mark when it has been in force for inForce, because all rely on later looks; or when all who are
//     registered have acknowledged it, and nobody reads who does not acknowledge marks.
//   - A server that has restarted is no witness until a middleware has copied marks to it: those of a look on which the
//     middleware could still rely when it noticed the restart. So marks survive the restart of any number of servers. A
//     mark that this middleware doesn't know came into force after that look began. Before its writer may answer, the
//     writer has to find the mark again, and then does not find it on that server.
//   - A middleware removes its own marks after the server is clean. The marks of a dead middleware are removed by the
//     one that has cleaned the server.
//
//   - While few servers answer, one for which all who are registered vouch is enough; see quorum.go.
//
// Not explored is what a middleware does when Fleet.Lost is true: for lostAfter a majority of the servers, A, has
// answered, with too few witnesses among them. The middleware marks all servers itself. Only then it makes the servers
// of A that hold no marks witnesses, with its own marks and all that it has seen. It flushes each server that it
// reaches, and then removes its own mark of it. No stale value is read, because
//   - no server is read before: a lease needs a majority of witnesses. A middleware that relies on one of the new
//     witnesses finds there the mark of every server that has not been flushed yet;
//   - a mark in force is on a majority, which has a server in common with A. If that server is still a witness, the
//     mark is copied from it. If it lost its marks at a time r, the mark's owner has not relied on it since r + relied,
//     and the flush comes after r + lostAfter. So the writes that were answered because of this mark were answered
//     before the flush, which removes the values that they replaced;
//   - after that the owner must store its mark on the new witnesses, find it, and wait, as with any new mark.
//
// The price is all that the servers hold, and no reads for lostAfter. Other middlewares that wait find the new
// witnesses and do not flush again; Records.slack spreads them in time.

// fleet is what is explored. The fields after prefix change one rule.
type fleet struct {
	members int // that run at the beginning; one more can start
	// Bounds of the numbers of events.
	writes, cuts, restarts, deaths, starts, slow, times int
	// the member, if not 0, that is of a version which does not acknowledge marks
	elder int
	alone bool // nobody acknowledges marks
	// the member, if not 0, that is of a version which vouches for no server
	former int
	// prefix are the events before the exploration begins.
	prefix []string

	hasty     bool // a write is answered as soon as its marks are in force
	short     bool // a write is answered without finding its marks again
	early     bool // a look that finds its marks again may have begun before the wait was over
	single    bool // a reader relies on a look at one server
	lone      bool // a mark on one server is in force
	trusting  bool // a server that has restarted is a witness
	forgetful bool // nothing is copied to a server that has restarted
	late      bool // marks may be copied from a look that can't be relied on any more
	hopeful   bool // marks that a witness lacks are still in force
	sweeping  bool // a middleware removes the marks of others, too
	dirty     bool // a mark is removed before its server is clean

	once         bool // a mark that a server has lost is the same mark when it is stored again
	older        bool // an acknowledgement of an earlier mark counts
	minor        bool // a mark is acknowledged before it is on a majority
	unregistered bool // who is not registered reads
	premature    bool // a registration counts as soon as it is in force
	kept         bool // a registration counts after it was lost
	dormant      bool // a registration without a recent beat counts
	unnoticed    bool // the version that does not acknowledge marks is not noticed

	// While one server counts:
	aged       bool // a vouch counts for ever
	halves     bool // who does not vouch does not count
	forgetting bool // who is silent on that server is forgotten
	eager      bool // who starts reads without being joined
	unbound    bool // who no longer vouches is not bound
}

type fleetServer struct {
	value uint8
	blank bool
	marks Marks
	cas   uint16
}

// exchange is a look of a middleware at a server, and a store of other marks that may follow.
type exchange struct {
	under, heard bool
	begun        int64
	held         fleetServer
	want         Marks
}

type fleetMember struct {
	*Fleet
	dead      bool
	reach     uint8 // servers that it reaches
	exchanges [3]exchange
	leased    bool // it had a lease
}

type fleetState struct {
	now              int64
	servers          [3]fleetServer
	members          []fleetMember
	writer           int // -1: none
	missed           uint8
	number, answered uint8
	events
}

// events are numbers of events so far.
type events struct{ writes, cuts, restarts, deaths, starts, slow, times int }

const (
	instant = 100 * time.Millisecond // the unit of time
	long    = goneAfter + time.Second
)

func bit(i int) uint8 { return 1 << i }

func nameOf(i int) string { return string(rune('a' + i)) }

// clone returns a copy of f.
func (f *Fleet) clone() *Fleet {
	c := *f
	c.answers, c.since, c.heard = maps.Clone(f.answers), maps.Clone(f.since), maps.Clone(f.heard)
	c.clear, c.held = maps.Clone(f.clear), maps.Clone(f.held)
	c.numbers, c.vouchers, c.bound = slices.Clone(f.numbers), maps.Clone(f.vouchers), maps.Clone(f.bound)
	c.forgotten = maps.Clone(f.forgotten)
	c.own = map[string]*ownMark{}
	for server, o := range f.own {
		p := *o
		p.on, p.takenOver = maps.Clone(o.on), slices.Clone(o.takenOver)
		c.own[server] = &p
	}
	c.removed = slices.Clone(f.removed)
	return &c
}

func (s *fleetState) clone() *fleetState {
	c := *s
	c.members = slices.Clone(s.members)
	return &c
}

// member returns member m, which may be changed.
func (s *fleetState) member(m int) *fleetMember {
	s.members[m].Fleet = s.members[m].clone()
	return &s.members[m]
}

// key returns a text that is equal for two states exactly if the same can follow.
func (s *fleetState) key() []byte {
	b := make([]byte, 0, 512)
	num := func(ns ...int) {
		for _, n := range ns {
			b = append(strconv.AppendInt(b, int64(n), 10), ' ')
		}
	}
	age := func(at int64) { num(int(min(s.now-at, int64(long)) / int64(time.Millisecond))) }
	var order []int64 // of the events that a middleware may compare
	at := func(times ...int64) {
		for _, t := range times {
			rank, _ := slices.BinarySearch(order, t)
			num(rank)
			age(t)
		}
	}
	flag := func(is bool) { b = strconv.AppendBool(b, is) }
	list := func(marks Marks) {
		for _, k := range marks {
			b = append(append(append(b, k.Server...), k.Owner...), ' ')
			num(int(k.Beat))
		}
		b = append(b, ';')
	}
	num(s.writer, int(s.missed), int(s.number), int(s.answered), s.cuts, s.restarts, s.deaths, s.starts, s.slow,
		s.times, s.writes)
	for i := range s.servers {
		server := &s.servers[i]
		flag(server.blank)
		num(int(server.value))
		list(server.marks)
	}
	for m := range s.members {
		me := &s.members[m]
		order = order[:0]
		for i := range s.servers {
			order = append(order, me.answers[nameOf(i)].begun, me.exchanges[i].begun)
		}
		for _, o := range me.own {
			order = append(order, o.put, o.since, o.found, o.acknowledged)
		}
		slices.Sort(order)
		order = slices.Compact(order)
		flag(me.dead)
		num(int(me.reach))
		flag(me.leased)
		for i := range me.exchanges {
			e := &me.exchanges[i]
			if !e.under {
				b = append(b, '-')
				continue
			}
			flag(e.heard)
			at(e.begun)
			flag(e.held.blank)
			flag(e.held.blank == s.servers[i].blank && e.held.cas == s.servers[i].cas)
			list(e.held.marks)
			list(e.want)
		}
		age(me.begun)
		age(me.anchored)
		for i := range s.servers {
			until, is := me.bound[nameOf(i)]
			flag(is)
			age(until)
			for other := range s.members {
				v := me.vouchers[on{nameOf(i), strconv.Itoa(other)}]
				num(int(v.number))
				age(v.before)
				age(v.since)
				age(v.asked)
			}
		}
		age(me.few)
		for _, v := range me.numbers {
			num(int(v.number))
			age(v.began)
		}
		age(me.lease)
		age(me.silent)
		list(me.known)
		list(me.found)
		list(me.removed)
		for _, beat := range me.beats {
			num(int(beat.number))
			age(beat.began)
		}
		for i := range s.servers {
			a, is := me.answers[nameOf(i)]
			flag(is && a.witness)
			at(a.begun)
			list(a.marks)
			age(me.since[nameOf(i)])
		}
		for _, server := range slices.Sorted(maps.Keys(me.own)) {
			o := me.own[server]
			b = append(b, server...)
			num(int(o.first), len(o.on))
			for _, on := range slices.Sorted(maps.Keys(o.on)) {
				b = append(b, on...)
			}
			flag(o.respected())
			at(o.put, o.since, o.found, o.acknowledged)
			age(o.until)
			list(o.takenOver)
		}
	}
	return b
}

// start adds a middleware.
func (f *fleet) start(s *fleetState) {
	m := len(s.members)
	me := fleetMember{Fleet: NewFleet(strconv.Itoa(m)), reach: 7}
	me.Place([]string{"a", "b", "c"})
	if f.elder == 0 || m != f.elder {
		me.Register(s.now)
	}
	s.members = append(s.members, me)
}

// first returns the state in which all middlewares read.
func (f *fleet) first() *fleetState {
	s := &fleetState{now: int64(time.Minute), writer: -1, number: 1, answered: 1}
	for i := range s.servers {
		s.servers[i].value = 1
	}
	for range f.members {
		f.start(s)
	}
	for range 8 {
		for m := range s.members {
			for range 3 {
				for i := range s.servers {
					s.now++
					f.look(s, m, i)
				}
			}
		}
		s.now += int64(instant)
	}
	for m := range s.members {
		if s.now >= f.lease(s, m) {
			panic("no lease")
		}
	}
	return s
}

// lease returns until when member m may read.
func (f *fleet) lease(s *fleetState, m int) int64 {
	me := &s.members[m]
	o := me.own[reads]
	switch {
	case f.elder != 0 && m == f.elder, f.unregistered:
		return me.Fleet.lease
	case f.premature && o != nil && o.since != 0:
		return min(me.Fleet.lease, o.until)
	case f.eager && m == 2:
		return me.Fleet.lease
	case f.kept && me.leased:
		return me.Fleet.lease
	}
	return me.Lease()
}

// ask, hear and store are the three steps of a look at server i by member m.
func (f *fleet) ask(s *fleetState, m, i int) {
	s.members[m].exchanges[i] = exchange{under: true, begun: s.now, held: s.servers[i]}
}

func (f *fleet) hear(s *fleetState, m, i int) {
	me := s.member(m)
	e := &me.exchanges[i]
	e.heard = true
	if f.elder != 0 && m != f.elder && !f.unnoticed || f.alone {
		me.Silent(s.now + int64(time.Hour))
	}
	if f.dormant && m == 2 {
		me.beats = slices.Clone(me.beats)
		for k := range me.beats {
			me.beats[k].began = s.now
		}
	}
	me.Beat(s.now)
	f.mislead(s, m)
	hope := f.hopes(me)
	changed := false
	blank := e.held.blank && !f.trusting
	if blank {
		if f.late {
			accepts := me.acceptsEmpty
			me.acceptsEmpty = true
			e.want, changed = me.Empty(nameOf(i), e.begun, s.now, s.now)
			me.acceptsEmpty = accepts
		} else {
			e.want, changed = me.Empty(nameOf(i), e.begun, s.now, s.now)
		}
		if f.forgetful {
			e.want = me.mine()
		}
	} else {
		e.want, changed = me.Witness(nameOf(i), e.held.marks, e.begun, s.now)
		if f.minor {
			me.found = nil
			for _, k := range me.known {
				if k.ofServer() {
					me.found = append(me.found, k)
				}
			}
			e.want = me.Want(e.held.marks)
			changed = !slices.Equal(e.want, e.held.marks)
		}
	}
	if f.elder != 0 && m == f.elder {
		me.found = nil
		if !blank {
			e.want = me.Want(e.held.marks)
			changed = !slices.Equal(e.want, e.held.marks)
		}
	}
	if f.sweeping && !blank && len(me.own) == 1 && len(e.held.marks) > 0 && me.own[reads] != nil {
		e.want = slices.DeleteFunc(slices.Clone(e.want),
			func(k Mark) bool { return k.ofServer() && k.Owner != me.owner })
		changed = !slices.Equal(e.want, e.held.marks)
	}
	if !changed {
		*e = exchange{}
	}
	f.adjust(s, me, hope)
}

// mislead makes member m believe what the rules for one server that counts would prevent.
func (f *fleet) mislead(s *fleetState, m int) {
	me := &s.members[m]
	for i := range s.servers {
		for other := range s.members {
			of := on{nameOf(i), strconv.Itoa(other)}
			if v := me.vouchers[of]; other != m && (f.halves || f.aged && v.since != 0) {
				v.asked, v.since = s.now, s.now
				me.vouchers[of] = v
			}
		}
	}
	if f.former != 0 && m == f.former {
		me.few = 0
	}
	for k, since := range me.heard {
		if f.forgetting && k.Server == reads && s.now-since > int64(goneAfter) {
			me.remove(k)
		}
	}
	if f.forgetting {
		clear(me.forgotten)
	}
	for server, until := range me.bound {
		if f.unbound && until <= s.now {
			delete(me.bound, server)
		}
	}
}

// hopes returns the marks of me that are in force.
func (f *fleet) hopes(me *fleetMember) map[string]ownMark {
	hope := map[string]ownMark{}
	for server, o := range me.own {
		if f.hopeful && o.since != 0 {
			hope[server] = *o
		}
	}
	return hope
}

func (f *fleet) store(s *fleetState, m, i int) {
	me := s.member(m)
	e, server := me.exchanges[i], &s.servers[i]
	me.exchanges[i] = exchange{}
	if server.blank != e.held.blank || !server.blank && server.cas != e.held.cas {
		return
	}
	hope := f.hopes(me)
	server.marks, server.blank = e.want, false
	server.cas++
	if !e.held.blank {
		if f.once {
			for _, o := range me.own {
				delete(o.on, nameOf(i))
			}
		}
		me.Put(nameOf(i), e.held.marks, e.want, s.now)
	}
	f.adjust(s, me, hope)
}

// adjust changes what the rules that are left out would prevent.
func (f *fleet) adjust(s *fleetState, me *fleetMember, hope map[string]ownMark) {
	for server, before := range hope {
		if o := me.own[server]; o.since == 0 {
			*o = before
		}
	}
	me.leased = me.leased || s.now < me.Lease()
	for server, o := range me.own {
		if f.older && server != reads {
			o.first = 0
		}
	}
}

func (f *fleet) look(s *fleetState, m, i int) {
	f.ask(s, m, i)
	s.now++
	f.hear(s, m, i)
	s.now++
	if s.members[m].exchanges[i].under {
		f.store(s, m, i)
	}
}

// mayAnswer reports whether the writer may answer.
func (f *fleet) mayAnswer(s *fleetState) bool {
	me := &s.members[s.writer]
	if s.now >= f.lease(s, s.writer) {
		return false
	}
	for i := range s.servers {
		if s.missed&bit(i) == 0 {
			continue
		}
		o := me.own[nameOf(i)]
		switch {
		case f.hasty && o.since != 0 && s.now < o.until:
		case f.short && o.since != 0 && s.now-o.since >= int64(inForce):
		case f.lone && len(o.on) > 0 && s.now-o.put >= int64(inForce):
		case f.early && o.since != 0 && s.now < o.until && s.now-o.since >= int64(inForce):
		case me.InForce(nameOf(i), s.now) == 0:
			return false
		}
	}
	return true
}

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
	for m := range s.members {
		if me := &s.members[m]; !me.dead {
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
				if me.reach&bit(i) != 0 {
					c.servers[i].value = c.number
				} else {
					c.missed |= bit(i)
					c.member(m).Mark(nameOf(i), c.now)
				}
			}
		})
	case s.writer == m:
		change("the write fails", func(c *fleetState) { c.writer = -1 })
		if s.missed != 7 && f.mayAnswer(s) {
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
		for i := range s.servers {
			marked := slices.ContainsFunc(known,
				func(k Mark) bool { return k.Server == nameOf(i) && k.Owner != me.owner })
			if me.reach&bit(i) != 0 && me.own[nameOf(i)] == nil && !marked && s.servers[i].value != 0 &&
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

func steps(parts ...[]string) []string { return slices.Concat(parts...) }

// looks are looks of middleware m at servers.
func looks(m int, servers ...int) (events []string) {
	for _, i := range servers {
		events = append(events, fmt.Sprintf("middleware %d looks at %d", m, i))
	}
	return events
}

// rounds are n looks of each of the middlewares at servers, with time between them.
func rounds(n int, middlewares []int, servers ...int) (all []string) {
	for range n {
		for _, m := range middlewares {
			all = append(all, looks(m, servers...)...)
		}
		all = append(all, "time passes")
	}
	return all
}

func do(events ...string) []string { return events }

var (
	everywhere = []int{0, 1, 2}
	// placing: server 0 missed a write, and its mark is on one server; marked: on both, and found there.
	placing = steps(do("middleware 0 loses 0", "middleware 0 writes"), looks(0, 1))
	marked  = steps(placing, looks(0, 2, 1, 2))
	// acknowledged: the other has acknowledged it, and the writer has found that; known: the writer has found the mark
	// once more.
	acknowledged = steps(marked, looks(1, 1, 2), looks(0, 1, 2))
	known        = steps(acknowledged, looks(0, 1, 2), do("the write is answered"))
	// cleaned: server 0 is clean, and its mark is removed.
	cleaned = steps(known, do("middleware 0 reaches 0 again", "middleware 0 cleans 0"), looks(0, 1, 2))
	// again: the other was not told by server 1, which still holds its acknowledgement. Server 0 is marked again.
	again = steps(cleaned, do("middleware 1 loses 1"), rounds(3, []int{0}, everywhere...), looks(1, 0, 2),
		looks(0, everywhere...),
		do("middleware 0 writes", "the write is answered", "middleware 0 loses 0", "middleware 0 writes"),
		looks(0, 1, 2, 1, 2))
	// turns: later the other marks it.
	turns = steps(cleaned, looks(1, everywhere...),
		do("middleware 0 writes", "the write is answered", "middleware 1 loses 0", "middleware 1 writes"),
		looks(1, 1, 2, 1, 2), looks(0, 1, 2), looks(1, 1, 2, 1, 2), do("the write is answered"))
	// lost: server 1 has the mark alone, loses it, and the other has noticed that.
	lost = steps(placing, looks(1, 1, 2), do("server 1 restarts", "middleware 1 asks 1", "middleware 1 hears 1"),
		looks(1, 0), looks(0, 1, 2, 1, 2))
	// replaced: a third middleware, which has not seen the mark, has restored server 1 without it; the second one looks
	// there, and not at server 2.
	replaced = steps(marked, looks(1, 1, 2), do("server 1 restarts"), looks(2, 1), do("middleware 1 loses 2"),
		rounds(3, []int{1}, 0, 1), looks(1, 0, 1),
		looks(0, 1, 2, 1, 2), looks(2, 1, 2), looks(0, 1, 2))
	// looked: another middleware has started and looked before the mark was placed, and not stored its registration.
	looked = steps(do("another middleware starts"), hears(2, 1, 2), acknowledged)
	// joined: the registration of another middleware was lost with two servers, which the second has restored without
	// it.
	joined = steps(do("another middleware starts"), looks(2, 0, 1, 2, 0, 1, 2),
		do("server 0 restarts", "server 1 restarts"), looks(1, 0, 1),
		do("middleware 0 loses 2", "middleware 0 writes"),
		looks(0, 0, 1, 0, 1), looks(1, 0, 1), looks(0, 0, 1))
	// stopped: the third middleware stopped for so long that it counts as gone, and looks again just before the others
	// notice that; removed: after it.
	stopped = steps(rounds(42, []int{0, 1}, everywhere...), hears(2, 1, 2), do("time passes"), looks(0, everywhere...),
		looks(1, everywhere...), acknowledged)
	removed = steps(rounds(45, []int{0, 1}, everywhere...), hears(2, 1, 2), acknowledged)
	// restored: server 1 restarts after the answer, and the other copies marks there. It does not look at server 2
	// again.
	restored = steps(known, do("server 1 restarts"), rounds(6, []int{1}, 1, 0))
	// single: server 2 alone answers both, who come to vouch for it; singly: server 0 and 1 are marked there, and a
	// write is answered.
	single = steps(do("middleware 0 loses 0", "middleware 0 loses 1", "middleware 1 loses 0", "middleware 1 loses 1"),
		rounds(1, []int{0, 1}, 2), looks(0, 2), looks(1, 2), do("time passes"), agree, agree, agree)
	agree  = steps(looks(0, 2), looks(1, 2))
	singly = steps(single, do("middleware 0 writes"), agree, agree, agree, agree, do("the write is answered"))
	// returned: the others return, and one reaches them; shared: the marks are there, too, and it is bound to nothing.
	returned = steps(singly, do("middleware 1 reaches 0 again", "middleware 1 reaches 1 again", "time passes",
		"time passes", "time passes"))
	// apart: one reaches server 2, the other the others. halved: it has written, and nobody has forgotten the other;
	// silent: somebody would have.
	apart  = do("middleware 0 loses 0", "middleware 0 loses 1", "middleware 1 loses 2")
	aside  = steps(looks(0, 2, 2), looks(1, 0, 1), do("time passes"))
	writes = steps(do("middleware 1 writes"), looks(1, 0, 1, 0, 1), aside, aside, aside, looks(1, 0, 1),
		do("the write is answered"))
	halved = steps(apart, aside, aside, aside, writes)
	silent = steps(apart, slices.Concat(slices.Repeat([][]string{aside}, 53)...), writes)
	// left: one was bound, is no longer, and does the same.
	left = steps(single, do("middleware 1 reaches 0 again", "middleware 1 reaches 1 again"),
		slices.Concat(slices.Repeat([][]string{steps(looks(1, everywhere...), looks(0, 2), do("time passes"))}, 5)...),
		looks(1, everywhere...), do("middleware 1 loses 2"), writes)
	// late: another starts that reaches only the two servers that don't answer the others; whole: it reaches all.
	begins = steps(singly, do("another middleware starts"))
	late   = steps(begins, do("middleware 2 loses 2"), rounds(6, []int{2}, 0, 1))
	whole  = steps(begins, rounds(6, []int{2}, everywhere...), rounds(3, []int{2}, 0, 1))
	// The following are without acknowledgements. waited: the wait for the mark is over; waiting: the other restores
	// server 1 without it before that.
	waited  = steps(marked, rounds(3, []int{0}, 1, 2))
	waiting = steps(looks(0, everywhere...), looks(1, everywhere...), marked, do("time passes", "time passes"),
		looks(0, 1, 2), do("server 1 restarts"), looks(1, 1, 0, 1),
		do("time passes"))
	expired = steps(waited, looks(0, 1, 2), do("the write is answered", "server 1 restarts"), looks(1, 1, 0, 1, 0))
	lacked  = steps(looks(1, everywhere...), marked, do("time passes", "time passes", "server 1 restarts"),
		looks(1, 1, 0, 1), looks(0, 1, 2, 1, 2),
		do("time passes"), looks(0, 1, 2))
	partly = steps(placing, do("time passes", "time passes"), looks(0, 1), hears(0, 2), do("time passes"))
	dead   = steps(known, do("middleware 0 dies"), rounds(53, []int{1}, everywhere...),
		do("middleware 1 marks 0 for a dead one"), looks(1, everywhere...))
)

// hears are looks of middleware m at servers, without the stores that follow.
func hears(m int, servers ...int) (events []string) {
	for _, i := range servers {
		events = append(events, fmt.Sprintf("middleware %d asks %d", m, i), fmt.Sprintf("middleware %d hears %d", m, i))
	}
	return events
}

// fleets are explored. In each that has a rule, a stale value is read without that rule.
var fleets = map[string]struct {
	fleet
	rule    string
	without func(f *fleet)
}{
	"from the beginning": {fleet{writes: 1, cuts: 1, restarts: 1, times: 3}, "", nil},
	"a server restarts with a mark on it": {
		fleet{restarts: 1, times: 2, slow: 1, prefix: placing},
		"", nil,
	},
	"a server restarts when the mark is in force": {fleet{restarts: 1, times: 2, slow: 1, prefix: marked}, "", nil},
	"a server restarts when the mark is acknowledged": {
		fleet{restarts: 1, times: 2, slow: 1, prefix: acknowledged},
		"", nil,
	},
	"two servers restart": {
		fleet{restarts: 2, times: 2, slow: 1, prefix: known},
		"a reader looks at a majority", func(f *fleet) { f.single = true },
	},

	"a second mark": {
		fleet{times: 1, prefix: again},
		"an acknowledgement of an earlier mark does not count", func(f *fleet) { f.older = true },
	},
	"a server loses a mark": {
		fleet{times: 1, prefix: lost},
		"a mark is acknowledged when it is on a majority",
		func(f *fleet) { f.minor = true },
	},
	"a server is replaced": {
		fleet{members: 3, times: 1, prefix: replaced},
		"a mark that a server has lost is another one", func(f *fleet) { f.once = true },
	},
	"another looks": {
		fleet{times: 1, prefix: looked},
		"who reads is registered",
		func(f *fleet) { f.unregistered = true },
	},
	"another is registered": {
		fleet{times: 1, prefix: joined},
		"a registration counts when all know of it",
		func(f *fleet) { f.premature = true },
	},
	"another was stopped": {
		fleet{members: 3, times: 1, prefix: stopped},
		"a registration needs a recent beat",
		func(f *fleet) { f.dormant = true },
	},
	"another was removed": {
		fleet{members: 3, times: 1, prefix: removed},
		"a registration that was lost does not count", func(f *fleet) { f.kept = true },
	},
	"another does not acknowledge": {
		fleet{members: 3, elder: 2, times: 1, prefix: acknowledged},
		"who does not acknowledge is noticed", func(f *fleet) { f.unnoticed = true },
	},

	"one server is left": {
		fleet{times: 2, prefix: single},
		"", nil,
	},
	"and is marked alone": {
		fleet{times: 1, restarts: 1, prefix: singly},
		"", nil,
	},
	"the others return": {
		fleet{times: 1, prefix: returned},
		"who has vouched is bound until the marks are on most servers", func(f *fleet) { f.unbound = true },
	},
	"one of two leaves": {
		fleet{times: 1, prefix: left},
		"a vouch counts for a short time", func(f *fleet) { f.aged = true },
	},
	"two halves": {
		fleet{times: 1, prefix: halved},
		"all who are registered vouch", func(f *fleet) { f.halves = true },
	},
	"one half vouches for nothing": {
		fleet{former: 1, times: 1, prefix: halved},
		"all who are registered vouch", func(f *fleet) { f.halves = true },
	},
	"two halves for long": {
		fleet{times: 1, prefix: silent},
		"nobody is forgotten while one server counts", func(f *fleet) { f.forgetting = true },
	},
	"another starts apart": {
		fleet{times: 1, prefix: late},
		"who starts registers where all others look", func(f *fleet) { f.eager = true },
	},
	"another starts": {
		fleet{times: 1, prefix: whole},
		"who starts finds all marks on most servers", func(f *fleet) { f.eager = true },
	},

	"a mark is in force": {
		fleet{alone: true, times: 4, prefix: marked},
		"a writer waits for readers",
		func(f *fleet) { f.hasty = true },
	},
	"a mark is on one server": {
		fleet{alone: true, times: 2, prefix: partly},
		"a mark is on a majority",
		func(f *fleet) { f.lone = true },
	},
	"the mark is lost in the wait": {
		fleet{alone: true, times: 2, prefix: waiting},
		"a writer finds its marks again, for those who copy", func(f *fleet) { f.short = true },
	},
	"and was found shortly before": {
		fleet{alone: true, times: 2, prefix: waiting},
		"it does so when the wait is over",
		func(f *fleet) { f.early = true },
	},
	"a witness lacks the mark": {
		fleet{alone: true, times: 2, prefix: lacked},
		"a mark that a witness lacks is not in force", func(f *fleet) { f.hopeful = true },
	},
	"who was away restores": {
		fleet{alone: true, times: 2, prefix: expired},
		"from a look that can be relied on",
		func(f *fleet) { f.late = true },
	},
	"marks are restored": {
		fleet{times: 2, prefix: restored},
		"marks are copied to a server that has restarted", func(f *fleet) { f.forgetful = true },
	},
	"a server that has restarted": {
		fleet{times: 2, prefix: restored},
		"is no witness",
		func(f *fleet) { f.trusting = true },
	},
	"both have marked it in turns": {
		fleet{times: 2, prefix: turns},
		"a middleware removes only its own marks",
		func(f *fleet) { f.sweeping = true },
	},
	"the writer cleans its server": {
		fleet{times: 2, cuts: 1, prefix: known},
		"a server is clean before its mark is removed", func(f *fleet) { f.dirty = true },
	},
	"the writer dies": {
		fleet{times: 2, prefix: dead},
		"a server is clean before a dead owner's mark is removed", func(f *fleet) { f.dirty = true },
	},
}

func TestNoMiddlewareOfAFleetReadsAValueThatAnAnsweredWriteReplaced(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	most := 2_000
	if mctest.Long() {
		most = 50_000
	}
	for name, e := range fleets {
		t.Run(name, func(t *testing.T) {
			e.members = max(e.members, 2)
			path, states := e.explore(most)
			assert.Nil(t, path)
			t.Log(states, "states")
			if e.rule == "" {
				return
			}
			e.without(&e.fleet)
			path, states = e.explore(5_000)
			assert.NotNil(t, path, e.rule)
			t.Log(states, path)
		})
	}
}
