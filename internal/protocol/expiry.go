package protocol

import (
	"bytes"
	"strconv"
)

// longestRelative is the largest exptime that memcached takes for seconds from now, and not for a date.
const longestRelative = 30 * 24 * 3600

// AppendCapped appends the command line, which may have its end, so that no item which it stores or touches lives for more than ttl seconds, from 1
// to longestRelative. Shorter exptimes stay, and what is over already. now is the time of day in seconds since 1970, for exptimes that are dates. The
// line is one that was understood: words separated by one blank.
func AppendCapped(dst, line []byte, ttl, now int64) []byte {
	text, end := line, []byte(nil)
	if bytes.HasSuffix(line, []byte(CRLF)) {
		text, end = line[:len(line)-len(CRLF)], []byte(CRLF)
	}
	verb, _ := cutWord(text)
	at := 0 // the word that is the exptime; 0: none is
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
	exptime, behind := cutWord(rest)
	dst = append(append(dst, text[:len(text)-len(rest)]...), ' ')
	dst = appendCappedTime(dst, exptime, ttl, now)
	return append(append(dst, behind...), end...)
}

// appendCappedFlags is AppendCapped of a meta command without its end; stores: without the flag T its item would live for ever.
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

// appendCappedTime appends an exptime that ends at the same time, or after ttl seconds if that is earlier.
func appendCappedTime(dst, exptime []byte, ttl, now int64) []byte {
	v, _ := strconv.ParseInt(string(exptime), 10, 64) // it was checked
	if v > longestRelative {
		if v -= now; v == 0 {
			v = -1 // 0 would be for ever
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
