package stats

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"mcmw/internal/protocol"
)

const (
	// Soon is the age up to which an item that is missed counts as evicted soon.
	Soon = 10 * time.Minute
	// TrackEvery is of how many keys one is tracked.
	TrackEvery = 64
	// trackedSlots is the number of tracked items that are remembered.
	trackedSlots = 1 << 16
)

// tracked remembers when the items of some keys were stored. It finds items that are gone although they have neither
// expired nor been deleted here.
type tracked struct {
	seed maphash.Seed // static

	mu    sync.Mutex    // guards slots
	slots []trackedItem // by hash; a new item replaces another one. nil: no key was tracked yet
}

// trackedItem is an item whose key has the hash tag. It expires at expires, s as Now.
type trackedItem struct {
	tag, expires uint32
	stored       int64 // ns, as Now; 0: there is no item
}

// Tracks reports whether key is tracked.
func (t *tracked) Tracks(key []byte) bool {
	_, _, tracked := t.find(key)
	return tracked
}

// find returns the number of key's slot, and key's tag, if key is tracked.
func (t *tracked) find(key []byte) (slot int, tag uint32, tracked bool) {
	hash := maphash.Bytes(t.seed, key)
	return int(hash / TrackEvery % trackedSlots), uint32(hash >> 32), hash%TrackEvery == 0
}

// change lets change see and change the slot of key, which has tag, unless key is not tracked.
func (t *tracked) change(key []byte, change func(item *trackedItem, tag uint32)) {
	slot, tag, tracked := t.find(key)
	if !tracked {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slots == nil {
		t.slots = make([]trackedItem, trackedSlots)
	}
	change(&t.slots[slot], tag)
}

// Stored notes that an item was stored under key with an exptime, at now, as Now.
func (t *tracked) Stored(key []byte, exptime int32, now int64) {
	t.change(key, func(item *trackedItem, tag uint32) { *item = trackedItem{tag, expiryAt(exptime, now), now} })
}

// Touched notes that key's item has got an exptime at now, as Now.
func (t *tracked) Touched(key []byte, exptime int32, now int64) {
	t.change(key, func(item *trackedItem, tag uint32) {
		if item.tag == tag {
			item.expires = expiryAt(exptime, now)
		}
	})
}

// Deleted notes that key's item was deleted, or may have been.
func (t *tracked) Deleted(key []byte) {
	t.change(key, func(item *trackedItem, tag uint32) {
		if item.tag == tag {
			*item = trackedItem{}
		}
	})
}

// Flushed notes that all items were deleted.
func (t *tracked) Flushed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.slots)
}

// missed notes that a read of key, which began at since and has ended at now, as Now, did not find an item. It reports
// whether the item was evicted soon: it was stored before the read began, less than Soon ago, and has not expired.
func (t *tracked) missed(key []byte, since, now int64) (soon bool) {
	t.change(key, func(item *trackedItem, tag uint32) {
		if item.tag == tag && item.stored > 0 && item.stored < since {
			soon = now-item.stored < int64(Soon) && seconds(now)+1 < item.expires
			*item = trackedItem{}
		}
	})
	return soon
}

// seconds returns ns in s.
func seconds(ns int64) uint32 { return uint32(ns / int64(time.Second)) }

// expiryAt returns when an item expires that gets an exptime at now, as Now; s.
func expiryAt(exptime int32, now int64) uint32 {
	switch {
	case exptime == 0:
		return math.MaxUint32
	case exptime < 0:
		return 0
	case exptime > protocol.LongestExpiry:
		return uint32(max(0, int64(seconds(now))+int64(exptime)-Wall(now).Unix()))
	}
	return seconds(now) + uint32(exptime)
}
