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
	values int    // number of values of a retrieval
	failed []byte // an error line without its end; nil: no error; valid until the next call of next
}

// scanner finds the ends of replies in the bytes of one connection, however reads have split them. It keeps only the
// beginning of an incomplete line. The zero value is ready for the classic protocol.
type scanner struct {
	protocol Protocol
	keys     int      // number of keys of the request whose reply is read; set by the thread, not used by Classic
	check    *checker // compares keys and values; nil: no check

	line  []byte // beginning of an incomplete line
	block int    // bytes of the data block and its line end that are still missing
	// number of data blocks left in a reply that ends with one, this one included; 0: the reply ends with a line
	left     int
	reply    reply // contents of the current reply so far
	complete bool  // the current reply is complete; the next byte begins another one
	begun    bool  // whether there was any byte
}

// atStart reports whether the next byte begins a reply.
func (s *scanner) atStart() bool { return s.complete || !s.begun }

// next continues reading the reply to a request of command c. It returns how many bytes of buf it used, and whether the
// reply is complete; s.reply is then its contents. It uses all of buf unless the reply is complete. An error means that
// the bytes are no reply to c, so the connection can't be used any more.
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

// endOfLine handles a whole line of a reply to c, including its end, and reports whether it ends the reply.
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

// failure handles a line that must be an error reply, which ends the reply.
func (s *scanner) failure(line []byte, c command) (done bool, err error) {
	for _, failure := range failures {
		if bytes.HasPrefix(line, failure) && bytes.HasSuffix(line, lineEnd) {
			s.reply.failed = line[:len(line)-len(lineEnd)]
			return true, nil
		}
	}
	return false, fmt.Errorf("not a reply to %s: %s", c, excerpt(line))
}

// value handles the line "VALUE <key> <flags> <bytes>[ <cas>]", after which a data block follows.
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

// beginBlock prepares for a data block, the value of a key; nil: of the next key of the request.
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

// endOfElement counts an element of a reply that ends with its last element, and reports whether this was the last.
func (s *scanner) endOfElement() bool {
	s.left--
	return s.left == 0
}

// data handles the part of the data block, and of the line end after it, that buf has.
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

// number parses decimal digits up to the byte stop, which it also removes. It accepts at most 19 digits, because more
// can overflow.
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

// excerpt quotes the beginning of b for an error.
func excerpt(b []byte) string {
	const most = 80
	if len(b) > most {
		return fmt.Sprintf("%q...", b[:most])
	}
	return fmt.Sprintf("%q", b)
}

// checker compares the values of a retrieval with the requested keys and the stored values.
type checker struct {
	enc *encoder

	requested []uint64 // keys of the retrieval whose reply is read
	next      int      // index in requested after the key found last; replies usually keep the order of the request
	key       []byte   // text of the current value's key
	size      int      // of the current value
	at        int      // offset in the current value
}

// beginReply sets the keys that the next reply may have.
func (k *checker) beginReply(requested []uint64) { k.requested, k.next = requested, 0 }

// beginValue checks that the key was requested. Servers keep the order of the request, but some proxies do not, so any
// order is accepted.
func (k *checker) beginValue(text []byte, size int) error {
	k.key, k.size, k.at = append(k.key[:0], text...), size, 0
	key, ok := k.enc.parseKey(text)
	for i := 0; ok && i < len(k.requested); i++ {
		at := (k.next + i) % len(k.requested)
		if k.requested[at] == key {
			k.next = at + 1
			return nil
		}
	}
	return fmt.Errorf("wrong key: requested %s, got the value of %s", k.requestedText(), excerpt(text))
}

// beginNext begins the value of the next requested key, for replies that don't name it.
func (k *checker) beginNext(size int) {
	k.key, k.size, k.at = k.enc.appendKey(k.key[:0], k.requested[k.next]), size, 0
	k.next++
}

// skip skips a requested key that has no value.
func (k *checker) skip() { k.next++ }

