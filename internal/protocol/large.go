package protocol

import (
	"bytes"
	"strconv"
)

// A value that is too large for one item of a server is stored in chunks; see package large. The functions of this file replace the value in a client's
// request, or in a server's reply, by another one.

// BringsValue reports whether r carries a value to be stored: it is a classic storage command or an ms.
func (r *Request) BringsValue() bool {
	return r.Command.IsStorage() || r.Command == Meta && r.Verb == 's'
}

// Joins reports whether r, which carries a value, appends or prepends it to the existing one.
func (r *Request) Joins() bool {
	return r.Command == Append || r.Command == Prepend || r.Command == Meta && r.Has(Builds)
}

// AppendResized appends the line of element, a VALUE or a VA, with the size replaced by size. shown: the flag s of a VA also shows the size, and is
// replaced, too.
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

// Value returns the value in element, a complete VALUE or VA whose value has size bytes.
func Value(element []byte, size int) []byte {
	end := len(element) - len(CRLF)
	return element[end-size : end]
}
