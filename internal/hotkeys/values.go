package hotkeys

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxServed is the size of the largest reply that is kept, bytes.
	MaxServed = 16 << 10
	// MaxAge is the most that --hot-age can be.
	MaxAge = time.Second
	// AgeAlone is the age where nobody else writes the servers. Values are never old there: it bounds for how long one is served that its server has
	// lost, and for how long the server sees no use of it.
	AgeAlone = 10 * time.Second
)

const (
	// valueShards is how many parts Values have, each with a lock and a part of the memory.
	valueShards = 64
	// valueStripes is how many stripes keys have. The write of a key makes the values of the others in its stripe count no more.
	valueStripes = 1 << 16
	// seenCells is how many keys of gets without a value are remembered, the last of each cell.
	seenCells = 1 << 16
	// periods is how many of an age there are in which such gets are counted, and enough how many of a key in one make the reply to the last wanted:
	// the value of a key that is asked for less often is served less than it costs.
	periods, enough = 2, 3
	// worth is how often a value has to be served for the next one to be wanted at once.
	worth = 2
	// entrySize is about what a value takes besides its reply, bytes.
	entrySize = 160
	// often is how often a value has to be served to be fetched again before it is too old, so that others need not wait meanwhile.
	often = 32
)

// Values are the values of hot keys, with which readers answer instead of asking a server. Who writes a key says so before any server gets the
// write, and again when no server can get it any more:
//
//	writer   Begin --> servers --> Keep --> End
//	worker             Token --> the reply to a client's get --> Put
//	reader                                                       Append: the value, or whether the reply to the get is wanted
//
// A token is given while no write of the key's stripe is under way, and a value counts only while none has begun since its token. So at the moment of
// Append it is what the servers held last, if nobody writes them past these Values. It counts no longer than its age in any case.
//
// A reply is wanted if there were other gets of the key shortly before, so that keys that are asked for rarely cost next to nothing. What is kept is bounded: for a
// new value those give way that were not served since they came, or since the last that gave way (CLOCK).
//
// All methods may be called from any goroutine.
type Values struct {
	// Static after construction.
	seed  maphash.Seed
	room  int    // of a shard, bytes
	asked Sketch // the keys that Append has answered

	age     atomic.Int64 // ns
	shards  [valueShards]shard
	writes  [valueStripes]progress
	flushes progress
	seen    [seenCells]atomic.Uint32
	paused  atomic.Int64 // until when nothing is served, ns as stats.Now
	untold  atomic.Bool  // see FirstUntold
}

// progress counts writes. Those that have begun and not ended are under way.
type progress struct{ begun, ended atomic.Uint32 }

// idle returns how many writes have begun, and whether none is under way. One that begins meanwhile may not be noticed: it is not among those that have
// begun.
func (p *progress) idle() (begun uint32, ok bool) {
	begun = p.begun.Load() // first: later it could be more than have ended, though one of the earlier has not
	return begun, p.ended.Load() == begun
}

// begin counts a write that begins. number is how many have; alone: no other is under way.
func (p *progress) begin() (number uint32, alone bool) {
	ended := p.ended.Load() // first: those are all before this one
	number = p.begun.Add(1)
	return number, ended == number-1
}

// shard is a part of the values.
type shard struct {
	mu      sync.RWMutex // guards the fields below, and what they hold; nothing is waited for while it is held
	buckets []*entry     // by hash: the first of a list
	ring    []*entry     // all, in the order in which they give way
	hand    int          // who is next
	used    int          // bytes
}

// bucketSize is how much of a shard's memory there is a bucket for, bytes.
const bucketSize = 256

// bucket returns where the list with that hash begins.
func (s *shard) bucket(hash uint64) **entry { return &s.buckets[hash>>7%uint64(len(s.buckets))] }

// find returns the entry with that hash, nil if there is none.
func (s *shard) find(hash uint64) *entry {
	e := *s.bucket(hash)
	for e != nil && e.hash != hash {
		e = e.next
	}
	return e
}

