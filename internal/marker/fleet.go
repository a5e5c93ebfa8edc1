package marker

import (
	"slices"
	"time"
)

const (
	// LookEvery is the time between two looks at a server's marks.
	LookEvery = 40 * time.Millisecond
	// JudgeEvery is for how long answers that say nothing new need not be judged.
	JudgeEvery = 5 * time.Millisecond
	// soon is the time between two looks for a mark that was just stored.
	soon = 5 * time.Millisecond
	// relied is how long a look is relied on, counted from its beginning: the next two looks may fail.
	relied = 250 * time.Millisecond
	// inForce is how long a mark must be in force, and then be found again, before a write that its server missed is
	// answered: relied, and a tenth of it because clocks differ in speed. By then nobody reads by a look that did not
	// find the mark. If somebody has copied marks by such a look to a server that had restarted, the mark is not found
	// there.
	inForce = relied + relied/10
	// beatEvery is the time between two beats of an owner. An owner without a beat for goneAfter is gone. An owner that
	// was only stopped for that long finds its marks removed when it continues, and its last look is then too old to
	// rely on.
	beatEvery = time.Second
	goneAfter = 5 * time.Second
	// lostAfter is how long most servers must have been without marks before a middleware assumes that no other one can
	// restore the marks: who can relies on a look that found them.
	lostAfter = 2 * inForce
	// validFor is how long a beat shows to its owner that nobody counts it as gone.
	validFor = goneAfter / 2
	// maxRemoved bounds the marks of others that are remembered as removed.
	maxRemoved = 64
)

// Fleet is one middleware's view of the marks that all middlewares in front of the same servers respect while they run.
// A server that holds marks, even an empty list, is a witness. A mark is in force while it is on a quorum of the
// servers, all of them witnesses; a look at a quorum therefore finds it. A quorum is a majority, or one server for
// which all vouch (quorum.go). The model in fleet_test.go checks these rules. Times are ns of one monotonic clock. A
// Fleet has no lock.
type Fleet struct {
	owner   string
	servers []string
	answers map[string]answer   // by server
	own     map[string]*ownMark // by the server that is marked
	beats   []beat              // the latest, and those before it that are valid

	// begun is when the last look at a quorum of witnesses began, lease the time until which it is relied on, and
	// known the marks of others in it.
	begun, lease int64
	known        Marks
	// found are marks of servers in known that are on a majority, which this middleware acknowledges; each with a beat
	// that is on a majority.
	found Marks
	// since is, by server, the time from which on each look has found a mark of another middleware on a majority.
	since map[string]int64
	// clear is, by server, the last time at which it was marked, a look found a mark of it, or a look came so late that
	// it could have missed one. held is the last time at which such a mark can have been in force.
	clear, held map[string]int64
	// heard is when each of known was found first, with its present beat.
	heard   map[Mark]int64
	removed Marks // of others, to be removed from the servers
	// acceptsEmpty: servers without marks become witnesses, because no middleware knows the marks that they have lost.
	acceptsEmpty bool
	alone        bool // no middleware was here before the first look
	// lost is the time since which most servers answer, but too few of them are witnesses; 0: that is not so.
	lost int64
	// whole is when not all servers answered, and vouched when a new vouch of another was found last.
	whole, vouched int64
	// silent is the time until which middlewares may read that do not acknowledge marks.
	silent int64
	// news: a server's mark was found for the first time.
	news bool

	// See quorum.go. few is the time since which too few servers answer; 0: enough do. numbers are the own ones that
	// may still be found, the latest last. bound has the servers to which this middleware is bound, with the time until
	// which its last vouch may count. anchored is when the last look began that found its registration, of which all
	// knew, on most servers. refused is, by server, when the attempt to connect began that it refused last, proved when
	// most of the others were not up, and met when the connection to it was made. forgotten is, by owner, when a
	// registration was found removed whose owner was silent. orphaned: all servers must be flushed, because nobody has
	// said what those who were registered have done.
	few       int64
	numbers   []beat
	vouchers  map[on]voucher
	bound     map[string]int64
	anchored  int64
	refused   map[string]int64
	proved    map[string]int64
	met       map[string]int64
	forgotten map[string]int64
	orphaned  bool
	agrees    bool // see Agrees
}

// beat is a beat of this middleware, and when it began.
type beat struct {
	number uint64
	began  int64
}

// answer is what a server held when it was asked last.
type answer struct {
	begun   int64 // when it was asked
	witness bool
	marks   Marks
	blank   int64 // it has held no marks since then; 0: unknown
}

