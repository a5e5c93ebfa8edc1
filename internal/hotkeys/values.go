package hotkeys

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxServed is the size of the largest reply that is kept, bytes.
	MaxServed = 16 << 10
	// MaxAge is the maximum of --hot-age.
	MaxAge = time.Second
	// AgeAlone is the age if no other mcmw instance writes the servers. Values are never outdated then. The age bounds
	// how long a value that its server has lost is served, and how long the server sees no use of it.
	AgeAlone = 10 * time.Second
)

const (
	// valueShards is the number of parts of Values, each with a lock and a part of the memory.
	valueShards = 64
	// valueStripes is the number of stripes of keys. A write of a key invalidates the values of all keys in its stripe.
	valueStripes = 1 << 16
	// seenCells is how many keys of gets without a value are remembered: the last key of each cell.
	seenCells = 1 << 16
	// periods is the number of periods per age in which such gets are counted. enoughGets is the number of gets of a
	// key in one period that makes the reply to the last one wanted: keeping the value of a key that is asked for less
	// often costs more than it saves.
	periods, enoughGets = 2, 3
	// worthHits is how often a value has to be served before the next one is wanted at once.
	worthHits = 2
	// entrySize is about the memory of a value in addition to its reply, bytes.
	entrySize = 160
	// refreshHits is how often a value has to be served before it is fetched again while it still counts, so that other
	// gets need not wait.
	refreshHits = 32
)

// Values are the values of hot keys with which readers answer instead of asking a server. A writer of a key announces
// the write before any server gets it, and ends it when no server can get it any more:
//
//	writer   Begin --> servers --> Keep --> End
//	worker             Token --> the reply to a client's get --> Put
//	reader                                                       Append: the value, or whether the reply to the get is wanted
//
// A token is given only while no write of the key's stripe is in progress, and a value counts only while no write has
// begun since its token. So at the time of Append it is what the servers held last, if all writes of the servers are
// announced here. It never counts for longer than its age.
//
// A reply is wanted if there were other gets of the key shortly before, so that keys that are rarely asked for cost
// almost nothing. Memory is bounded: a new value evicts values that were not served since they were stored, or since
// the last eviction passed them (CLOCK).
//
// All methods may be called from any goroutine.
type Values struct {
	// Static after construction.
	seed  maphash.Seed
	room  int    // memory of a shard, bytes
	asked Sketch // the keys that Append has answered

	age     atomic.Int64 // ns
	shards  [valueShards]shard
	writes  [valueStripes]progress
	flushes progress
	seen    [seenCells]atomic.Uint32
	paused  atomic.Int64 // nothing is served before this time, ns as stats.Now
	untold  atomic.Bool  // see FirstUntold
}

// progress counts writes. Those that have begun and not ended are in progress.
type progress struct{ begun, ended atomic.Uint32 }

// idle returns how many writes have begun. ok: none of them is in progress. A write that begins during the call may or
// may not be among them.
func (p *progress) idle() (begun uint32, ok bool) {
	begun = p.begun.Load() // first: if a later write has ended instead of an earlier one, the token is already outdated
	return begun, p.ended.Load() == begun
}

// begin counts a write that begins. number is how many have begun. alone: no other is in progress.
func (p *progress) begin() (number uint32, alone bool) {
	ended := p.ended.Load() // first: these ended before this write began
	number = p.begun.Add(1)
	return number, ended == number-1
}

// shard is a part of the values.
type shard struct {
	// mu guards the fields below, and the entries in them. Nothing blocks while it is held.
	mu      sync.RWMutex
	buckets []*entry // by hash: the first entry of a list
	ring    []*entry // all entries, in the order in which they are considered for eviction
	hand    int      // the next one
	used    int      // memory in use, bytes
}

// bucketSize is the memory of a shard per bucket, bytes.
const bucketSize = 256

// bucket returns the beginning of the list for that hash.
func (s *shard) bucket(hash uint64) **entry { return &s.buckets[hash>>7%uint64(len(s.buckets))] }

// find returns the entry with that hash, nil if there is none.
func (s *shard) find(hash uint64) *entry {
	e := *s.bucket(hash)
	for e != nil && e.hash != hash {
		e = e.next
	}
	return e
}

// entry is the value of a key, or says that no value of it is kept. The fields are guarded by the shard's mu, except
// the atomic ones.
type entry struct {
	hash     uint64 // of the key
	next     *entry // next entry of its bucket
	at       int    // index in the ring
	token    Token
	until    int64         // when it ceases to count, ns as stats.Now
	again    atomic.Int64  // when it is fetched again if it is served often, ns; one reader takes it
	hits     atomic.Uint32 // how often it was served since it was stored or considered for eviction, up to refreshHits
	reply    []byte        // begins with replyPrefix and the key; if withheld, that is all
	withheld bool          // no value is kept
}

// replyPrefix begins all replies with a value.
const replyPrefix = "VALUE "

// isOf reports whether e is the entry of key.
func (e *entry) isOf(key []byte) bool {
	text := e.reply[len(replyPrefix):]
	return len(text) > len(key) && text[len(key)] == ' ' && bytes.Equal(text[:len(key)], key)
}

