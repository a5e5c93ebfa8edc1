package load

import (
	"bytes"
	"strconv"
)

// command is what a request of the load asks for.
type command uint8

// The commands, in the order in which results list them.
const (
	set command = iota
	get
	numCommands
)

var commandNames = [numCommands]string{"SET", "GET"}

// String returns the command's name in results.
func (c command) String() string { return commandNames[c] }

// encoder writes requests and knows what every value must be. It is immutable after construction.
type encoder struct {
	prefix  string
	size    int    // of a value, bytes
	setTail []byte // what follows the key on the line of a set
	filler  []byte // what follows the key and the colon in a value
}

func newEncoder(o *Options) *encoder {
	filler := make([]byte, o.ValueSize)
	for i := range filler {
		filler[i] = 'a' + byte(i%26)
	}
	return &encoder{
		prefix:  o.KeyPrefix,
		size:    o.ValueSize,
		setTail: []byte(" 0 0 " + strconv.Itoa(o.ValueSize) + "\r\n"),
		filler:  filler,
	}
}

// appendKey appends the text of a key.
func (e *encoder) appendKey(b []byte, key uint64) []byte {
	return strconv.AppendUint(append(b, e.prefix...), key, 10)
}

// appendValue appends the value of a key: its text, a colon and the filler, cut to the size of values.
func (e *encoder) appendValue(b []byte, key uint64) []byte {
	start := len(b)
	b = append(e.appendKey(b, key), ':')
	if length := len(b) - start; length < e.size {
		return append(b, e.filler[:e.size-length]...)
	}
	return b[:start+e.size]
}

// appendSet appends a request that stores the value of a key.
func (e *encoder) appendSet(b []byte, key uint64) []byte {
	b = append(b, "set "...)
	b = append(e.appendKey(b, key), e.setTail...)
	return append(e.appendValue(b, key), '\r', '\n')
}

// appendGet appends a request for the values of keys.
func (e *encoder) appendGet(b []byte, keys []uint64) []byte {
	b = append(b, "get"...)
	for _, key := range keys {
		b = e.appendKey(append(b, ' '), key)
	}
	return append(b, '\r', '\n')
}

// parseKey returns the number of a key from its text.
func (e *encoder) parseKey(text []byte) (uint64, bool) {
	if len(text) <= len(e.prefix) || string(text[:len(e.prefix)]) != e.prefix {
		return 0, false
	}
	key, err := strconv.ParseUint(string(text[len(e.prefix):]), 10, 64)
	return key, err == nil
}

// valueAt reports whether part is what the value of the key with this text holds from offset at, whatever the size that
// value was stored with.
func (e *encoder) valueAt(key, part []byte, at int) bool {
	for at < len(key)+1 && len(part) > 0 {
		expected := byte(':')
		if at < len(key) {
			expected = key[at]
		}
		if part[0] != expected {
			return false
		}
		part, at = part[1:], at+1
	}
	at -= len(key) + 1
	if at+len(part) <= len(e.filler) {
		return len(part) == 0 || bytes.Equal(part, e.filler[at:at+len(part)])
	}
	for i, b := range part {
		if b != 'a'+byte((at+i)%26) {
			return false
		}
	}
	return true
}
