package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scanned is what a scanner made of some bytes, as text.
func scanned(input []byte, commands func(i int) command, split func(rest int) int) string {
	var s scanner
	var said strings.Builder
	for i := 0; len(input) > 0; {
		part := input[:min(max(split(len(input)), 1), len(input))]
		input = input[len(part):]
		for len(part) > 0 {
			n, done, err := s.next(part, commands(i))
			if err != nil {
				said.WriteString("broken")
				return said.String()
			}
			if !done && n != len(part) {
				return "bytes left in an incomplete reply"
			}
			part = part[n:]
			if done {
				fmt.Fprintf(&said, "%d values, failed %q; ", s.reply.values, s.reply.failed)
				i++
			}
		}
	}
	return said.String()
}

func whole(rest int) int { return rest }

func TestRepliesAreFoundWhereverReadsHaveSplitThem(t *testing.T) {
	for _, tt := range []struct {
		name    string
		input   string
		command command
		want    string
	}{
		{"stored", "STORED\r\n", set, `0 values, failed ""; `},
		{"miss", "END\r\n", get, `0 values, failed ""; `},
		{"hit", "VALUE k 0 5\r\nhello\r\nEND\r\n", get, `1 values, failed ""; `},
		{"hit with a cas id", "VALUE k 12 5 99\r\nhello\r\nEND\r\n", get, `1 values, failed ""; `},
		{"empty value", "VALUE k 0 0\r\n\r\nEND\r\n", get, `1 values, failed ""; `},
		{"a value that looks like replies", "VALUE k 0 12\r\nEND\r\nSTORED\r\nEND\r\n", get, "broken"},
		{"a value that holds replies", "VALUE k 0 13\r\nEND\r\nSTORED\r\n\r\nEND\r\n", get, `1 values, failed ""; `},
		{"several values", "VALUE a 0 1\r\nx\r\nVALUE b 0 2\r\nxy\r\nEND\r\n", get, `2 values, failed ""; `},
		{"several replies", "END\r\nVALUE a 0 1\r\nx\r\nEND\r\nEND\r\n", get, `0 values, failed ""; 1 values, failed ""; 0 values, failed ""; `},
		{"server error", "SERVER_ERROR out of memory\r\n", set, `0 values, failed "SERVER_ERROR out of memory"; `},
		{"error after values", "VALUE a 0 1\r\nx\r\nSERVER_ERROR gone\r\nEND\r\n", get, `1 values, failed "SERVER_ERROR gone"; 0 values, failed ""; `},
		{"error, then a good reply", "ERROR\r\nSTORED\r\n", set, `0 values, failed "ERROR"; 0 values, failed ""; `},
		{"client error", "CLIENT_ERROR bad command line format\r\n", get, `0 values, failed "CLIENT_ERROR bad command line format"; `},
		{"incomplete line", "STOR", set, ""},
		{"incomplete value", "VALUE a 0 10\r\n12345", get, ""},
		{"a set answered as a get", "END\r\n", set, "broken"},
		{"a get answered as a set", "STORED\r\n", get, "broken"},
		{"a line end without carriage return", "STORED\n", set, "broken"},
		{"a value line without carriage return", "VALUE k 0 5\nhello\r\nEND\r\n", get, "broken"},
		{"no key", "VALUE  0 5\r\nhello\r\nEND\r\n", get, "broken"},
		{"no flags", "VALUE k 5\r\nhello\r\nEND\r\n", get, "broken"},
		{"a negative length", "VALUE k 0 -5\r\nhello\r\nEND\r\n", get, "broken"},
		{"more after the cas id", "VALUE k 0 5 99 1\r\nhello\r\nEND\r\n", get, "broken"},
		{"a length that overflows", "VALUE k 0 18446744073709551621\r\nhello\r\nEND\r\n", get, "broken"},
		{"a length beyond all values", "VALUE k 0 9000000000\r\nhello\r\nEND\r\n", get, "broken"},
		{"a line without end", strings.Repeat("x", maxReplyLine+1), get, "broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			commands := func(int) command { return tt.command }
			assert.Equal(t, tt.want, scanned([]byte(tt.input), commands, whole))
			for size := 1; size <= min(len(tt.input), 40); size++ {
				require.Equal(t, tt.want, scanned([]byte(tt.input), commands, func(int) int { return size }), "in pieces of %d bytes", size)
			}
		})
	}
}