// ownMark is a mark that this middleware owns.
type ownMark struct {
	first        uint64          // the beat with which it was made, or made again after a server had lost it
	on           map[string]bool // servers that have held it with that beat or a later one
	put          int64           // when it was made, or last stored on a witness that had lacked it
	since, until int64           // the time in which it is in force; 0: it is not
	found        int64           // when the last look that found it in force began
	acknowledged int64           // when all that are registered had acknowledged it in force; 0: they have not
	// marks of the same server by owners that are gone; to be removed when the server is clean
	takenOver Marks
}

// NewFleet returns a Fleet that has seen no server yet.
func NewFleet(owner string) *Fleet {
	return &Fleet{
		owner: owner, answers: map[string]answer{}, own: map[string]*ownMark{}, clear: map[string]int64{},
		held:  map[string]int64{},
		heard: map[Mark]int64{}, beats: []beat{{}},
		vouchers: map[on]voucher{}, bound: map[string]int64{}, forgotten: map[string]int64{},
		refused: map[string]int64{}, proved: map[string]int64{}, met: map[string]int64{},
	}
}

// Place sets the servers.
func (f *Fleet) Place(servers []string) {
	f.servers = servers
	for name := range f.answers {
		if !slices.Contains(servers, name) {
			delete(f.answers, name)
			delete(f.bound, name)
		}
	}
}

// majority is the number of servers that must have a mark for it to be in force, and the number of witnesses that
// together find every such mark.
func (f *Fleet) majority() int { return len(f.servers)/2 + 1 }

// Mark marks server.
func (f *Fleet) Mark(server string, now int64) {
	if f.own[server] == nil {
		f.own[server] = &ownMark{}
		f.renew(f.own[server], now)
		f.clear[server], f.held[server] = now, now
	}
}

// renew makes o a new mark, of which nothing is known.
func (f *Fleet) renew(o *ownMark, now int64) {
	f.nextBeat(now)
	*o = ownMark{first: f.beat(), on: map[string]bool{}, put: now, takenOver: o.takenOver}
}

// Register makes this middleware one that reads, once all others know of it. Without that there is no Lease.
func (f *Fleet) Register(now int64) { f.Mark(reads, now) }

// Leave undoes Register.
func (f *Fleet) Leave() { delete(f.own, reads) }

// Silent records that until a time middlewares may read that neither register nor acknowledge marks.
func (f *Fleet) Silent(until int64) {
	if until <= f.silent {
		return
	}
	f.silent = until
	for _, o := range f.own {
		o.acknowledged = 0
	}
}

// Unmark records that server is clean, and removes this middleware's mark of it, if there is one, and the marks of it
// that were taken over.
func (f *Fleet) Unmark(server string) {
	if o := f.own[server]; o != nil {
		f.remove(o.takenOver...)
		delete(f.own, server)
	}
}

// Gone returns a mark whose owner is gone, if there is one that has not been taken over. It ignores marks of servers
// that are not in the list: a server that was in another list may hold such marks, and the middlewares that use that
// list take care of them.
func (f *Fleet) Gone(now int64) (Mark, bool) {
	if now >= f.lease {
		return Mark{}, false // its beats are not heard
	}
	for _, k := range f.known {
		if !slices.Contains(f.servers, k.Server) {
			continue
		}
		since, heard := f.heard[k]
		if o := f.own[k.Server]; heard && now-since > int64(goneAfter) && (o == nil || !o.takenOver.holds(k)) {
			return k, true
		}
	}
	return Mark{}, false
}

// TakeOver makes this middleware remove k, the mark of an owner that is gone, when its server is clean. This middleware
// must have marked that server itself.
func (f *Fleet) TakeOver(k Mark) {
	if o := f.own[k.Server]; o != nil {
		o.takenOver = append(o.takenOver, k)
	}
}

// Beat reports whether this middleware's marks must be stored again, to show that their owner is alive.
func (f *Fleet) Beat(now int64) bool {
	if len(f.own) == 0 || now-f.beats[0].began < int64(beatEvery) {
		return false
	}
	f.nextBeat(now)
	return true
}

func (f *Fleet) beat() uint64 { return f.beats[0].number }

func (f *Fleet) nextBeat(now int64) {
	f.beats = slices.Insert(slices.Clone(f.beats), 0, beat{f.beat() + 1, now})
	f.valid(now)
}

