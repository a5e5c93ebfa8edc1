package protocol

import (
	"bytes"
	"slices"
	"strconv"
)

// A value that is larger than a server's items is stored in pieces, and others are put in the place of what a client brought or a server holds; see package
// large.

// BringsValue reports whether r stores the value that it brings: a classic storage command or an ms.
func (r *Request) BringsValue() bool {
	return r.Command.IsStorage() || r.Command == Meta && r.Arg[1] == 's'
}

// Joins reports whether r, which brings a value, puts it behind or before what is there.
func (r *Request) Joins() bool {
	return r.Command == Append || r.Command == Prepend || r.Command == Meta && r.Has(Builds)
}

// Exptime returns the exptime of what r, which brings a value, stores.
func (r *Request) Exptime() []byte {
	if r.Command != Meta {
		_, _, exptime, _ := r.Stores()
		return exptime
	}
	if flag := flagOf(r.Head, 'T'); flag != nil {
		return flag[1:]
	}
	return []byte("0")
}

// Replace makes value, with the line end behind it, what r, which brings a value, stores.
func (r *Request) Replace(value []byte) {
	before := 4 // words
	if r.Command == Meta {
		before = 2
	}
	rest := r.Head
	for range before {
		_, rest = cutWord(rest)
	}
	_, behind := cutWord(rest)
	head := append(slices.Clone(r.Head[:len(r.Head)-len(rest)]), ' ')
	head = strconv.AppendInt(head, int64(len(value)-len(CRLF)), 10)
	r.Head, r.Data, r.Exact = append(head, behind...), value, false
}

// AppendChunkStore appends the line that stores size bytes under key, under that version; 0: none.
func AppendChunkStore(dst, key []byte, size int, exptime []byte, version uint64) []byte {
	dst = strconv.AppendInt(append(append(append(dst, "ms "...), key...), ' '), int64(size), 10)
	if string(exptime) != "0" {
		dst = append(append(dst, " T"...), exptime...)
	}
	if version != 0 {
		return appendVersion(dst, version)
	}
	return append(dst, CRLF...)
}

// AppendChunkFetch appends what asks for the value under key.
func AppendChunkFetch(dst, key []byte) []byte {
	return append(append(append(dst, "mg "...), key...), " v k\r\n"...)
}

// AppendResized appends the line of element, a VALUE or a VA, as it is where its value has size bytes. shown: a VA's flag s tells the size, too.
func AppendResized(dst, element []byte, size int, shown bool) []byte {
	line := element[:bytes.IndexByte(element, '\r')]
	before := 1 // words
	if line[1] == 'A' && line[2] == 'L' {
		before = 3
	}
	rest := line
	for range before {
		_, rest = cutWord(rest)
	}
	dst = append(append(dst, line[:len(line)-len(rest)]...), ' ')
	dst = strconv.AppendInt(dst, int64(size), 10)
	old, rest := cutWord(rest)
	for len(rest) > 0 {
		var word []byte
		if word, rest = cutWord(rest); len(word) == 0 {
			break
		}
		dst = append(dst, ' ')
		if shown && word[0] == 's' && bytes.Equal(word[1:], old) {
			dst = strconv.AppendInt(append(dst, 's'), int64(size), 10)
		} else {
			dst = append(dst, word...)
		}
	}
	return append(dst, CRLF...)
}

// Value returns the value in element, a complete VALUE or VA of that size.
func Value(element []byte, size int) []byte {
	end := len(element) - len(CRLF)
	return element[end-size : end]
}
