package marker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// LookEvery is the time between two looks at a server's marks.
	LookEvery = 80 * time.Millisecond
	// relied is how long a look is relied on, from its beginning: three looks may fail one after the other.
	relied = 250 * time.Millisecond
	// inForce is how long marks have to be in force before a write is answered that their servers missed: twice as long, and a tenth more,
	// because clocks don't run alike.
	inForce = 2*relied + relied/5
	// beatEvery is the time between two beats of an owner. One that hasn't had any for goneAfter is gone; one that was stopped for as long
	// finds its marks removed, and relies on them no more than on an old look.
	beatEvery = time.Second
	goneAfter = 5 * time.Second
	// lostAfter is how long nobody in the fleet can be expected to find marks again that most servers have lost.
	lostAfter = 2 * time.Second
	// maxBuried bounds the marks of others that are remembered as removed.
	maxBuried = 64
)

// Mark says that a server missed writes of a middleware, its owner, and must not be read.
type Mark struct {
	Server string `json:"server"`
	Owner  string `json:"owner"`
	// Beat changes as long as the owner lives.
	Beat uint64 `json:"beat"`
}

// Marks are what a server holds under MarksKey. One that holds none, not even an empty list, has lost what it held.
type Marks []Mark

// Encode returns the marks as they are stored.
func (m Marks) Encode() string {
	b, _ := json.Marshal(append(Marks{}, m...)) // never fails
	return string(b)
}

// DecodeMarks returns the marks that are stored as b.
func DecodeMarks(b []byte) (m Marks, err error) {
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("the marks of servers that missed writes: %w", err)
	}
	return m, nil
}

// of reports whether owner has marked server.
func (m Marks) of(server, owner string) bool {
	return slices.ContainsFunc(m, func(k Mark) bool { return k.Server == server && k.Owner == owner })
}

// merge returns each mark of m and more once, with its latest beat, in the order in which servers hold marks.
func (m Marks) merge(more Marks) Marks {
	all := append(slices.Clone(m), more...)
	slices.SortFunc(all, func(a, b Mark) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Owner, b.Owner), cmp.Compare(b.Beat, a.Beat))
	})
	return slices.CompactFunc(all, func(a, b Mark) bool { return a.Server == b.Server && a.Owner == b.Owner })
}

// holds reports whether m has k, with this beat or a later one.
func (m Marks) holds(k Mark) bool {
	return slices.ContainsFunc(m, func(h Mark) bool { return h.Server == k.Server && h.Owner == k.Owner && h.Beat >= k.Beat })
}

// Fleet is one middleware's part in the marks that all middlewares in front of the same servers heed while they run. Its rules are those that
// the model in fleet_test.go checks. Times are ns of one monotonic clock. It has no lock.
type Fleet struct {
	owner   string
	servers []string
	sights  map[string]sight    // by server
	own     map[string]*ownMark // by the server that is marked
	beat    uint64
	beaten  int64 // when the last beat began

	// The last look at as many witnesses as find every mark in force.
	begun, lease int64
	known        Marks // others', in that look
	// since says by server from when on each look has found a mark of another on a majority.
	since  map[string]int64
	heard  map[Mark]int64
	buried Marks // to be removed
	// bare: nobody can say any more, or yet, what the servers have lost, so that they become witnesses without it.
	bare bool
	// lost: since when most servers have answered, but too few are witnesses; 0: that is not so.
	lost int64
}

// sight is what a server held when it answered last.
type sight struct {
	begun   int64 // when it was asked
	witness bool
	marks   Marks
}

// ownMark is a mark of one's own.
type ownMark struct {
	put          int64 // when it was made, or the last witness took it that had lacked it
	since, until int64 // it is in force; 0: it is not
	bury         Marks // of the server; to be removed when that is clean
}

// NewFleet returns a fleet's member that has seen nothing yet.
func NewFleet(owner string) *Fleet {
	return &Fleet{owner: owner, sights: map[string]sight{}, own: map[string]*ownMark{}, heard: map[Mark]int64{}}
}

// Place sets the servers.
func (f *Fleet) Place(servers []string) {
	f.servers = servers
	for name := range f.sights {
		if !slices.Contains(servers, name) {
			delete(f.sights, name)
		}
	}
}

// majority is on how many servers a mark is in force, and how many witnesses find every such mark.
func (f *Fleet) majority() int { return len(f.servers)/2 + 1 }

