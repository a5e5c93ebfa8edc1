package follow

import (
	"container/list"
	"sync"
	"time"
)

// Debt is a key that a server of a following pool is owed: it was written in the pool that is followed.
type Debt struct {
	Key string
	// Copy: what the pool holds under the key is copied. Otherwise the key is deleted.
	Copy bool

	number uint64 // of its latest write
}

// Outcome says what has become of a delivery.
type Outcome uint8

// The outcomes.
const (
	Paid    Outcome = iota // the server has carried it out
	Changed                // so it has, but meanwhile the pool holds something else
	Refused                // the server does not take the copy, or the pool can't be read
	Lost                   // there was no answer: it may still be carried out for Lateness
)

// Lateness is how long a request that was sent on a connection which broke may still be carried out, once its server
// answers on another one. The connection was reset, so only a server that had received the request can do so.
const Lateness = 5 * time.Second

// overhead is roughly the memory of a debt beside its key, bytes.
const overhead = 240

// debt is a Debt with what only the ledger must know.
type debt struct {
	Debt
	first         uint64    // number of the earliest write that is owed
	since, latest time.Time // of the earliest and of the latest write
	// late: a copy was lost, and no delete has been answered since. due: no delivery before; zero: at once.
	late bool
	due  time.Time
}

// Ledger is what a server of a following pool is owed. Of the writes of a key only the latest counts, because what is
// delivered is what the pool holds then. Any goroutine may call the methods, except Take and Settle, which belong to
// the deliverer.
type Ledger struct {
	// wake: whoever adds a debt -> the deliverer. Capacity 1; never closed.
	wake chan struct{}

	mu     sync.Mutex
	limit  int                      // bytes
	size   int                      // bytes
	debts  map[string]*list.Element // of *debt
	order  list.List                // of *debt, by first
	writes uint64                   // so far
	flush  flush
	doubt  doubt
	counts Counts
}

// flush is a flush of the whole server that is owed. number 0: none is.
type flush struct {
	number uint64
	due    time.Time
}

// doubt says that the server may lack writes that are not in the ledger. since zero: it does not.
type doubt struct {
	since time.Time
	// number tells it from earlier doubts. listed is the number of writes when all keys of the server had been added
	// to the ledger; 0: that is not so.
	number, listed uint64
}

// Counts count what became of debts.
type Counts struct {
	Delivered uint64 // debts that were paid
	Deletes   uint64 // copies that failed, and became deletes
	Dropped   uint64 // debts for which there was no memory
}

// NewLedger returns an empty ledger that uses at most limit bytes.
func NewLedger(limit int) *Ledger {
	return &Ledger{wake: make(chan struct{}, 1), limit: limit, debts: map[string]*list.Element{}}
}

// Limit changes the limit.
func (l *Ledger) Limit(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
}

// Owe adds a write of key, now. If there is no memory, all debts become a doubt.
func (l *Ledger) Owe(key []byte, copied bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owe(string(key), copied, now)
}

func (l *Ledger) owe(key string, copied bool, now time.Time) *debt {
	l.writes++
	if e := l.debts[key]; e != nil {
		d := e.Value.(*debt)
		d.number, d.latest, d.Copy = l.writes, now, d.Copy && copied
		return d
	}
	if l.size+len(key)+overhead > l.limit {
		l.drop(now)
	}
	d := &debt{Debt: Debt{key, copied, l.writes}, first: l.writes, since: now, latest: now}
	l.debts[key] = l.order.PushBack(d)
	l.size += len(key) + overhead
	l.awake()
	return d
}

// drop forgets all debts, and doubts the server instead.
func (l *Ledger) drop(now time.Time) {
	l.counts.Dropped += uint64(len(l.debts))
	l.doubtSince(l.oldest(now), now)
	clear(l.debts)
	l.order.Init()
	l.size = 0
}

// oldest returns when the oldest write was that is owed; now: none is.
func (l *Ledger) oldest(now time.Time) time.Time {
	if e := l.order.Front(); e != nil {
		return e.Value.(*debt).since
	}
	return now
}

// Flush owes a flush of the whole server at due, in place of the one that is owed. If that one was due, and this one is
// not yet, the server is in doubt.
func (l *Ledger) Flush(due, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flush.number > 0 && !l.flush.due.After(now) && due.After(now) {
		l.doubtSince(l.flush.due, now)
	}
	l.writes++
	l.flush = flush{l.writes, due}
	l.awake()
}

// Doubt says that the server may lack any write since a time.
func (l *Ledger) Doubt(since, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubtSince(since, now)
}

func (l *Ledger) doubtSince(since, now time.Time) {
	if !l.doubt.since.IsZero() && l.doubt.since.Before(since) {
		since = l.doubt.since
	}
	if since.After(now) {
		since = now
	}
	l.writes++
	l.doubt = doubt{since: since, number: l.writes}
	l.awake()
}

// Doubted returns the number of the doubt whose keys have not been added yet; 0: there is none.
func (l *Ledger) Doubted() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubt.listed > 0 {
		return 0
	}
	return l.doubt.number
}

// Listed says that all keys of the server have been added since Doubted returned number: once they are delivered,
// there is no doubt any more.
func (l *Ledger) Listed(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubt.number == number {
		l.doubt.listed = l.writes
		l.settleDoubt()
	}
}

