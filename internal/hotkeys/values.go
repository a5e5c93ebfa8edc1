package hotkeys

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// MaxServed is how many keys have their values kept, and MaxServedValue the size of the largest that is, bytes.
	MaxServed      = Counters
	MaxServedValue = 16 << 10
	// leastShare is the part of all keys asked for that a key must be to have its value kept.
	leastShare = 0.0005
	// MaxAge is the most that Values' age can be: a server's clock counts seconds, and an item that has two left lives for one at least.
	MaxAge = time.Second
)

// Values are the values of hot keys, with which readers answer instead of asking a server. Who writes a key says so before any server gets the
// write, and again when no server can get it any more:
//
//	writer   Begin --> servers --> End
//	filler             Token --> a server's reply --> Put
//	reader                                              Get --> the value, or nothing
//
// A token is given while no write of the key's stripe is under way, and a value counts only while none has begun since its token. So at the moment of
// Get it is what the servers held last, if nobody writes them past these Values. It counts no longer than its age in any case.
//
// All methods may be called from any goroutine.
type Values struct {
	// Static after construction.
	seed  maphash.Seed
	age   int64         // ns
	wake  chan struct{} // Get -> the filler: there are Wanted entries; capacity 1, never closed
	asked Sketch        // the keys that Get has answered

	table   atomic.Pointer[map[string]*Entry] // by key; replaced as a whole
	writes  [valueStripes]progress
	flushes progress
	paused  atomic.Int64 // until when nothing is served, ns as stats.Now
}

// need says whether the value of an Entry is to be fetched.
type need = uint32

const (
	unneeded need = iota // --> needed: Get
	needed               // --> fetching: Wanted
	fetching             // --> unneeded: Done
)

// valueStripes is how many stripes keys have. The write of a key makes the values of the others in its stripe count no more.
const valueStripes = 1 << 12

// progress counts writes. Those that have begun and not ended are under way.
type progress struct{ begun, ended atomic.Uint64 }

// Entry is a key whose value is kept.
type Entry struct {
	// Key is as a server knows it. Static.
	Key string
	// Fits: the item was small enough when it was looked at last. It belongs to whoever fetches the value, from Wanted to Done.
	Fits bool

	stripe *progress // static
	value  atomic.Pointer[value]
	need   atomic.Uint32
}

type value struct {
	token        Token
	again, until int64  // when it is to be fetched again, and until when it counts; ns as stats.Now
	reply        []byte // nil: none is to be kept
}

// Token is a moment at which no write of a key was under way.
type Token struct{ writes, flushes uint64 }

// NewValues returns Values that hold none yet and serve each for age at most.
func NewValues(age time.Duration) *Values {
	seed := maphash.MakeSeed()
	return &Values{seed: seed, age: int64(min(age, MaxAge)), wake: make(chan struct{}, 1), asked: Sketch{seed: seed}}
}

func (v *Values) stripe(key []byte) uint32 { return uint32(maphash.Bytes(v.seed, key) % valueStripes) }

// Begin says that key is about to be written. The stripe that it returns is for End.
func (v *Values) Begin(key []byte) (stripe uint32) {
	stripe = v.stripe(key)
	v.writes[stripe].begun.Add(1)
	return stripe
}

// End says that no server gets the write any more, unless it is not read before it has lost the key.
func (v *Values) End(stripe uint32) { v.writes[stripe].ended.Add(1) }

// BeginFlush is Begin for all keys.
func (v *Values) BeginFlush() { v.flushes.begun.Add(1) }

// EndFlush is End for all keys, at now, ns, behind line, a flush_all. If that takes effect later nothing is served until then; if at a date, nothing
// any more.
func (v *Values) EndFlush(line []byte, now int64) {
	if _, delay, delayed := bytes.Cut(line, []byte(" ")); delayed {
		until := int64(math.MaxInt64)
		const longest = 30 * 24 * 60 * 60 // seconds; a larger number is a date
		if s, err := strconv.ParseUint(string(delay), 10, 32); err == nil && s <= longest {
			until = now + int64(s+2)*int64(time.Second) // the server's clock counts seconds
		}
		for old := v.paused.Load(); old < until && !v.paused.CompareAndSwap(old, until); old = v.paused.Load() {
		}
	}
	v.flushes.ended.Add(1)
}

// Get returns the reply to a get of key at now, ns; nil if a server is to be asked. It must not be changed.
func (v *Values) Get(key []byte, now int64) []byte {
	table := v.table.Load()
	if table == nil {
		return nil
	}
	e := (*table)[string(key)]
	if e == nil {
		return nil
	}
	x := e.value.Load()
	if x == nil || now >= x.until || x.token.writes != e.stripe.begun.Load() || x.token.flushes != v.flushes.begun.Load() {
		v.want(e)
		return nil
	}
	if now >= x.again {
		v.want(e)
	}
	if now < v.paused.Load() {
		return nil
	}
	return x.reply
}

// want makes e one of Wanted.
func (v *Values) want(e *Entry) {
	if e.need.Load() != unneeded || !e.need.CompareAndSwap(unneeded, needed) {
		return
	}
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// Sampler counts the keys that one goroutine has answered with what Get returned.
func (v *Values) Sampler() Sampler {
	s := v.asked.Sampler()
	s.random = rand.Uint64() | 1
	s.left = s.gap() // many ask for few keys before they end
	return s
}

// Wake returns the channel that has an element when values are wanted.
func (v *Values) Wake() <-chan struct{} { return v.wake }

// Wanted appends to dst the entries whose values Get has missed, or are about to become too old. Each is the caller's until Done.
func (v *Values) Wanted(dst []*Entry) []*Entry {
	if table := v.table.Load(); table != nil {
		for _, e := range *table {
			if e.need.CompareAndSwap(needed, fetching) {
				dst = append(dst, e)
			}
		}
	}
	return dst
}

// Done ends what Wanted has begun.
func (e *Entry) Done() { e.need.Store(unneeded) }

// Token returns one for a value of e that is asked for after it; ok is false if a write is under way.
func (v *Values) Token(e *Entry) (t Token, ok bool) {
	// begun before ended: a write that begins in between makes the token one that never counts.
	t = Token{e.stripe.begun.Load(), v.flushes.begun.Load()}
	return t, e.stripe.ended.Load() == t.writes && v.flushes.ended.Load() == t.flushes
}

// Put keeps reply, which was asked for at asked, ns as stats.Now, as the value of e. With nil e has no value that may be
// kept, and is not wanted again until the age is nearly over.
func (v *Values) Put(e *Entry, t Token, reply []byte, asked int64) {
	e.value.Store(&value{token: t, again: asked + v.age*7/8, until: asked + v.age, reply: reply})
}

// Serve makes keys those whose values are kept.
func (v *Values) Serve(keys []string) {
	was := v.table.Load()
	table := make(map[string]*Entry, len(keys))
	for _, key := range keys {
		if was != nil && (*was)[key] != nil {
			table[key] = (*was)[key]
			continue
		}
		table[key] = &Entry{Key: key, stripe: &v.writes[v.stripe([]byte(key))]}
	}
	v.table.Store(&table)
}

// Hottest returns the keys whose values are worth keeping at now, ns. Keys that no get can name are left out.
func (k *Keys) Hottest(now int64) (keys []string) {
	r := k.Report(MaxServed, true, now, nil, func([]byte) []string { return nil })
	for _, key := range r.Keys {
		if key.Share >= leastShare && bytes.IndexFunc([]byte(key.Name), func(r rune) bool { return r <= ' ' || r == 0x7f }) < 0 {
			keys = append(keys, key.Name)
		}
	}
	return keys
}