// Mark marks server.
func (f *Fleet) Mark(server string, now int64) {
	if f.own[server] == nil {
		f.own[server] = &ownMark{put: now}
	}
}

// Unmark records that server, which may be marked, is clean. The marks of it that Bury was given are removed as well.
func (f *Fleet) Unmark(server string) {
	if o := f.own[server]; o != nil {
		f.buried = append(f.buried, o.bury...)
		f.buried = f.buried[max(0, len(f.buried)-maxBuried):]
		delete(f.own, server)
	}
}

// Gone returns a mark of an owner that is gone, if there is one that is not about to be buried. Marks of servers that are not in the list, which
// one that was in another's brings along, are for those that read them.
func (f *Fleet) Gone(now int64) (Mark, bool) {
	for _, k := range f.known {
		if !slices.Contains(f.servers, k.Server) {
			continue
		}
		since, heard := f.heard[k]
		if o := f.own[k.Server]; heard && now-since > int64(goneAfter) && (o == nil || !o.bury.holds(k)) {
			return k, true
		}
	}
	return Mark{}, false
}

// Bury has k, the mark of an owner that is gone, removed once its server is clean. This middleware must have marked that server itself.
func (f *Fleet) Bury(k Mark) {
	if o := f.own[k.Server]; o != nil {
		o.bury = append(o.bury, k)
	}
}

// Beat reports whether this middleware's own marks must be put again, to show that their owner is alive.
func (f *Fleet) Beat(now int64) bool {
	if len(f.own) == 0 || now-f.beaten < int64(beatEvery) {
		return false
	}
	f.beaten = now
	f.beat++
	return true
}

// mine returns the marks of one's own.
func (f *Fleet) mine() (m Marks) {
	for server := range f.own {
		m = append(m, Mark{server, f.owner, f.beat})
	}
	return m
}

// others returns the marks of m that are neither one's own nor buried.
func (f *Fleet) others(m Marks) (others Marks) {
	for _, k := range m {
		if k.Owner != f.owner && !f.buried.holds(k) {
			others = append(others, k)
		}
	}
	return others
}

// Witness says that server, asked at begun, held marks. If they are to be others, want are those, and changed is true; Put has to be told
// when the server has taken them.
func (f *Fleet) Witness(server string, marks Marks, begun, now int64) (want Marks, changed bool) {
	f.see(server, sight{begun: begun, witness: true, marks: marks}, now)
	want = f.Want(marks)
	return want, !slices.Equal(want, marks)
}

// Want returns what a server that holds marks is to hold instead.
func (f *Fleet) Want(marks Marks) Marks { return f.others(marks).merge(f.mine()) }

// Empty records that server, asked at begun, held no marks. If it may become a witness (joins), want is to be put on it, unless somebody
// has put marks there meanwhile.
func (f *Fleet) Empty(server string, begun, now int64) (want Marks, joins bool) {
	f.see(server, sight{begun: begun}, now)
	if now >= f.lease && !f.bare {
		return nil, false
	}
	want = f.others(f.known).merge(f.mine())
	for _, s := range f.sights {
		want = want.merge(f.others(s.marks))
	}
	return want, true
}

// Put says that a witness that held marks has taken want by now. A mark of one's own that it had lacked, because it has just been made or because
// the witness became one without it, is in force only if a look finds it that begins now.
func (f *Fleet) Put(marks, want Marks, now int64) {
	for _, k := range want {
		if o := f.own[k.Server]; o != nil && k.Owner == f.owner && !marks.of(k.Server, k.Owner) {
			o.put, o.since, o.until = now, 0, 0
		}
	}
}

// Bare lets servers that hold no marks become witnesses with this middleware's own marks alone: either no middleware was here before, or
// the marks are lost and every server has been marked anew.
func (f *Fleet) Bare() { f.bare = true }

// Lost reports whether, for a while, most servers have answered, but too few of them are witnesses, so that no server is read, and that
// is not about to change.
func (f *Fleet) Lost(now int64) bool {
	return f.lost != 0 && now-f.lost > int64(lostAfter) && !f.bare
}

