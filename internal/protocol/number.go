package protocol

import (
	"math"
	"strconv"
)

// A number consists of digits only, and is no longer than the strictest memcached accepts: 1.6.40 and later refuse
// words that strtol accepts (signs, white space, overflow), and then run the value that follows as commands. Leading
// zeros are removed. The exptime of a classic storage command is the one number that all of them still read with
// strtol.

const (
	// longest32 and longest64 are memcached's MCMC_TOKTO32_MAX and MCMC_TOKTO64_MAX: the longest words that it reads as
	// 32-bit and 64-bit numbers.
	longest32 = 11
	longest64 = 22
)

// parseUint32 parses a 32-bit number, and also returns its digits.
func parseUint32(word []byte) (v uint64, digits []byte, ok bool) {
	return parseNumber(word, longest32, math.MaxUint32)
}

// parseUint64 parses a 64-bit number, and also returns its digits.
func parseUint64(word []byte) (v uint64, digits []byte, ok bool) {
	return parseNumber(word, longest64, math.MaxUint64)
}

// parseExptime parses a 31-bit number, or a minus sign and a number without leading zeros, and also returns its digits
// with the sign.
func parseExptime(word []byte) (v int32, digits []byte, ok bool) {
	if len(word) > 1 && word[0] == '-' && word[1] != '0' {
		n, _, ok := parseNumber(word[1:], longest32-1, -math.MinInt32)
		return int32(-n), word, ok
	}
	n, digits, ok := parseNumber(word, longest32, math.MaxInt32)
	return int32(n), digits, ok
}

// parseStoredExptime parses the exptime of a classic storage command that parseExptime does not accept, as every
// memcached reads it: a 64-bit number with or without a sign, of which the lower 32 bits count, as a signed number. So
// 4294967295 is -1, an item that has expired. The digits are those of the 32-bit number.
func parseStoredExptime(word []byte) (v int32, digits []byte, ok bool) {
	number, most := word, uint64(math.MaxInt64)
	negative := len(word) > 0 && word[0] == '-'
	if negative {
		most++
	}
	if negative || len(word) > 0 && word[0] == '+' {
		number = word[1:]
	}
	n, _, ok := parseNumber(number, len(number), most)
	if !ok {
		return 0, nil, false
	}
	if negative {
		n = -n
	}
	return int32(n), strconv.AppendInt(nil, int64(int32(n)), 10), true
}

func parseNumber(word []byte, longest int, most uint64) (v uint64, digits []byte, ok bool) {
	if len(word) == 0 || len(word) > longest {
		return 0, nil, false
	}
	for _, c := range word {
		d := uint64(c - '0')
		if d > 9 || v > (most-d)/10 {
			return 0, nil, false
		}
		v = v*10 + d
	}
	for len(word) > 1 && word[0] == '0' {
		word = word[1:]
	}
	return v, word, true
}