// entry is the value of a key, or that there is none to be kept. The fields but the atomic ones are guarded by the shard's mu.
type entry struct {
	hash     uint64 // of the key
	next     *entry // of its bucket
	at       int    // in the ring
	token    Token
	until    int64        // until when it counts, ns as stats.Now
	again    atomic.Int64 // when it is to be fetched again if it is served often, ns; taken by one reader
	hits     atomic.Uint32
	reply    []byte // its beginning is beginning and the key; if nothing is kept, that is all
	withheld bool   // nothing is kept
}

// beginning is that of all replies with a value.
const beginning = "VALUE "

// is reports whether e is of key.
func (e *entry) is(key []byte) bool {
	text := e.reply[len(beginning):]
	return len(text) > len(key) && text[len(key)] == ' ' && bytes.Equal(text[:len(key)], key)
}

// Token is a moment at which no write of a key was under way.
type Token struct{ writes, flushes uint32 }

// NewValues returns Values that hold none yet, serve each for age at most, and take about memory bytes at most.
func NewValues(age time.Duration, memory int) *Values {
	seed := maphash.MakeSeed()
	v := &Values{seed: seed, room: memory / valueShards, asked: Sketch{seed: seed}}
	v.age.Store(int64(age))
	for i := range v.shards {
		v.shards[i].buckets = make([]*entry, max(1, v.room/bucketSize))
	}
	return v
}

// SetAge makes age the most that values are served for; the present ones are not any more.
func (v *Values) SetAge(age time.Duration) {
	if v.age.Swap(int64(age)) != int64(age) {
		v.Forget()
	}
}

// Forget makes all values count no more.
func (v *Values) Forget() {
	v.flushes.begun.Add(1)
	v.flushes.ended.Add(1)
}

// hash returns that of key, which is never 0.
func (v *Values) hash(key []byte) uint64 { return maphash.Bytes(v.seed, key) | 1 }

func (v *Values) shard(hash uint64) *shard { return &v.shards[hash>>1%valueShards] }

func (v *Values) stripe(hash uint64) *progress { return &v.writes[hash>>8%valueStripes] }

// now returns the token of a value that counts.
func (v *Values) now(hash uint64) Token {
	return Token{v.stripe(hash).begun.Load(), v.flushes.begun.Load()}
}

