package protocol

import (
	"bytes"
	"math"
)

// A server's clock counts seconds: an item that has n seconds left, or is stored for n seconds, lives for more than n-1 seconds.

// life returns the minimum time, in ns, that an item with the given number of seconds left lives.
func life(seconds uint64) (ns int64) { return int64(max(1, seconds)-1) * 1e9 }

// forever is the life of an item without an expiry, in ns.
const forever = math.MaxInt64

// LifeTold returns the minimum time, in ns, that an item lives according to reply, the reply to me. 0: less than a second, or there is no item.
// memcached before 1.6.24 sends the same reply for an item without an expiry and for one that expires within a second.
func LifeTold(reply []byte) (ns int64) {
	_, fields := cutWord(bytes.TrimSuffix(reply, []byte(CRLF)))
	_, fields = cutWord(fields) // the key
	for len(fields) > 0 {
		var field []byte
		field, fields = cutWord(fields)
		exp, ok := bytes.CutPrefix(field, []byte("exp="))
		if !ok {
			continue
		}
		if string(exp) == "-1" {
			return forever
		}
		if seconds, _, ok := parseUint32(exp); ok {
			return life(seconds)
		}
	}
	return 0
}

// LifeStored returns the minimum time, in ns, that an item stored with exptime lives. 0: less than a second, or exptime is a date.
func LifeStored(exptime int32) (ns int64) {
	switch {
	case exptime < 0 || exptime > LongestExpiry:
		return 0
	case exptime == 0:
		return forever
	}
	return life(uint64(exptime))
}
