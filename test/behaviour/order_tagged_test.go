package behaviour_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// tagged makes and checks values whose every byte follows from the key, the writer and the writer's count of values, so
// that a byte of another value is detected anywhere.
type tagged struct {
	most    int    // the maximum number of bytes of the filler
	scratch []byte // the expected value
}

// fillerBlock is the text from which fillers of tagged values are cut: text that looks like replies, between random
// bytes.
var fillerBlock = makeFillerBlock()

func makeFillerBlock() []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{
		"END\r\n", "STORED\r\n", "VALUE s 0 1\r\n", "SERVER_ERROR\r\n", "\r\n", "get s\r\n", "\x00",
		"HD\r\n", "MN\r\n",
	}
	block := make([]byte, 0, 128<<10)
	for len(block) < 128<<10 {
		if rng.IntN(4) == 0 {
			block = append(block, words[rng.IntN(len(words))]...)
			continue
		}
		for range rng.IntN(32) {
			block = append(block, byte(rng.Uint32()))
		}
	}
	return block
}

// appendValue appends the value number seq of writer for key.
func (v *tagged) appendValue(dst []byte, key string, writer, seq int) []byte {
	dst = append(append(dst, key...), ' ')
	dst = append(strconv.AppendInt(dst, int64(writer), 10), ' ')
	dst = append(strconv.AppendInt(dst, int64(seq), 10), ' ')
	mixed := uint64(writer)*1_000_003 + uint64(seq)*0x9e3779b97f4a7c15>>17
	size := int(mixed % uint64(v.most+1))
	if mixed>>20%4 != 0 {
		size %= 100 // most are small
	}
	start := int(mixed >> 8 % uint64(len(fillerBlock)-v.most))
	return append(dst, fillerBlock[start:start+size]...)
}

// check returns the writer of value, which was found under key, or an error.
func (v *tagged) check(value []byte, key string) (writer, seq int, err error) {
	rest, ok := bytes.CutPrefix(value, []byte(key))
	if !ok || len(rest) == 0 || rest[0] != ' ' {
		return 0, 0, fmt.Errorf("the value of %q begins %q, not with its key", key, clip(value))
	}
	writer, rest, ok1 := cutNumber(rest[1:])
	seq, _, ok2 := cutNumber(rest)
	if !ok1 || !ok2 {
		return 0, 0, fmt.Errorf("the value of %q begins %q, not with key, writer and count", key, clip(value))
	}
	v.scratch = v.appendValue(v.scratch[:0], key, writer, seq)
	if !bytes.Equal(value, v.scratch) {
		return 0, 0,
			fmt.Errorf("the value of %q by writer %d, count %d, has %d bytes, expected %d, and differs from byte %d on",
				key, writer, seq, len(value), len(v.scratch), firstDifference(value, v.scratch))
	}
	return writer, seq, nil
}

// cutNumber cuts a number and the space after it from the front of s.
func cutNumber(s []byte) (n int, rest []byte, ok bool) {
	i := 0
	for i < len(s) && i < 18 && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	if i == 0 || i == len(s) || s[i] != ' ' {
		return 0, s, false
	}
	return n, s[i+1:], true
}

// firstDifference returns the offset of the first byte in which a and b differ.
func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// clip cuts bytes for a test's message.
func clip(b []byte) string {
	const most = 120
	if len(b) <= most {
		return string(b)
	}
	return fmt.Sprintf("%s... (%d bytes)", b[:most], len(b))
}