// valid returns the earliest beat that is valid.
func (f *Fleet) valid(now int64) uint64 {
	for len(f.beats) > 1 && now-f.beats[len(f.beats)-1].began >= int64(validFor) {
		f.beats = f.beats[:len(f.beats)-1]
	}
	if oldest := f.beats[len(f.beats)-1]; now-oldest.began < int64(validFor) {
		return oldest.number
	}
	return f.beat() + 1
}

// mine returns this middleware's marks.
func (f *Fleet) mine() (m Marks) {
	for server := range f.own {
		m = append(m, Mark{server, f.owner, f.beat()})
	}
	for _, k := range f.found {
		m = append(m, k.acknowledgement(f.owner))
	}
	return m
}

// others returns the marks of m that other middlewares own, without those to be removed.
func (f *Fleet) others(m Marks) (others Marks) {
	for _, k := range m {
		if k.Owner != f.owner && !f.removed.holds(k) {
			others = append(others, k)
		}
	}
	return others
}

// Want returns the marks that a server which holds marks is to hold instead.
func (f *Fleet) Want(marks Marks) Marks { return f.others(marks).merge(f.mine()) }

// Empty records that server, asked at begun, held no marks, and none since blank; 0: it may have lost some at any time.
// If joins is true, the server may become a witness: want is to be stored there, unless another middleware has stored
// marks there since.
func (f *Fleet) Empty(server string, begun, blank, now int64) (want Marks, joins bool) {
	f.see(server, answer{begun: begun, blank: blank}, now)
	if now >= f.Lease() && !(f.acceptsEmpty && f.begins(now)) {
		return nil, false
	}
	want = f.others(f.known).merge(f.mine())
	for _, s := range f.answers {
		want = want.merge(f.others(s.marks))
	}
	return slices.DeleteFunc(want, func(k Mark) bool { return k.vouchesFor(server) }), true
}

// Put records that want has been stored, by now, on server, a witness that held marks. An own mark that was not among
// marks counts as in force only once a look that begins from now on has found it, unless all middlewares respect it
// already. If the server had it before, it is another mark: who acknowledged it may have looked since at servers that
// did not have it.
func (f *Fleet) Put(server string, marks, want Marks, now int64) {
	for _, k := range want {
		o := f.own[k.Server]
		if o == nil || k.Owner != f.owner || marks.of(k.Server, k.Owner) {
			continue
		}
		if o.on[server] {
			f.renew(o, now)
		} else if !o.respected() {
			o.put, o.since, o.until, o.acknowledged = now, 0, 0, 0
		}
		o.on[server] = true
	}
	f.hear(server, want, now)
}

// Alone is AcceptEmpty for a middleware that finds no mark on its first look because no middleware was here before.
func (f *Fleet) Alone() {
	f.alone = true
	f.AcceptEmpty()
}

// AcceptEmpty lets servers that hold no marks become witnesses, with the marks that this middleware knows. It is called
// if marks are lost and this middleware has marked every server.
func (f *Fleet) AcceptEmpty() {
	f.acceptsEmpty, f.orphaned = true, false
	clear(f.bound)
}

// Lost reports whether for lostAfter most servers have answered, but too few of them are witnesses. Then no server may
// be read, and no middleware can restore the marks.
func (f *Fleet) Lost(now int64) bool {
	return f.orphaned || f.lost != 0 && now-f.lost > int64(lostAfter) && !f.acceptsEmpty && f.begins(now)
}

// see records the answer of a server and updates everything that follows from the answers.
func (f *Fleet) see(server string, a answer, now int64) {
	if !slices.Contains(f.servers, server) {
		return // it was removed
	}
	f.answers[server] = a
	recent := now - int64(relied)
	answered, _ := f.count(recent, func(answer) bool { return true })
	witnesses, most := f.count(recent, isWitness)
	if a.witness {
		f.hear(server, a.marks, now)
	}
	if answered < len(f.servers) {
		f.whole = now
	}
	begun, since := f.quorum(recent, now, isWitness)
	switch awake, _ := f.count(now-int64(shortOf), isWitness); {
	case awake >= f.majority():
		f.few = 0
	case f.few == 0:
		f.few = now
	}
	if witnesses >= f.majority() {
		f.acceptsEmpty = false
	}
	switch {
	case begun != 0:
		f.lost = 0
	case now < f.lease || answered < f.majority():
		f.lost = 0
	case f.lost == 0:
		f.lost = now
	}
	if begun != 0 && begun >= f.begun {
		if now >= f.lease {
			f.since = nil // a mark may have been removed and stored again since
		}
		f.findClear(begun, recent, now)
		f.begun, f.lease = begun, max(f.lease, since+int64(relied))
		f.agrees = most < since
		f.know(recent, now)
		f.release(recent, now)
	}
	for server, o := range f.own {
		f.judge(server, o, recent, now)
	}
}

