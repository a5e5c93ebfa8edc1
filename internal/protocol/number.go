package protocol

import (
	"bytes"
	"math"
)

// The functions below accept what memcached's safe_strtol and safe_strtoul family accept, which is what C's strtol does
// with a token: leading white space, a sign, digits, and whatever follows a white space character.

// isSpace is C's isspace in the "C" locale.
func isSpace(b byte) bool { return b == ' ' || (b >= '\t' && b <= '\r') }

// scanNumber splits a token into sign and magnitude. ok is false when there are no digits, when something other than white
// space follows them, or when the magnitude exceeds 64 bits.
func scanNumber(tok []byte) (magnitude uint64, negative, ok bool) {
	i := 0
	for i < len(tok) && isSpace(tok[i]) {
		i++
	}
	if i < len(tok) && (tok[i] == '-' || tok[i] == '+') {
		negative = tok[i] == '-'
		i++
	}
	first := i
	for ; i < len(tok) && tok[i] >= '0' && tok[i] <= '9'; i++ {
		d := uint64(tok[i] - '0')
		if magnitude > (math.MaxUint64-d)/10 {
			return 0, false, false
		}
		magnitude = magnitude*10 + d
	}
	if i == first || (i < len(tok) && !isSpace(tok[i])) {
		return 0, false, false
	}
	return magnitude, negative, true
}

// parseInt32 is safe_strtol: a 64-bit number, of which the low 32 bits count.
func parseInt32(tok []byte) (int32, bool) {
	m, negative, ok := scanNumber(tok)
	switch {
	case !ok:
		return 0, false
	case negative && m <= 1<<63:
		return int32(-m), true
	case !negative && m < 1<<63:
		return int32(m), true
	}
	return 0, false
}

// parseUint64 is safe_strtoull and, as only success matters to a caller, safe_strtoul.
func parseUint64(tok []byte) (uint64, bool) {
	m, negative, ok := scanNumber(tok)
	if !ok {
		return 0, false
	}
	if negative {
		m = -m
	}
	if int64(m) < 0 && bytes.IndexByte(tok, '-') >= 0 {
		return 0, false
	}
	return m, true
}