// data checks the next bytes of the current value.
func (k *checker) data(part []byte) error {
	if !k.enc.valueAt(k.key, part, k.at) {
		return fmt.Errorf("wrong value for key %s (%d bytes): from byte %d on it is %s; expected the key, a colon "+
			"and the filler "+
			"(if another program stored it, populate first)", k.key, k.size, k.at, excerpt(part))
	}
	k.at += len(part)
	return nil
}

// requestedText lists the requested keys, only the first few of many.
func (k *checker) requestedText() string {
	const most = 3
	var b []byte
	for i, key := range k.requested {
		if i == most {
			return fmt.Sprintf("%s and %d more", b, len(k.requested)-most)
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		b = k.enc.appendKey(b, key)
	}
	return string(b)
}

var (
	metaStored  = []byte("HD")
	metaMiss    = []byte("EN") // some releases repeat the key after it
	metaAllSent = []byte("MN\r\n")
	metaValue   = []byte("VA ")
	respOK      = []byte("+OK\r\n")
	respNil     = []byte("$-1\r\n")
	respFailure = []byte("-")
)

// metaLine handles a line of a reply in memcached's meta protocol. The reply to ms is HD. The reply to one mg is VA
// <size> k<key> with a data block, or EN. The reply to several quiet mg and mn is any number of such VA and then MN.
func (s *scanner) metaLine(line []byte, c command) (done bool, err error) {
	switch {
	case c == set:
		if bytes.HasPrefix(line, metaStored) && bytes.HasSuffix(line, lineEnd) {
			return true, nil
		}
	case bytes.HasPrefix(line, metaValue):
		size, rest, ok := number(line[len(metaValue):], ' ')
		if !ok || len(rest) < 4 || rest[0] != 'k' || !bytes.HasSuffix(rest, lineEnd) {
			return false, fmt.Errorf("expected VA <size> k<key>, got %s", excerpt(line))
		}
		if s.keys == 1 {
			s.left = 1
		}
		return false, s.beginBlock(line, rest[1:len(rest)-len(lineEnd)], size)
	case s.keys > 1 && bytes.Equal(line, metaAllSent), s.keys == 1 && bytes.HasPrefix(line, metaMiss) &&
		bytes.HasSuffix(line, lineEnd) && line[len(metaMiss)] <= ' ':
		return true, nil
	}
	done, err = s.failure(line, c)
	if done && s.keys > 1 {
		// One of several mg failed; the others are answered, and the answer to mn ends the reply.
		s.reply.failed = bytes.Clone(s.reply.failed)
		done = false
	}
	return done, err
}

// respLine handles a line of a reply in Redis's protocol. The reply to SET is +OK; to GET a bulk string, nil for a
// miss; to MGET an array of these. Each can be an error instead.
func (s *scanner) respLine(line []byte, c command) (done bool, err error) {
	switch {
	case bytes.HasPrefix(line, respFailure) && bytes.HasSuffix(line, lineEnd) && s.left == 0:
		s.reply.failed = line[:len(line)-len(lineEnd)]
		return true, nil
	case c == set && bytes.Equal(line, respOK):
		return true, nil
	case c == set:
	case s.keys > 1 && s.left == 0:
		if n, rest, ok := number(line[1:], '\r'); line[0] == '*' && ok && len(rest) == 1 && n == uint64(s.keys) {
			s.left = int(n)
			return false, nil
		}
	case bytes.Equal(line, respNil):
		if s.check != nil {
			s.check.skip()
		}
		s.left = max(s.left, 1)
		return s.endOfElement(), nil
	case line[0] == '$':
		if size, rest, ok := number(line[1:], '\r'); ok && len(rest) == 1 {
			s.left = max(s.left, 1)
			return false, s.beginBlock(line, nil, size)
		}
	}
	return false, fmt.Errorf("not a reply to %s: %s", c, excerpt(line))
}
