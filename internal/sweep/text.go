package sweep

import (
	"encoding/base64"
	"hash/maphash"
	"io"
	"strconv"
	"strings"

	"mcmw/internal/backend"
)

// AppendLook appends the request for what a server holds under key, without touching the LRU; values: value and client flags,
// too.
func AppendLook(dst []byte, key string, values bool) []byte {
	dst = appendKey(append(dst, "mg "...), key)
	if values {
		dst = append(dst, " v f"...)
	}
	return append(dst, " u c\r\n"...)
}

// AppendCut appends the request that deletes what has cas under key.
func AppendCut(dst []byte, key string, cas uint64) []byte {
	dst = appendKey(append(dst, "md "...), key)
	dst = append(dst, " C"...)
	return append(strconv.AppendUint(dst, cas, 10), "\r\n"...)
}

// appendGiveBack appends the request that gives back the right to renew an item that is marked stale, which a look has won; the
// item keeps its cas.
func appendGiveBack(dst []byte, key string, cas uint64) []byte {
	dst = appendKey(append(dst, "md "...), key)
	dst = append(dst, " I C"...)
	dst = append(strconv.AppendUint(dst, cas, 10), " E"...)
	return append(strconv.AppendUint(dst, cas, 10), "\r\n"...)
}

// appendKey appends the form of key in a meta command, with the flag that it needs.
func appendKey(dst []byte, key string) []byte {
	if !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return append(dst, key...)
	}
	return append(base64.StdEncoding.AppendEncode(dst, []byte(key)), " b"...)
}

// found is a reply to a look, but for the value.
type found struct {
	Copy
	size  int64 // of the value that follows; -1: none
	flags string
	won   bool // the look has won the right to renew the item
}

// readLook reads the line of a reply to a look.
func readLook(line string) (f found, err error) {
	f.size = -1
	words := strings.Fields(line)
	switch {
	case line == "EN":
		return f, nil
	case len(words) > 1 && words[0] == "VA":
		if f.size, err = strconv.ParseInt(words[1], 10, 63); err != nil || f.size < 0 {
			return f, backend.Unexpected(line)
		}
		words = words[2:]
	case len(words) > 0 && words[0] == "HD":
		words = words[1:]
	default:
		return f, backend.Unexpected(line)
	}
	for _, word := range words {
		switch word[0] {
		case 'c':
			if f.CAS, err = strconv.ParseUint(word[1:], 10, 64); err != nil {
				return f, backend.Unexpected(line)
			}
			f.Held = true
		case 'f':
			f.flags = word
		case 'W':
			f.won = true
		}
	}
	if !f.Held {
		return f, backend.Unexpected(line)
	}
	return f, nil
}

// sum returns the hash of what was found; value writes the value to where it is told.
func (f *found) sum(seed maphash.Seed, value func(w io.Writer) error) (uint64, error) {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(f.flags)
	_ = h.WriteByte(' ')
	err := value(&h)
	return h.Sum64(), err
}
