package protocol

import "math"

// A server's clock counts seconds: an item that has n seconds left, or is stored for n seconds, lives for more than n-1
// seconds.

// life returns the minimum time, in ns, that an item with the given number of seconds left lives.
func life(seconds uint64) (ns int64) { return int64(max(1, seconds)-1) * 1e9 }

// forever is the life of an item without an expiry, in ns.
const forever = math.MaxInt64

// Life returns the minimum time, in ns, that the item lives according to it, the reply to me. 0: less than a second, or
// there is no item. memcached before 1.6.24 sends the same reply for an item without an expiry and for one that expires
// within a second.
func (it *Item) Life() (ns int64) {
	switch {
	case it.Kind != ReplyMetaDebug:
		return 0
	case it.TTL < 0:
		return forever
	}
	return life(uint64(it.TTL))
}

// LifeStored returns the minimum time, in ns, that an item stored with exptime lives. 0: less than a second, or exptime
// is a date.
func LifeStored(exptime int32) (ns int64) {
	switch {
	case exptime < 0 || exptime > LongestExpiry:
		return 0
	case exptime == 0:
		return forever
	}
	return life(uint64(exptime))
}
