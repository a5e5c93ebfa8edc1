package load

import (
	"bytes"
	"fmt"
	"strconv"

	"mcmw/internal/protocol"
)

// Protocol is the protocol of the target.
type Protocol uint8

// The protocols.
const (
	Classic Protocol = iota // memcached's text protocol: set, get
	Meta                    // memcached's meta commands: ms, mg
	RESP                    // Redis: SET, GET, MGET
)

var protocolNames = [...]string{Classic: "memcache_text", Meta: "memcache_meta", RESP: "redis"}

// String returns the name that ParseProtocol reads.
func (p Protocol) String() string { return protocolNames[p] }

// ParseProtocol parses the name of a protocol; memtier's names are accepted.
func ParseProtocol(text string) (Protocol, error) {
	switch text {
	case "memcache_text", "classic":
		return Classic, nil
	case "memcache_meta", "meta":
		return Meta, nil
	case "redis", "resp2":
		return RESP, nil
	}
	return 0, fmt.Errorf("protocol %q: expected memcache_text, memcache_meta or redis", text)
}

type command uint8

// The commands, in the order in which results list them.
const (
	set command = iota
	get
	multiGet // a GET of several keys, if the ratio has both kinds; otherwise those are GETs, too
	numCommands
)

var commandNames = [numCommands]string{"SET", "GET", "MULTIGET"}

// String returns the command's name in results.
func (c command) String() string { return commandNames[c] }

// encoder writes requests and knows the contents of every value. It is immutable.
type encoder struct {
	protocol Protocol
	prefix   string
	keys     []string // the keys of a trace by number; nil: keys are the prefix and the number
	// classic: the rest of the line of a set after the key, if the size is fixed and values don't expire
	setTail []byte
	size    int    // the fixed size; 0: sizes differ, or values expire
	filler  []byte // follows the key and the colon in a value
}

func newEncoder(o *Options) *encoder {
	sizer := newSizer(o)
	most := sizer.most()
	e := &encoder{protocol: o.Protocol, prefix: o.KeyPrefix}
	if t := o.trace(); t != nil {
		e.keys, most = t.keys, max(most, t.largest)
	}
	e.filler = make([]byte, most)
	for i := range e.filler {
		e.filler[i] = 'a' + byte(i%26)
	}
	if sizer.fixed > 0 && o.ExpiryMax == 0 && e.keys == nil {
		e.size = sizer.fixed
		e.setTail = []byte(" 0 0 " + strconv.Itoa(e.size) + "\r\n")
	}
	return e
}

func (e *encoder) appendKey(b []byte, key uint64) []byte {
	if e.keys != nil {
		return append(b, e.keys[key]...)
	}
	return strconv.AppendUint(append(b, e.prefix...), key, 10)
}

// appendValue appends the value of a key: its text, a colon and the filler, cut to size.
func (e *encoder) appendValue(b []byte, key uint64, size int) []byte {
	start := len(b)
	b = append(e.appendKey(b, key), ':')
	if length := len(b) - start; length < size {
		return append(b, e.filler[:size-length]...)
	}
	return b[:start+size]
}

// appendSet appends a request that stores the value of a key with this size, to expire after so many seconds; 0: never.
func (e *encoder) appendSet(b []byte, key uint64, size, expiry int) []byte {
	switch e.protocol {
	case Classic:
		b = append(b, "set "...)
		b = e.appendKey(b, key)
		if e.size > 0 {
			b = append(b, e.setTail...)
		} else {
			b = strconv.AppendInt(append(b, " 0 "...), int64(expiry), 10)
			b = strconv.AppendInt(append(b, ' '), int64(size), 10)
			b = append(b, '\r', '\n')
		}
	case Meta:
		b = append(b, "ms "...)
		b = strconv.AppendInt(append(e.appendKey(b, key), ' '), int64(size), 10)
		if expiry > 0 {
			b = strconv.AppendInt(append(b, " T"...), int64(expiry), 10)
		}
		b = append(b, '\r', '\n')
	case RESP:
		if expiry > 0 {
			b = append(b, "*5\r\n$3\r\nSET\r\n"...)
		} else {
			b = append(b, "*3\r\n$3\r\nSET\r\n"...)
		}
		b = e.appendBulkKey(b, key)
		b = appendLength(b, '$', size)
	}
	b = append(e.appendValue(b, key, size), '\r', '\n')
	if e.protocol == RESP && expiry > 0 {
		b = append(b, "$2\r\nEX\r\n"...)
		b = appendLength(b, '$', digits(uint64(expiry)))
		b = append(strconv.AppendInt(b, int64(expiry), 10), '\r', '\n')
	}
	return b
}

// appendGet appends a request for the values of keys.
func (e *encoder) appendGet(b []byte, keys []uint64) []byte {
	switch e.protocol {
	case Meta:
		if len(keys) == 1 {
			return append(e.appendKey(append(b, "mg "...), keys[0]), " k v\r\n"...)
		}
		// Misses get no reply; the reply to mn marks the end.
		for _, key := range keys {
			b = append(e.appendKey(append(b, "mg "...), key), " k v q\r\n"...)
		}
		return append(b, "mn\r\n"...)
	case RESP:
		if len(keys) == 1 {
			return e.appendBulkKey(append(b, "*2\r\n$3\r\nGET\r\n"...), keys[0])
		}
		b = append(appendLength(b, '*', len(keys)+1), "$4\r\nMGET\r\n"...)
		for _, key := range keys {
			b = e.appendBulkKey(b, key)
		}
		return b
	default:
		b = append(b, "get"...)
		for _, key := range keys {
			b = e.appendKey(append(b, ' '), key)
		}
		return append(b, '\r', '\n')
	}
}

func (e *encoder) appendBulkKey(b []byte, key uint64) []byte {
	length := len(e.prefix) + digits(key)
	if e.keys != nil {
		length = len(e.keys[key])
	}
	b = appendLength(b, '$', length)
	return append(e.appendKey(b, key), '\r', '\n')
}

// appendLength appends the line that begins an array or a bulk string.
func appendLength(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}

// digits returns how many decimal digits n has.
func digits(n uint64) int {
	count := 1
	for ; n >= 10; n /= 10 {
		count++
	}
	return count
}

// appendLogin appends a login request, the first one of a connection. Its reply is that of a SET.
func appendLogin(b []byte, p Protocol, user, password string) []byte {
	if p == RESP {
		parts := []string{"AUTH", user, password}
		if user == "" {
			parts = []string{"AUTH", password}
		}
		b = appendLength(b, '*', len(parts))
		for _, part := range parts {
			b = append(append(appendLength(b, '$', len(part)), part...), '\r', '\n')
		}
		return b
	}
	return protocol.AppendLogin(b, user, password)
}

func (e *encoder) parseKey(text []byte) (uint64, bool) {
	if len(text) <= len(e.prefix) || string(text[:len(e.prefix)]) != e.prefix {
		return 0, false
	}
	key, err := strconv.ParseUint(string(text[len(e.prefix):]), 10, 64)
	return key, err == nil
}

// valueAt reports whether part is what the value of this key contains from offset at on, whatever the value's size.
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
