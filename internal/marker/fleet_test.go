package marker

import (
	"maps"
	"slices"
	"strconv"
	"time"
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
	members int  // that run at the beginning; one more can start
	pair    bool // there are two servers
	// Bounds of the numbers of events.
	writes, cuts, restarts, deaths, starts, slow, times, waits int
	// the member, if not 0, that is of a version which does not acknowledge marks
	elder int
	alone bool // nobody acknowledges marks
	// the member, if not 0, that is of a version which vouches for no server
	former int
	// lazy: an answer that says nothing new may be judged later
	lazy bool
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
	impatient  bool // who starts takes the silent for dead
	endless    bool // one server counts for ever
	careless   bool // with two servers, who is silent is forgotten
	past       bool // a refusal of long ago is a proof
	revived    bool // a proof makes one server count that has ceased to
	restless   bool // who starts does not wait again when a server was restarted
	hurried    bool // who starts does not wait until nobody vouches
}

type fleetServer struct {
	value uint8
	blank bool
	marks Marks
	cas   uint16
	down  bool
	life  uint8 // how often it was killed
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
	leased    bool     // it had a lease
	lives     [3]uint8 // of the servers, when it connected to them
}

type fleetState struct {
	now              int64
	servers          []fleetServer
	members          []fleetMember
	writer           int // -1: none
	missed           uint8
	number, answered uint8
	inPlace          bool // nobody needs an earlier state
	events
}

// events are numbers of events so far.
type events struct{ writes, cuts, restarts, deaths, starts, slow, times, waits int }

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
	c.refused, c.proved, c.met = maps.Clone(f.refused), maps.Clone(f.proved), maps.Clone(f.met)
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
	c.members, c.servers = slices.Clone(s.members), slices.Clone(s.servers)
	return &c
}

// member returns member m, which may be changed.
func (s *fleetState) member(m int) *fleetMember {
	if !s.inPlace {
		s.members[m].Fleet = s.members[m].clone()
	}
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
	for i := range s.servers {
		me.lives[i] = s.servers[i].life - 1 // not connected
	}
	me.Place([]string{"a", "b", "c"}[:len(s.servers)])
	if f.elder == 0 || m != f.elder {
		me.Register(s.now)
	}
	s.members = append(s.members, me)
}

// first returns the state in which all middlewares read.
func (f *fleet) first() *fleetState {
	s := &fleetState{now: int64(time.Minute), writer: -1, number: 1, answered: 1, servers: make([]fleetServer, 3)}
	if f.pair {
		s.servers = s.servers[:2]
	}
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
	if server := &s.servers[i]; !server.down && s.members[m].lives[i] != server.life {
		me := s.member(m)
		me.lives[i] = server.life
		me.Met(nameOf(i), s.now)
	}
	s.members[m].exchanges[i] = exchange{under: true, begun: s.now, held: s.servers[i]}
}

func (f *fleet) hear(s *fleetState, m, i int) {
	me := s.member(m)
	e := &me.exchanges[i]
	if e.held.down {
		if f.revived {
			me.anchored = s.now
		}
		me.Refused(nameOf(i), e.begun, s.now)
		*e = exchange{}
		return
	}
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
			v := me.vouchers[of]
			silent := s.now-me.heard[Mark{reads, strconv.Itoa(other), me.beatOfReader(other)}] > int64(goneAfter)
			if other != m && (f.halves || f.aged && v.since != 0 || f.careless && silent) {
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
	for k, since := range me.heard {
		if f.impatient && m == 2 && k.Server == reads && s.now-since > int64(goneAfter) {
			me.remove(k)
			me.orphaned = true
		}
	}
	if f.endless && me.anchored != 0 {
		me.anchored = s.now
	}
	for one := range me.proved {
		if f.past {
			me.proved[one] = s.now
		}
	}
	if f.restless {
		clear(me.met)
	}
	if f.hurried {
		me.whole, me.vouched = 0, 0
	}
	for server, until := range me.bound {
		if f.unbound && until <= s.now {
			delete(me.bound, server)
		}
	}
}

// beatOfReader returns the beat with which this middleware knows the registration of another.
func (me *fleetMember) beatOfReader(other int) uint64 {
	for _, k := range me.known {
		if k.Server == reads && k.Owner == strconv.Itoa(other) {
			return k.Beat
		}
	}
	return 0
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
	if server.down || server.blank != e.held.blank || !server.blank && server.cas != e.held.cas {
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
