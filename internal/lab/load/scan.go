package load

import (
	"bytes"
	"fmt"
)

// Limits of a reply, bytes. memcached's lines are shorter: a key of 250 bytes and three numbers.
const (
	maxReplyLine  = 2048
	maxReplyValue = 1 << 30
)

type reply struct {
	values int    // VALUE items of a retrieval
	failed []byte // the line of an ERROR, CLIENT_ERROR or SERVER_ERROR without its end; valid until the next call of next
}

// scanner finds the ends of replies in the bytes of one connection, wherever reads have split them. It keeps no bytes
// but the beginning of a line that was cut off. The zero value is ready.
type scanner struct {
	protocol Protocol
	keys     int      // of the request whose reply is read; the thread sets it, but for Classic, where it doesn't matter
	check    *checker // compares keys and values; nil: nobody does

	line     []byte // the beginning of a line that was cut off
	block    int    // bytes of a data block and its line end still to come
	left     int    // replies end with so many data blocks more, this one included; 0: they end with a line
	reply    reply  // what the current reply has said so far
	complete bool   // the current reply is complete, the next byte begins another
	begun    bool   // there was a byte
}

// atStart reports whether the next byte begins a reply.
func (s *scanner) atStart() bool { return s.complete || !s.begun }

// next reads on in the reply to a request of command c and returns how many bytes of buf it took and whether the reply is
// complete; s.reply is then what it said. It takes all of buf unless the reply is complete. An error means that the
// bytes are no reply to c: the connection is of no more use.
func (s *scanner) next(buf []byte, c command) (n int, done bool, err error) {
	if s.complete {
		s.complete, s.reply = false, reply{}
	}
	s.begun = true
	for n < len(buf) {
		if s.block > 0 {
			taken, err := s.data(buf[n:])
			if n += taken; err != nil {
				return n, false, err
			}
			if s.block == 0 && s.left > 0 && s.endOfElement() {
				s.complete = true
				return n, true, nil
			}
			continue
		}
		length := bytes.IndexByte(buf[n:], '\n') + 1
		if length == 0 {
			s.line = append(s.line, buf[n:]...)
			if len(s.line) > maxReplyLine {
				return len(buf), false, tooLong(s.line)
			}
			return len(buf), false, nil
		}
		line := buf[n : n+length]
		n += length
		if len(s.line) > 0 {
			line = append(s.line, line...)
			s.line = line[:0]
		}
		if len(line) > maxReplyLine {
			return n, false, tooLong(line)
		}
		if s.complete, err = s.endOfLine(line, c); s.complete || err != nil {
			return n, s.complete, err
		}
	}
	return n, false, nil
}

var (
	valuePrefix = []byte("VALUE ")
	endLine     = []byte("END\r\n")
	storedLine  = []byte("STORED\r\n")
	lineEnd     = []byte("\r\n")
	failures    = [][]byte{[]byte("SERVER_ERROR "), []byte("CLIENT_ERROR "), []byte("ERROR\r\n")}
)

// endOfLine takes a whole line of a reply to c, its end included, and reports whether it closes the reply.
func (s *scanner) endOfLine(line []byte, c command) (done bool, err error) {
	switch s.protocol {
	case Meta:
		return s.metaLine(line, c)
	case RESP:
		return s.respLine(line, c)
	}
	if c != set {
		if bytes.HasPrefix(line, valuePrefix) {
			return false, s.value(line)
		}
		if bytes.Equal(line, endLine) {
			return true, nil
		}
	} else if bytes.Equal(line, storedLine) {
		return true, nil
	}
	return s.failure(line, c)
}

// failure takes a line that can only be an error reply; one is the end of a reply.
func (s *scanner) failure(line []byte, c command) (done bool, err error) {
	for _, failure := range failures {
		if bytes.HasPrefix(line, failure) && bytes.HasSuffix(line, lineEnd) {
			s.reply.failed = line[:len(line)-len(lineEnd)]
			return true, nil
		}
	}
	return false, fmt.Errorf("not a reply to %s: %s", c, excerpt(line))
}

// value takes the line "VALUE <key> <flags> <bytes>[ <cas>]" and expects its data block next.
func (s *scanner) value(line []byte) error {
	rest := line[len(valuePrefix):]
	keyEnd := bytes.IndexByte(rest, ' ')
	if keyEnd <= 0 || !bytes.HasSuffix(line, lineEnd) {
		return malformed(line)
	}
	key, rest := rest[:keyEnd], rest[keyEnd+1:]
	_, rest, ok := number(rest, ' ')
	if !ok {
		return malformed(line)
	}
	size, after, ok := number(rest, '\r')
	if !ok {
		if size, after, ok = number(rest, ' '); ok {
			_, after, ok = number(after, '\r')
		}
	}
	if !ok || len(after) != 1 {
		return malformed(line)
	}
	return s.beginBlock(line, key, size)
}