// Token is a moment at which no write of a key was in progress.
type Token struct{ writes, flushes uint32 }

// NewValues returns Values without a value. Each value is served for age at most, and all of them take about memory
// bytes at most.
func NewValues(age time.Duration, memory int) *Values {
	seed := maphash.MakeSeed()
	v := &Values{seed: seed, room: memory / valueShards, asked: Sketch{seed: seed, halfLife: HalfLife}}
	v.age.Store(int64(age))
	for i := range v.shards {
		v.shards[i].buckets = make([]*entry, max(1, v.room/bucketSize))
	}
	return v
}

// SetAge sets the maximum age of values. If it changes, the present values do not count any more.
func (v *Values) SetAge(age time.Duration) {
	if v.age.Swap(int64(age)) != int64(age) {
		v.Forget()
	}
}

// Forget invalidates all values.
func (v *Values) Forget() {
	v.flushes.begun.Add(1)
	v.flushes.ended.Add(1)
}

// Form says what the reply to a get shows. The values of a key have one entry for each form; a write invalidates both.
type Form bool

// The forms.
const (
	Plain   Form = false // a get's
	WithCAS Form = true  // a gets's: the cas, too
)

// of returns the hash of the entry in this form. hash is that of the key, or of its entry in another form. Both entries
// are in one stripe and in one shard.
func (f Form) of(hash uint64) uint64 {
	const upper = 1<<63 - 1<<31 // without the bits for stripe and shard
	if f == WithCAS {
		return hash ^ upper
	}
	return hash
}

// hash returns the hash of key, which is never 0.
func (v *Values) hash(key []byte) uint64 { return maphash.Bytes(v.seed, key) | 1 }

func (v *Values) shard(hash uint64) *shard { return &v.shards[hash>>1%valueShards] }

func (v *Values) stripe(hash uint64) *progress { return &v.writes[hash>>8%valueStripes] }

// now returns the token that a value must have to count.
func (v *Values) now(hash uint64) Token {
	return Token{v.stripe(hash).begun.Load(), v.flushes.begun.Load()}
}

// Write is a write in progress.
type Write struct {
	hash  uint64
	token Token // token of the value that is written
	alone bool  // no other write of the stripe was in progress when it began, and no flush
}

// Begin says that key is about to be written.
func (v *Values) Begin(key []byte) Write {
	w := Write{hash: v.hash(key)}
	var unflushed bool
	w.token.flushes, unflushed = v.flushes.idle()
	w.token.writes, w.alone = v.stripe(w.hash).begin()
	w.alone = w.alone && unflushed
	return w
}

// Keep keeps the value that w has stored on all servers of its key, if a value of the key was served before in this
// form. reply is the reply to a get of the key, in pieces. asked and life are as in Put.
func (v *Values) Keep(w *Write, form Form, asked int64, life time.Duration, reply ...[]byte) {
	if w.alone && life > 0 {
		v.put(form.of(w.hash), w.token, asked, life, false, reply)
	}
}

// End says that no server gets the write any more. A server that might still get it must not be read before it has lost
// the key.
func (v *Values) End(w *Write) { v.stripe(w.hash).ended.Add(1) }

// BeginFlush is Begin for all keys.
func (v *Values) BeginFlush() { v.flushes.begun.Add(1) }

// clockError is the assumed maximum difference between a server's time of day and this machine's.
const clockError = time.Minute

// EndFlush is End for all keys, after a flush_all that takes effect at exptime, at now, ns, and the time of day clock.
// Until then nothing is served.
func (v *Values) EndFlush(exptime int32, now int64, clock time.Time) {
	if exptime != 0 {
		const longest = 30 * 24 * 60 * 60                    // seconds; a larger number is a date
		until := now + (int64(exptime)+2)*int64(time.Second) // the server's clock counts seconds
		if exptime > longest {
			until = now + int64(time.Unix(int64(exptime), 0).Sub(clock)+clockError)
		}
		for old := v.paused.Load(); old < until && !v.paused.CompareAndSwap(old, until); old = v.paused.Load() {
		}
	}
	v.flushes.ended.Add(1)
}

// Append appends to dst the reply to a get of key in the given form at now, ns. ok is false if a server has to be
// asked; if that server's reply is wanted, wanted is the argument for Token and Put, otherwise 0. If dst is nil, it
// only says whether there is a reply.
func (v *Values) Append(dst, key []byte, form Form, now int64) (reply []byte, wanted uint64, ok bool) {
	if now < v.paused.Load() {
		return dst, 0, false
	}
	hash := form.of(v.hash(key))
	s := v.shard(hash)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.find(hash)
	if e == nil || !e.isOf(key) {
		return dst, v.ifOften(hash, now), false
	}
	hits := e.hits.Load()
	switch {
	case now >= e.until || e.token != v.now(hash):
		if hits >= worthHits && !e.withheld {
			return dst, hash, false
		}
		return dst, v.ifOften(hash, now), false
	case e.withheld:
		return dst, 0, false
	case dst == nil:
		return nil, 0, true
	case hits < refreshHits:
		e.hits.Store(hits + 1)
	default:
		if again := e.again.Load(); now >= again && e.again.CompareAndSwap(again, math.MaxInt64) {
			return dst, hash, false
		}
	}
	return append(dst, e.reply...), 0, true
}