// Write is one that is under way.
type Write struct {
	hash  uint64
	token Token // of the value that is written
	alone bool  // no other write of the stripe was under way when it began, and no flush
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

// Keep keeps, in place of a value that was served, what w has stored on all servers of its key: reply is what a get of it is answered with, in pieces.
// asked and life are those of Put.
func (v *Values) Keep(w *Write, asked int64, life time.Duration, reply ...[]byte) {
	if w.alone && life > 0 {
		v.put(w.hash, w.token, asked, life, false, reply)
	}
}

// End says that no server gets the write any more, unless it is not read before it has lost the key.
func (v *Values) End(w *Write) { v.stripe(w.hash).ended.Add(1) }

// BeginFlush is Begin for all keys.
func (v *Values) BeginFlush() { v.flushes.begun.Add(1) }

// clockError is by how much a server's time of day is taken to differ from this machine's at most.
const clockError = time.Minute

// EndFlush is End for all keys, at now, ns, and the time of day clock, behind line, a flush_all. If that takes effect later nothing is served until then.
func (v *Values) EndFlush(line []byte, now int64, clock time.Time) {
	if _, delay, delayed := bytes.Cut(line, []byte(" ")); delayed {
		until := int64(math.MaxInt64)
		const longest = 30 * 24 * 60 * 60 // seconds; a larger number is a date
		if s, err := strconv.ParseInt(string(delay), 10, 32); err == nil && s <= longest {
			until = now + (s+2)*int64(time.Second) // the server's clock counts seconds
		} else if err == nil {
			until = now + int64(time.Unix(s, 0).Sub(clock)+clockError)
		}
		for old := v.paused.Load(); old < until && !v.paused.CompareAndSwap(old, until); old = v.paused.Load() {
		}
	}
	v.flushes.ended.Add(1)
}

// Append appends to dst the reply to a get of key at now, ns; ok is false if a server is to be asked. If what it answers is wanted, wanted is what Token
// and Put are to be told of it, otherwise 0. Without dst it says only whether there is a reply.
func (v *Values) Append(dst, key []byte, now int64) (reply []byte, wanted uint64, ok bool) {
	if now < v.paused.Load() {
		return dst, 0, false
	}
	hash := v.hash(key)
	s := v.shard(hash)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.find(hash)
	if e == nil || !e.is(key) {
		return dst, v.ifOften(hash, now), false
	}
	hits := e.hits.Load()
	switch {
	case now >= e.until || e.token != v.now(hash):
		if hits >= worth && !e.withheld {
			return dst, hash, false
		}
		return dst, v.ifOften(hash, now), false
	case e.withheld:
		return dst, 0, false
	case dst == nil:
		return nil, 0, true
	case hits < often:
		e.hits.Store(hits + 1)
	default:
		if again := e.again.Load(); now >= again && e.again.CompareAndSwap(again, math.MaxInt64) {
			return dst, hash, false
		}
	}
	return append(dst, e.reply...), 0, true
}

// ifOften counts a get of a key without a value at now, ns, and returns hash if there were enough of them.
func (v *Values) ifOften(hash uint64, now int64) uint64 {
	const counter, period = 1<<4 - 1, 1<<12 - 1 // the lowest bits of a cell; those above are the key's
	cell := &v.seen[hash>>48]
	mark := uint32(hash>>32)<<16 | uint32(now*periods/v.age.Load())&period<<4
	count := uint32(1)
	if old := cell.Load(); old&^counter == mark {
		count = min(old&counter+1, enough) // one that others count meanwhile may be lost
	}
	cell.Store(mark | count)
	if count < enough {
		return 0
	}
	return hash
}

// Sampler counts the keys that one goroutine has answered with what Append returned.
func (v *Values) Sampler() Sampler {
	s := v.asked.Sampler()
	s.random = rand.Uint64() | 1
	s.left = s.gap() // many ask for few keys before they end
	return s
}

// Token returns one for a value that is asked for after it; ok is false if a write is under way.
func (v *Values) Token(wanted uint64) (t Token, ok bool) {
	var idle, unflushed bool
	t.writes, idle = v.stripe(wanted).idle()
	t.flushes, unflushed = v.flushes.idle()
	return t, idle && unflushed
}

// FirstUntold reports whether it is called for the first time: by who finds that a server doesn't tell when items end.
func (v *Values) FirstUntold() bool { return !v.untold.Swap(true) }

// Put keeps reply, which a get of key was answered with. It was asked for at asked, ns as stats.Now, or later, and the item lives for life at least. Without
// a reply, or with one that is too large or about to end, the key is not wanted again for an age, or until it is written.
func (v *Values) Put(wanted uint64, t Token, key, reply []byte, asked int64, life time.Duration) {
	if life > 0 && len(reply) > 0 && len(reply) <= MaxServed {
		v.put(wanted, t, asked, life, true, [][]byte{reply})
		return
	}
	v.put(wanted, t, asked, 0, true, [][]byte{[]byte(beginning), key, []byte(" ")})
}

// put keeps reply, in pieces, or, if life is 0, that nothing is kept. fresh: also if there is no value that was served in whose place it comes.
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

// place returns the entry of hash, which is e unless that is nil, with room for a reply of size bytes; nil if the shard's room is too little.
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
		gone := s.next()
		s.remove(gone)
		if e == nil {
			e = gone
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

// next returns the entry that is to give way.
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

// remove takes e out.
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