// settleDoubt ends the doubt if everything that was added for it is delivered.
func (l *Ledger) settleDoubt() {
	e := l.order.Front()
	if l.doubt.listed > 0 && (e == nil || e.Value.(*debt).first > l.doubt.listed) {
		l.doubt = doubt{}
	}
}

// Full reports whether half of the memory is used.
func (l *Ledger) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size > l.limit/2
}

// Flushes is a flush to deliver; the zero value is none.
type Flushes struct{ number, doubt uint64 }

// Any reports whether there is one.
func (f Flushes) Any() bool { return f != Flushes{} }

// Take returns what to deliver now: a flush, or up to n debts, the oldest first. If there is nothing, wait is the time
// until there may be; 0: until the ledger is woken. flushes: a doubt is answered with a flush.
func (l *Ledger) Take(n int, flushes bool, now time.Time) (debts []Debt, f Flushes, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	await := func(due time.Time) bool {
		rest := due.Sub(now)
		if rest > 0 && (wait == 0 || rest < wait) {
			wait = rest
		}
		return rest > 0
	}
	if l.flush.number > 0 && !await(l.flush.due) {
		f.number = l.flush.number
	}
	if flushes {
		f.doubt = l.doubt.number
	}
	if f.Any() {
		return nil, f, 0
	}
	for e := l.order.Front(); e != nil && len(debts) < n; e = e.Next() {
		if d := e.Value.(*debt); !await(d.due) {
			debts = append(debts, d.Debt)
		}
	}
	return debts, f, wait
}

// all returns all debts.
func (l *Ledger) all() (debts []Debt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.order.Front(); e != nil; e = e.Next() {
		debts = append(debts, e.Value.(*debt).Debt)
	}
	return debts
}

// Hand adds to another ledger what is owed of the keys that its server holds: debts, a flush, and the doubt.
func (l *Ledger) Hand(to *Ledger, now time.Time, holds func(key []byte) bool) {
	for _, d := range l.all() {
		if holds([]byte(d.Key)) {
			to.Owe([]byte(d.Key), d.Copy, now)
		}
	}
	l.mu.Lock()
	flush, doubt := l.flush, l.doubt.since
	l.mu.Unlock()
	if flush.number > 0 {
		to.Flush(flush.due, now)
	}
	if !doubt.IsZero() {
		to.Doubt(doubt, now)
	}
}

// Release makes what is owed of keys that the server does not hold any more deletes, also if a copy is under way: a
// copy would be read once the server holds the key again, although later writes were owed to its other holders.
func (l *Ledger) Release(now time.Time, holds func(key []byte) bool) {
	for _, d := range l.all() {
		if !holds([]byte(d.Key)) {
			l.Owe([]byte(d.Key), false, now)
		}
	}
}

// Flushed says that the server was flushed.
func (l *Ledger) Flushed(f Flushes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flush.number == f.number {
		l.flush = flush{}
	}
	if l.doubt.number == f.doubt {
		l.doubt = doubt{}
	}
}

// Settle says what has become of the delivery of d. A debt that was written meanwhile stays.
func (l *Ledger) Settle(d Debt, o Outcome, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.debts[d.Key]
	if o == Lost {
		if d.Copy {
			l.counts.Deletes++
			l.owe(d.Key, false, now).late = true // also if the debt was dropped
		}
		return
	}
	if e == nil {
		return
	}
	switch owed := e.Value.(*debt); {
	case o == Changed:
	case o == Refused:
		l.counts.Deletes++
		owed.Copy = false
	case owed.late:
		owed.late, owed.due = false, now.Add(Lateness)
	case d.number < owed.number:
		owed.first, owed.since, owed.due = l.writes, owed.latest, time.Time{}
		l.order.MoveToBack(e)
	default:
		l.counts.Delivered++
		delete(l.debts, d.Key)
		l.order.Remove(e)
		l.size -= len(d.Key) + overhead
	}
	l.settleDoubt()
}

func (l *Ledger) awake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// State is the state of a ledger.
type State struct {
	Counts
	Debts int
	// Oldest is when the oldest write was that is owed, Doubt since when writes may be missing that are not owed. Zero:
	// there is none.
	Oldest, Doubt time.Time
}

// Clear reports whether everything is delivered.
func (s *State) Clear() bool { return s.Oldest.IsZero() && s.Doubt.IsZero() }

// Since returns from when on writes may not have been delivered; now: all have.
func (s *State) Since(now time.Time) time.Time {
	for _, at := range []time.Time{s.Oldest, s.Doubt} {
		if !at.IsZero() && at.Before(now) {
			now = at
		}
	}
	return now
}

// State returns the ledger's state.
func (l *Ledger) State(now time.Time) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Counts: l.counts, Debts: len(l.debts), Doubt: l.doubt.since}
	if l.order.Len() > 0 {
		s.Oldest = l.oldest(now)
	}
	if l.flush.number > 0 && s.Oldest.IsZero() {
		s.Debts, s.Oldest = s.Debts+1, now
	}
	return s
}

// add returns the state of both together.
func (s State) add(t State) State {
	s.Delivered, s.Deletes, s.Dropped = s.Delivered+t.Delivered, s.Deletes+t.Deletes, s.Dropped+t.Dropped
	s.Debts += t.Debts
	earlier := func(a, b time.Time) time.Time {
		if a.IsZero() || !b.IsZero() && b.Before(a) {
			return b
		}
		return a
	}
	s.Oldest, s.Doubt = earlier(s.Oldest, t.Oldest), earlier(s.Doubt, t.Doubt)
	return s
}
