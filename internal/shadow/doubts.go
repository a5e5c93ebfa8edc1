package shadow

import (
	"sync/atomic"
	"time"
)

const (
	// doubtSlots bounds the memory of the keys in doubt, 512 KiB.
	doubtSlots = 1 << 16
	// A slot is a tag, the upper bits of the key's hash, and the time since when, in units of timeUnit; 0: no key of it is in doubt.
	timeBits = 40
	timeUnit = int64(time.Millisecond)
	// many is the tag of a slot with several keys.
	many = 1<<(64-timeBits) - 1
)

// doubts are the keys of which the shadow may hold something else than the pool, because of what became of their writes. Any goroutine may use it.
type doubts struct {
	slots [doubtSlots]atomic.Uint64
	// flush is when a flush_all was not copied last, ns as stats.Now: every key is in doubt until a later one is. 0: none is missing.
	flush atomic.Int64
}

func slotTag(key uint64) uint64 { return min(key>>timeBits, many-1) }

// since returns now, ns as stats.Now, as a slot has it.
func since(now int64) uint64 { return uint64(now/timeUnit+1) & (1<<timeBits - 1) }

// add says that the key of that hash is in doubt from now on.
func (d *doubts) add(key uint64, now int64) {
	slot := &d.slots[key%doubtSlots]
	for {
		was, tag := slot.Load(), slotTag(key)
		if was != 0 && was>>timeBits != tag {
			tag = many
		}
		if slot.CompareAndSwap(was, tag<<timeBits|max(since(now), was&(1<<timeBits-1))) {
			return
		}
	}
}

// clear says that a write of the key that began at a time, and that the shadow got, leaves no doubt.
func (d *doubts) clear(key uint64, began int64) {
	slot := &d.slots[key%doubtSlots]
	if was := slot.Load(); was != 0 && was>>timeBits == slotTag(key) && was&(1<<timeBits-1) < since(began) {
		slot.CompareAndSwap(was, 0)
	}
}

// flushed says that a flush_all that began at a time was copied.
func (d *doubts) flushed(began int64) {
	if was := d.flush.Load(); was < began {
		d.flush.CompareAndSwap(was, 0)
	}
}

// has reports whether the key is in doubt.
func (d *doubts) has(key uint64) bool {
	was := d.slots[key%doubtSlots].Load()
	return d.flush.Load() != 0 || was != 0 && (was>>timeBits == slotTag(key) || was>>timeBits == many)
}
