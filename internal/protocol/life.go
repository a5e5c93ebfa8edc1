package protocol

import (
	"bytes"
	"math"
)

// A server's clock counts seconds: an item that has n left, or is stored for n, lives for more than n-1.

// life returns for how long an item lives at least that has so many seconds left, ns.
func life(seconds uint64) (ns int64) { return int64(max(1, seconds)-1) * 1e9 }

// forever is the life of an item without an expiry, ns.
const forever = math.MaxInt64

// longestDelay is the greatest exptime that is a number of seconds, not a date.
const longestDelay = 30 * 24 * 60 * 60

// LifeTold returns for how long an item lives at least, ns, by the reply to me, or 0: not for long, or there is none. memcached before 1.6.24 tells the
// same of an item without an expiry and of one that ends in a second.
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

// LifeStored returns for how long an item lives at least, ns, that is stored with exptime, or 0: not for long, or until a date.
func LifeStored(exptime []byte) (ns int64) {
	seconds, _, ok := parseUint32(exptime)
	switch {
	case !ok || seconds > longestDelay:
		return 0
	case seconds == 0:
		return forever
	}
	return life(seconds)
}