// ifOften counts a get of a key without a value at now, ns. It returns hash if there were enough of them, otherwise 0.
func (v *Values) ifOften(hash uint64, now int64) uint64 {
	const counter, period = 1<<4 - 1, 1<<12 - 1 // the lowest bits of a cell; the bits above are the key's
	cell := &v.seen[hash>>48]
	mark := uint32(hash>>32)<<16 | uint32(now*periods/v.age.Load())&period<<4
	count := uint32(1)
	if old := cell.Load(); old&^counter == mark {
		count = min(old&counter+1, enoughGets) // a get that another goroutine counts at the same time may be lost
	}
	cell.Store(mark | count)
	if count < enoughGets {
		return 0
	}
	return hash
}

// Sampler returns a sampler of the keys that one goroutine has answered with values of Append.
func (v *Values) Sampler() Sampler {
	s := v.asked.Sampler()
	s.random = rand.Uint64() | 1
	s.left = s.gap() // a random start: many goroutines ask for few keys before they end
	return s
}

// Token returns a token for a value that is asked for after the call. ok is false if a write is in progress.
func (v *Values) Token(wanted uint64) (t Token, ok bool) {
	var idle, unflushed bool
	t.writes, idle = v.stripe(wanted).idle()
	t.flushes, unflushed = v.flushes.idle()
	return t, idle && unflushed
}

// FirstUntold reports whether it is called for the first time. It is called when a server does not tell when items
// expire.
func (v *Values) FirstUntold() bool { return !v.untold.Swap(true) }

// Put keeps reply, a reply to a get of key. It was asked for at asked, ns as stats.Now, or later, and the item lives
// for life at least. Without a reply, or with one that is too large or about to expire, the key is not wanted again for
// an age, or until it is written.
func (v *Values) Put(wanted uint64, t Token, key, reply []byte, asked int64, life time.Duration) {
	if life > 0 && len(reply) > 0 && len(reply) <= MaxServed {
		v.put(wanted, t, asked, life, true, [][]byte{reply})
		return
	}
	v.put(wanted, t, asked, 0, true, [][]byte{[]byte(replyPrefix), key, []byte(" ")})
}

// put keeps reply, in pieces; if life is 0, it notes that no value is kept. Unless fresh, it does so only if a value of
// the key was served before.
func (v *Values) put(hash uint64, t Token, asked int64, life time.Duration, fresh bool, reply [][]byte) {
	size := 0
	for _, piece := range reply {
		size += len(piece)
	}
	s := v.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(hash)
	if t != v.now(hash) || size > MaxServed || !fresh && (e == nil || e.hits.Load() == 0) {
		return
	}
	if e = s.place(e, hash, size, v.room); e == nil {
		return
	}
	e.reply = e.reply[:0]
	for _, piece := range reply {
		e.reply = append(e.reply, piece...)
	}
	age := v.age.Load()
	e.token, e.withheld = t, life == 0
	e.until = asked + age
	if !e.withheld {
		e.until = asked + min(age, int64(life))
	}
	e.again.Store(e.until - age/8)
	e.hits.Store(0)
}

// place returns the entry for hash with room for a reply of size bytes; e is its present entry or nil. It returns nil
// if the shard is too small.
func (s *shard) place(e *entry, hash uint64, size, room int) *entry {
	if e != nil {
		if n := cap(e.reply); n >= size && n <= 4*size+entrySize {
			return e
		}
		s.remove(e)
	}
	if entrySize+size > room {
		return nil
	}
	for s.used+entrySize+size > room {
		evicted := s.next()
		s.remove(evicted)
		if e == nil {
			e = evicted
		}
	}
	if e == nil {
		e = new(entry)
	}
	if n := cap(e.reply); n < size || n > 4*size+entrySize || s.used+entrySize+n > room {
		e.reply = make([]byte, 0, size)
	}
	e.hash, e.at = hash, len(s.ring)
	s.ring = append(s.ring, e)
	b := s.bucket(hash)
	e.next, *b = *b, e
	s.used += entrySize + cap(e.reply)
	return e
}

// next returns the entry to evict.
func (s *shard) next() *entry {
	for {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		e := s.ring[s.hand]
		if e.hits.Load() == 0 {
			return e
		}
		e.hits.Store(0)
		s.hand++
	}
}

// remove removes e.
func (s *shard) remove(e *entry) {
	n := len(s.ring) - 1
	s.ring[n].at = e.at
	s.ring[e.at] = s.ring[n]
	s.ring[n] = nil
	s.ring = s.ring[:n]
	b := s.bucket(e.hash)
	for *b != e {
		b = &(*b).next
	}
	*b = e.next
	s.used -= entrySize + cap(e.reply)
}
