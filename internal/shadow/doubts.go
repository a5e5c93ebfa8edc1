package shadow

import (
	"sync/atomic"
	"time"
)

const (
	// doubtSlots bounds the memory of the keys in doubt, 512 KiB.
	doubtSlots = 1 << 16
	// A slot has a tag, which is the upper bits of the key's hash, and the time since when the key is in doubt, in
	// units of timeUnit. 0: no key is in doubt.
	timeBits = 40
	timeUnit = int64(time.Millisecond)
	// manyKeys is the tag of a slot with several keys.
	manyKeys = 1<<(64-timeBits) - 1
)

// doubts are the keys for which the shadow may hold another value than the pool, because of their writes. Any goroutine
// may use them.
type doubts struct {
	slots [doubtSlots]atomic.Uint64
	// flush is when the last flush_all that was not copied was answered, ns as stats.Now: every key is in doubt until a
	// later flush_all is copied. 0: there is none.
	flush atomic.Int64
}

// slotTag returns the tag of the key with that hash.
func slotTag(key uint64) uint64 { return min(key>>timeBits, manyKeys-1) }

// since returns the time now, ns as stats.Now, as a slot has it.
func since(now int64) uint64 { return uint64(now/timeUnit+1) & (1<<timeBits - 1) }

// add says that the key with that hash is in doubt from now on.
func (d *doubts) add(key uint64, now int64) {
	slot := &d.slots[key%doubtSlots]
	for {
		old, tag := slot.Load(), slotTag(key)
		if old != 0 && old>>timeBits != tag {
			tag = manyKeys
		}
		if slot.CompareAndSwap(old, tag<<timeBits|max(since(now), old&(1<<timeBits-1))) {
			return
		}
	}
}

// clear ends the doubt about a key after a write that the shadow got, if the doubt is older than began, when the write
// began.
func (d *doubts) clear(key uint64, began int64) {
	slot := &d.slots[key%doubtSlots]
	if old := slot.Load(); old != 0 && old>>timeBits == slotTag(key) && old&(1<<timeBits-1) < since(began) {
		slot.CompareAndSwap(old, 0)
	}
}

// flushed says that a flush_all that began at that time was copied.
func (d *doubts) flushed(began int64) {
	if old := d.flush.Load(); old < began {
		d.flush.CompareAndSwap(old, 0)
	}
}

// has reports whether the key with that hash is in doubt.
func (d *doubts) has(key uint64) bool {
	old := d.slots[key%doubtSlots].Load()
	return d.flush.Load() != 0 || old != 0 && (old>>timeBits == slotTag(key) || old>>timeBits == manyKeys)
}
