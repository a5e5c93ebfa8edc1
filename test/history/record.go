package history

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// record is the state of one key. One connection alone writes the key, one write after another, numbered from 1; anyone
// may read it. So every read is judged exactly, and without a lock.
type record struct {
	key string
	// counts makes the writes increments. The key is never read: after a failure the number of increments is uncertain.
	counts bool
	fleet  bool          // see keyspace
	age    time.Duration // see keyspace

	recent acks          // used with a fleet
	issued atomic.Uint64 // number of the last write sent
	acked  atomic.Uint64 // number of the last write that succeeded
	seen   atomic.Uint64 // greatest number that a read has returned
}

// deletes reports whether write seq deletes the key. The other writes set it.
func deletes(seq uint64) bool { return seq%8 == 7 }

// largeKeys is the prefix of keys of which one value in six is large: 5,000 bytes plus up to largest.
const (
	largeKeys = "large-"
	largest   = 150_000
)

// appendValue appends the value that write seq stores under key: key and number, repeated up to a size that depends on
// the number. Most values are short; some take several reads and writes.
func appendValue(b []byte, key string, seq uint64) []byte {
	start := len(b)
	b = append(append(b, key...), '|')
	b = append(strconv.AppendUint(b, seq, 10), '|')
	head := len(b) - start
	size := head + int(seq*37%300)
	if seq%6 == 0 && strings.HasPrefix(key, largeKeys) {
		size = 5_000 + int(seq*7919%largest)
	}
	if seq%50 == 0 {
		size = 20_000
	}
	for len(b)-start < size {
		b = append(b, b[start:start+min(head, size-(len(b)-start))]...)
	}
	return b
}

// numberOf returns the number of the write of key that stored value. It compares all of value; false means that no
// write did.
func numberOf(key string, value, scratch []byte) (seq uint64, ok bool) {
	rest, found := bytes.CutPrefix(value, []byte(key+"|"))
	if !found {
		return 0, false
	}
	digits, _, found := bytes.Cut(rest, []byte("|"))
	if !found {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || !bytes.Equal(appendValue(scratch[:0], key, seq), value) {
		return 0, false
	}
	return seq, true
}

// verdict is the judgement of a value that a read returned.
type verdict uint8

const (
	right verdict = iota
	wrong         // no write stored it under this key
	stale         // older than the last write acknowledged, or the last value read, before this read was sent
)

// floor returns the smallest write number that a read may return if it is sent now through address number addr.
func (r *record) floor(now time.Time, addr int) uint64 {
	if r.fleet {
		return r.recent.floor(now, addr, r.age)
	}
	return max(r.acked.Load(), r.seen.Load())
}

// acknowledge notes that write seq succeeded now through address number addr.
func (r *record) acknowledge(seq uint64, now time.Time, addr int) {
	if r.fleet {
		r.recent.add(ack{seq, now, addr})
	}
	r.acked.Store(seq)
}

// acks are acknowledgements of numbered writes.
type acks struct {
	mu   sync.Mutex
	list []ack // guarded by mu
}

// ack is the acknowledgement of a write: when it arrived, and through which address.
type ack struct {
	number uint64
	at     time.Time
	addr   int
}

// add notes a.
func (l *acks) add(a ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, a)
}

// floor returns the greatest number that was acknowledged through address number addr, or through any address at least
// age ago. It forgets all older acknowledgements but the greatest. A middleware that answers from memory knows all
// writes made through it; of other writes it knows those that are at least age old.
func (l *acks) floor(now time.Time, addr int, age time.Duration) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var settled ack
	l.list = slices.DeleteFunc(l.list, func(a ack) bool {
		old := now.Sub(a.at) >= age
		if old && a.number >= settled.number {
			settled = a
		}
		return old
	})
	most := settled.number
	for _, a := range l.list {
		if a.addr == addr {
			most = max(most, a.number)
		}
	}
	l.list = append(l.list, settled)
	return most
}

// judge judges the value that a read of the key returned; floor was the floor when the read was sent.
func (r *record) judge(value []byte, floor uint64, scratch []byte) verdict {
	seq, ok := numberOf(r.key, value, scratch)
	switch {
	case !ok || seq == 0 || seq > r.issued.Load() || deletes(seq):
		return wrong
	case seq < floor:
		return stale
	}
	for {
		old := r.seen.Load()
		if seq <= old || r.seen.CompareAndSwap(old, seq) {
			return right
		}
	}
}
