package load

import (
	"bytes"
	"fmt"
)

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