func TestScanningAllocatesNothing(t *testing.T) {
	o := Options{ValueSize: 4096, KeysPerGet: 10}.withDefaults()
	enc := newEncoder(&o)
	keys := []uint64{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}
	var replies []byte
	for _, key := range keys {
		replies = fmt.Appendf(replies, "VALUE %s 0 4096\r\n%s\r\n", enc.appendKey(nil, key), enc.appendValue(nil, key, 4096))
	}
	replies = append(replies, "END\r\n"...)
	s := scanner{check: &checker{enc: enc}}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		s.check.beginReply(keys)
		for rest := replies; len(rest) > 0; {
			// Every other value begins in the middle of its line.
			part := rest[:min(4100, len(rest))]
			n, _, err := s.next(part, get)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
	}))
	assert.Equal(t, 10, s.reply.values)
}

func TestAValueIsTheOneOfItsKeyWhateverItsSize(t *testing.T) {
	o := Options{ValueSize: 100}.withDefaults()
	enc := newEncoder(&o)
	for size := 1; size <= 300; size++ {
		sized := Options{ValueSize: size}.withDefaults()
		value := newEncoder(&sized).appendValue(nil, 42, size)
		require.Len(t, value, size)
		for at := range value {
			assert.True(t, enc.valueAt([]byte("memtier-42"), value[at:], at), "size %d from %d on", size, at)
			changed := append([]byte(nil), value...)
			changed[at] ^= 1
			assert.False(t, enc.valueAt([]byte("memtier-42"), changed, 0), "size %d, byte %d changed", size, at)
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		"VALUE memtier-1 0 5\r\nhello\r\nEND\r\nSTORED\r\nEND\r\n",
		"SERVER_ERROR out of memory\r\nEND\r\n",
		"VALUE a 0 1 7\r\nx\r\nVALUE b 0 0\r\n\r\nEND\r\nERROR\r\n",
		"VALUE k 0 99999999999999999999\r\n",
	} {
		f.Add([]byte(seed), uint8(3), uint8(1))
	}
	f.Fuzz(func(t *testing.T, input []byte, size, cycle uint8) {
		commands := func(i int) command {
			if cycle == 0 || i%(int(cycle)+1) > 0 {
				return get
			}
			return set
		}
		atOnce := scanned(input, commands, whole)
		if inPieces := scanned(input, commands, func(int) int { return int(size) }); inPieces != atOnce {
			t.Fatalf("in pieces of %d bytes: %s\nat once: %s", size, inPieces, atOnce)
		}
	})
}

func FuzzVerification(f *testing.F) {
	f.Add([]byte("VALUE memtier-1 0 5\r\nmemti\r\nEND\r\n"), uint8(7))
	f.Add([]byte("VALUE memtier-2 0 12\r\nmemtier-2:ab\r\nEND\r\n"), uint8(7))
	f.Fuzz(func(t *testing.T, input []byte, size uint8) {
		o := Options{}.withDefaults()
		enc := newEncoder(&o)
		asked := []uint64{1, 2, 3}
		outcome := func(size int) (replies int, failed bool) {
			s := scanner{check: &checker{enc: enc}}
			for rest := input; len(rest) > 0; {
				part := rest[:min(max(size, 1), len(rest))]
				s.check.beginReply(asked)
				n, done, err := s.next(part, get)
				if err != nil {
					return replies, true
				}
				if done {
					replies++
				}
				rest = rest[n:]
			}
			return replies, false
		}
		replies, failed := outcome(len(input))
		inPieces, failedInPieces := outcome(int(size))
		if replies != inPieces || failed != failedInPieces {
			t.Fatalf("in pieces of %d bytes: %d replies, failed %v; at once: %d, %v", size, inPieces, failedInPieces, replies, failed)
		}
	})
}