func isWitness(a answer) bool { return a.witness }

// count returns how many servers gave an answer for which ok returns true when they were asked after the time after.
// begun is when the latest look at a majority of them began; 0: they are no majority.
func (f *Fleet) count(after int64, ok func(answer) bool) (n int, begun int64) {
	times := make([]int64, 0, len(f.answers))
	for _, a := range f.answers {
		if a.begun > after && ok(a) {
			times = append(times, a.begun)
		}
	}
	if len(times) < f.majority() {
		return len(times), 0
	}
	slices.Sort(times)
	return len(times), times[len(times)-f.majority()]
}

// Doubt records that the servers may have lost this middleware's marks. They are not in force until a look has found
// them again.
func (f *Fleet) Doubt() {
	for server, o := range f.own {
		if server != reads { // who relies on a look knows that this middleware reads, and restores that
			o.until = 0
		}
	}
}

// Lease returns the time until which servers may be read: all marks in force are known until then, and all others know
// that this middleware reads.
func (f *Fleet) Lease() int64 {
	if o := f.own[reads]; o != nil && o.respected() {
		return min(f.lease, o.until)
	}
	return 0
}

// InForce returns the time until which a write that server missed may be answered, because all middlewares respect the
// mark of server; 0: not now.
func (f *Fleet) InForce(server string, now int64) int64 {
	if o := f.own[server]; o != nil && o.respected() && now < o.until {
		return o.until
	}
	return 0
}

// respected reports whether all middlewares respected the mark when it was found last.
func (o *ownMark) respected() bool {
	return o.since != 0 && o.found-o.since >= int64(inForce) || o.acknowledged != 0 && o.found >= o.acknowledged
}

// Pause returns how long to wait between two looks at a server's marks: not longer than until a mark of this middleware
// may be found again. A mark that was just stored, and its acknowledgements, are looked for soon, because only a look
// that begins after the last store counts.
func (f *Fleet) Pause(now int64) time.Duration {
	pause := LookEvery
	for server, o := range f.own {
		if o.respected() {
			continue
		}
		if o.since != 0 {
			pause = min(pause, max(time.Duration(o.since-now)+inForce, time.Millisecond))
		}
		last, patience := max(o.put, o.since, o.acknowledged), relied
		if server == reads && o.since != 0 {
			patience = 4 * soon // nobody acknowledges it, but nobody else may be registered
		}
		if now-last < int64(patience) && (o.since == 0 || now >= f.silent) {
			pause = min(pause, soon)
		}
		if o.acknowledged != 0 && now-o.acknowledged < int64(relied) {
			pause = min(pause, time.Millisecond)
		}
	}
	if f.few != 0 && !f.agrees && f.Settles(now) {
		pause = min(pause, soon)
	} else if f.few != 0 {
		pause = min(pause, LookEvery/2)
	}
	for k, heard := range f.heard {
		if k.ofServer() && now-heard < int64(relied) && !f.found.of(k.Server, k.Owner) {
			pause = min(pause, soon)
		}
	}
	return pause
}

// News reports, once, that a server's mark by another owner was found that was not known. The other servers should be
// asked for it as well.
func (f *Fleet) News() bool {
	defer func() { f.news = false }()
	return f.news
}

// RespectedByAll reports whether all middlewares respect a mark of server by another owner, or did so a moment ago,
// because each look has found it for long enough.
func (f *Fleet) RespectedByAll(server string, now int64) bool {
	since, seen := f.since[server]
	return seen && now < f.lease && f.begun-since >= int64(inForce)
}

// Decides reports whether server may decide what a write that depends on an item leaves: no middleware lets another
// server decide in its place, as all may while a mark of it is in force (InForce, RespectedByAll). since is when a mark
// of it can have been in force last.
func (f *Fleet) Decides(server string, now int64) (since int64, ok bool) {
	clear, looked := f.clear[server]
	return f.held[server], looked && now < f.Lease() && f.own[server] == nil && f.begun-clear >= int64(inForce)
}

// MarkedBy returns another owner that has marked server; "": none has.
func (f *Fleet) MarkedBy(server string) string {
	for _, k := range f.known {
		if k.Server == server {
			return k.Owner
		}
	}
	return ""
}