// beginBlock expects a data block next, the value of a key; nil: of the key whose turn it is.
func (s *scanner) beginBlock(line, key []byte, size uint64) error {
	if size > maxReplyValue {
		return fmt.Errorf("a value of %d bytes: %s", size, excerpt(line))
	}
	s.reply.values++
	s.block = int(size) + len(lineEnd)
	if s.check == nil {
		return nil
	}
	if key == nil {
		s.check.beginNext(int(size))
		return nil
	}
	return s.check.beginValue(key, int(size))
}

// endOfElement counts an element of a reply that ends with its last, and reports whether that was it.
func (s *scanner) endOfElement() bool {
	s.left--
	return s.left == 0
}

// data takes what buf holds of the data block and of the line end after it.
func (s *scanner) data(buf []byte) (n int, err error) {
	if inBlock := s.block - len(lineEnd); inBlock > 0 {
		n = min(inBlock, len(buf))
		s.block -= n
		if s.check != nil {
			if err := s.check.data(buf[:n]); err != nil {
				return n, err
			}
		}
	}
	for ; n < len(buf) && s.block > 0 && s.block <= len(lineEnd); n++ {
		if expected := lineEnd[len(lineEnd)-s.block]; buf[n] != expected {
			return n, fmt.Errorf("a data block that doesn't end where its length says: %s", excerpt(buf[n:]))
		}
		s.block--
	}
	return n, nil
}

// number reads decimal digits up to the byte stop, which it takes too. At most 19 digits: more may not fit.
func number(b []byte, stop byte) (value uint64, rest []byte, ok bool) {
	for i, d := range b {
		if d == stop {
			return value, b[i+1:], i > 0
		}
		if d < '0' || d > '9' || i == 19 {
			break
		}
		value = value*10 + uint64(d-'0')
	}
	return 0, nil, false
}

func tooLong(line []byte) error {
	return fmt.Errorf("a reply line of more than %d bytes: %s", maxReplyLine, excerpt(line))
}

func malformed(line []byte) error {
	return fmt.Errorf("expected VALUE <key> <flags> <bytes>, got %s", excerpt(line))
}

// excerpt quotes the beginning of b for an error text.
func excerpt(b []byte) string {
	const most = 80
	if len(b) > most {
		return fmt.Sprintf("%q...", b[:most])
	}
	return fmt.Sprintf("%q", b)
}

// checker compares the values of a retrieval with what was asked for and stored.
type checker struct {
	enc *encoder

	asked []uint64 // keys of the retrieval whose reply is being read
	next  int      // index in asked after the key found last; replies mostly keep the order of the request
	key   []byte   // text of the current value's key
	size  int      // of the current value
	at    int      // offset in the current value
}

// beginReply says which keys the next reply may hold.
func (k *checker) beginReply(asked []uint64) { k.asked, k.next = asked, 0 }

// beginValue checks that the key was asked for. Servers keep the order of the request, some proxies do not: any is taken.
func (k *checker) beginValue(text []byte, size int) error {
	k.key, k.size, k.at = append(k.key[:0], text...), size, 0
	key, ok := k.enc.parseKey(text)
	for i := 0; ok && i < len(k.asked); i++ {
		at := (k.next + i) % len(k.asked)
		if k.asked[at] == key {
			k.next = at + 1
			return nil
		}
	}
	return fmt.Errorf("wrong key: asked for %s, got the value of %s", k.askedText(), excerpt(text))
}

// beginNext begins the value of the next key asked for: the reply doesn't name it.
func (k *checker) beginNext(size int) {
	k.key, k.size, k.at = k.enc.appendKey(k.key[:0], k.asked[k.next]), size, 0
	k.next++
}

// skip passes over a key that has no value.
func (k *checker) skip() { k.next++ }

// data checks the next bytes of the current value.
func (k *checker) data(part []byte) error {
	if !k.enc.valueAt(k.key, part, k.at) {
		return fmt.Errorf("wrong value for key %s (%d bytes): from byte %d on it holds %s; expected the key, a colon and the filler "+
			"(was it stored by something else? populate first)", k.key, k.size, k.at, excerpt(part))
	}
	k.at += len(part)
	return nil
}

// askedText lists the keys asked for, the first few of many.
func (k *checker) askedText() string {
	const most = 3
	var b []byte
	for i, key := range k.asked {
		if i == most {
			return fmt.Sprintf("%s and %d more", b, len(k.asked)-most)
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		b = k.enc.appendKey(b, key)
	}
	return string(b)
}
