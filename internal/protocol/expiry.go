package protocol

import (
	"bytes"
	"strconv"
)

// AppendCapped appends the command line with its exptime reduced, so that no item which it stores or touches lives for more than ttl seconds, from
// 1 to LongestExpiry. Shorter exptimes stay, as do those in the past. now is the time in seconds since 1970, for exptimes that are dates. The line
// must be valid, with its words separated by one blank; it may include its end.
func AppendCapped(dst, line []byte, ttl, now int64) []byte {
	text, end := line, []byte(nil)
	if bytes.HasSuffix(line, []byte(CRLF)) {
		text, end = line[:len(line)-len(CRLF)], []byte(CRLF)
	}
	verb, _ := cutWord(text)
	at := 0 // the index of the exptime among the words; 0: there is none
	switch string(verb) {
	case "set", "add", "replace", "append", "prepend", "cas":
		at = 3
	case "touch":
		at = 2
	case "gat", "gats":
		at = 1
	case "mg", "ms", "ma", "md":
		return append(appendCappedFlags(dst, text, verb[1] == 's', ttl, now), end...)
	default:
		return append(dst, line...)
	}
	rest := text
	for range at {
		_, rest = cutWord(rest)
	}
	exptime, after := cutWord(rest)
	dst = append(append(dst, text[:len(text)-len(rest)]...), ' ')
	dst = appendCappedTime(dst, exptime, ttl, now)
	return append(append(dst, after...), end...)
}

// appendCappedFlags is AppendCapped for a meta command without its end. stores: without the flag T its item would never expire.
func appendCappedFlags(dst, text []byte, stores bool, ttl, now int64) []byte {
	flags := flagsOf(text)
	dst = append(dst, text[:len(text)-len(flags)]...)
	given := false
	for len(flags) > 0 {
		var word []byte
		if word, flags = cutWord(flags); len(word) == 0 {
			break
		}
		dst = append(dst, ' ')
		if word[0] != 'T' && word[0] != 'N' {
			dst = append(dst, word...)
			continue
		}
		given = given || word[0] == 'T'
		dst = appendCappedTime(append(dst, word[0]), word[1:], ttl, now)
	}
	if stores && !given {
		dst = strconv.AppendInt(append(dst, " T"...), ttl, 10)
	}
	return dst
}

// appendCappedTime appends an exptime at which the item expires when it does with exptime, or after ttl seconds if that is earlier.
func appendCappedTime(dst, exptime []byte, ttl, now int64) []byte {
	v, _ := strconv.ParseInt(string(exptime), 10, 64) // it was checked before
	if v > LongestExpiry {
		if v -= now; v == 0 {
			v = -1 // 0 would mean no expiry
		}
	}
	switch {
	case v < 0:
		v = -1
	case v == 0, v > ttl:
		v = ttl
	}
	return strconv.AppendInt(dst, v, 10)
}