// see notes what server held, and draws conclusions.
func (f *Fleet) see(server string, what sight, now int64) {
	if !slices.Contains(f.servers, server) {
		return // it was removed
	}
	f.sights[server] = what
	recent := now - int64(relied)
	answered := 0
	for _, s := range f.sights {
		if s.begun > recent {
			answered++
		}
	}
	witnesses, begun := f.witnesses(recent)
	switch {
	case witnesses >= f.majority():
		f.lost, f.bare = 0, false
	case now < f.lease || answered < f.majority():
		f.lost = 0
	case f.lost == 0:
		f.lost = now
	}
	if witnesses >= f.majority() && begun >= f.begun {
		if now >= f.lease {
			f.since = nil // the mark may have been removed, and put again
		}
		f.begun, f.lease = begun, begun+int64(relied)
		f.know(recent, now)
	}
	for server, o := range f.own {
		f.judge(server, o, recent, now)
	}
}

// witnesses returns how many servers were seen to be witnesses behind after, and when the look at a majority of them began: the latest that
// there is.
func (f *Fleet) witnesses(after int64) (n int, begun int64) {
	var times []int64
	for _, s := range f.sights {
		if s.witness && s.begun > after {
			times = append(times, s.begun)
		}
	}
	if len(times) < f.majority() {
		return len(times), 0
	}
	slices.Sort(times)
	return len(times), times[len(times)-f.majority()]
}

// know notes what others have marked, by what was seen behind recent.
func (f *Fleet) know(recent, now int64) {
	f.known = nil
	for _, s := range f.sights {
		if s.witness && s.begun > recent {
			f.known = f.known.merge(f.others(s.marks))
		}
	}
	before := f.heard
	f.heard = make(map[Mark]int64, len(f.known))
	for _, k := range f.known {
		f.heard[k] = now
		if since, heard := before[k]; heard {
			f.heard[k] = since
		}
	}
	f.watch(recent, now)
}

// watch notes which servers others have marked on a majority, by what was seen behind recent.
func (f *Fleet) watch(recent, now int64) {
	before := f.since
	f.since = map[string]int64{}
	for _, k := range f.known {
		on := 0
		for _, s := range f.sights {
			if s.witness && s.begun > recent && s.marks.of(k.Server, k.Owner) {
				on++
			}
		}
		if on < f.majority() {
			continue
		}
		f.since[k.Server] = now
		if since, seen := before[k.Server]; seen {
			f.since[k.Server] = since
		}
	}
}

// judge says whether o, the mark of server, is in force, by a look that began behind its last put.
func (f *Fleet) judge(server string, o *ownMark, recent, now int64) {
	after := max(recent, o.put)
	if witnesses, _ := f.witnesses(after); witnesses < f.majority() {
		return
	}
	var times []int64
	for _, s := range f.sights {
		if s.witness && s.begun > after && s.marks.of(server, f.owner) {
			times = append(times, s.begun)
		}
	}
	if len(times) < f.majority() {
		o.since, o.until = 0, 0
		return
	}
	slices.Sort(times)
	if o.since == 0 {
		o.since = now
	}
	o.until = times[len(times)-f.majority()] + int64(relied)
}

// Doubt records that the servers may have lost this middleware's own marks, which are in force only once they are found again.
func (f *Fleet) Doubt() {
	for _, o := range f.own {
		o.until = 0
	}
}

// Lease returns until when servers may be read at all.
func (f *Fleet) Lease() int64 { return f.lease }

// InForce returns until when a write that server missed may be answered; 0: not now.
func (f *Fleet) InForce(server string, now int64) int64 {
	if o := f.own[server]; o != nil && o.since != 0 && now-o.since >= int64(inForce) && now < o.until {
		return o.until
	}
	return 0
}

// Heeded reports whether all middlewares heed a mark of server, or did so until a moment ago, because another's was found for long enough.
func (f *Fleet) Heeded(server string, now int64) bool {
	since, seen := f.since[server]
	return seen && now < f.lease && now-since >= int64(inForce)
}

// Attainable reports whether there are enough witnesses for a mark to come into force.
func (f *Fleet) Attainable(now int64) bool {
	n, _ := f.witnesses(now - int64(relied))
	return n >= f.majority()
}

// MarkedBy returns an owner that has marked server, other than this middleware; "" if there is none.
func (f *Fleet) MarkedBy(server string) string {
	for _, k := range f.known {
		if k.Server == server {
			return k.Owner
		}
	}
	return ""
}
