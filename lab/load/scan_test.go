package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scanned returns, as text, what a scanner finds in some bytes that are split into parts.
func scanned(s scanner, input []byte, commands func(i int) command, split func(rest int) int) string {
	var found strings.Builder
	for i := 0; len(input) > 0; {
		part := input[:min(max(split(len(input)), 1), len(input))]
		input = input[len(part):]
		for len(part) > 0 {
			n, done, err := s.next(part, commands(i))
			if err != nil {
				found.WriteString("broken")
				return found.String()
			}
			if !done && n != len(part) {
				return "bytes left in an incomplete reply"
			}
			part = part[n:]
			if done {
				fmt.Fprintf(&found, "%d values, failed %q; ", s.reply.values, s.reply.failed)
				i++
			}
		}
	}
	return found.String()
}

func whole(rest int) int { return rest }

// requireScanned checks what a scanner finds in replies to a command, at once and in pieces of every size.
func requireScanned(t *testing.T, s scanner, input string, c command, want string) {
	t.Helper()
	commands := func(int) command { return c }
	assert.Equal(t, want, scanned(s, []byte(input), commands, whole))
	for size := 1; size <= min(len(input), 40); size++ {
		require.Equal(t, want, scanned(s, []byte(input), commands, func(int) int { return size }),
			"in pieces of %d bytes", size)
	}
}

func TestRepliesAreFoundHoweverReadsHaveSplitThem(t *testing.T) {
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
		{
			"several replies", "END\r\nVALUE a 0 1\r\nx\r\nEND\r\nEND\r\n", get,
			`0 values, failed ""; 1 values, failed ""; 0 values, failed ""; `,
		},
		{"server error", "SERVER_ERROR out of memory\r\n", set, `0 values, failed "SERVER_ERROR out of memory"; `},
		{
			"error after values", "VALUE a 0 1\r\nx\r\nSERVER_ERROR gone\r\nEND\r\n", get,
			`1 values, failed "SERVER_ERROR gone"; 0 values, failed ""; `,
		},
		{"error, then a good reply", "ERROR\r\nSTORED\r\n", set, `0 values, failed "ERROR"; 0 values, failed ""; `},
		{
			"client error", "CLIENT_ERROR bad command line format\r\n", get,
			`0 values, failed "CLIENT_ERROR bad command line format"; `,
		},
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
		t.Run(tt.name, func(t *testing.T) { requireScanned(t, scanner{}, tt.input, tt.command, tt.want) })
	}
}

func TestRepliesOfOtherProtocolsAreFoundHoweverReadsHaveSplitThem(t *testing.T) {
	for _, tt := range []struct {
		name     string
		protocol Protocol
		keys     int
		input    string
		command  command
		want     string
	}{
		{"ms", Meta, 0, "HD\r\nHD\r\n", set, `0 values, failed ""; 0 values, failed ""; `},
		{"mg", Meta, 1, "VA 5 kmemtier-1\r\nhello\r\nEN\r\n", get, `1 values, failed ""; 0 values, failed ""; `},
		{
			"a miss that repeats the key", Meta, 1, "EN kmemtier-1\r\nEN\r\n", get,
			`0 values, failed ""; 0 values, failed ""; `,
		},
		{"what begins like a miss", Meta, 1, "END\r\n", get, "broken"},
		{"mg of an empty value", Meta, 1, "VA 0 kk\r\n\r\n", get, `1 values, failed ""; `},
		{"quiet mg", Meta, 3, "VA 1 ka\r\nx\r\nVA 4 kb\r\nMN\r\n\r\nMN\r\n", get, `2 values, failed ""; `},
		{"quiet mg, all misses", Meta, 3, "MN\r\nMN\r\n", get, `0 values, failed ""; 0 values, failed ""; `},
		{
			"mg refused", Meta, 1, "SERVER_ERROR out of memory\r\nEN\r\n", get,
			`0 values, failed "SERVER_ERROR out of memory"; 0 values, failed ""; `,
		},
		{
			"one of several refused", Meta, 3, "VA 1 ka\r\nx\r\nSERVER_ERROR no\r\nMN\r\n", get,
			`1 values, failed "SERVER_ERROR no"; `,
		},
		{
			"ms refused", Meta, 0, "SERVER_ERROR object too large for cache\r\n", set,
			`0 values, failed "SERVER_ERROR object too large for cache"; `,
		},
		{"a VA without key", Meta, 1, "VA 5\r\nhello\r\n", get, "broken"},
		{"a VA with other flags", Meta, 1, "VA 5 t9\r\nhello\r\n", get, "broken"},
		{"a miss among quiet mg", Meta, 2, "EN\r\n", get, "broken"},
		{"a classic reply", Meta, 1, "END\r\n", get, "broken"},
		{"HD to mg", Meta, 1, "HD\r\n", get, "broken"},
		{
			"SET", RESP, 0, "+OK\r\n-ERR no\r\n+OK\r\n", set,
			`0 values, failed ""; 0 values, failed "-ERR no"; 0 values, failed ""; `,
		},
		{
			"GET", RESP, 1, "$5\r\nhello\r\n$-1\r\n$0\r\n\r\n", get,
			`1 values, failed ""; 0 values, failed ""; 1 values, failed ""; `,
		},
		{"a value that looks like a reply", RESP, 1, "$5\r\n+OK\r\n\r\n", get, `1 values, failed ""; `},
		{
			"MGET", RESP, 3, "*3\r\n$1\r\na\r\n$-1\r\n$2\r\nbc\r\n*3\r\n$-1\r\n$-1\r\n$-1\r\n", get,
			`2 values, failed ""; 0 values, failed ""; `,
		},
		{
			"MGET refused", RESP, 2, "-MOVED 1 host\r\n*2\r\n$-1\r\n$-1\r\n", get,
			`0 values, failed "-MOVED 1 host"; 0 values, failed ""; `,
		},
		{"an array of another length", RESP, 3, "*2\r\n$-1\r\n$-1\r\n", get, "broken"},
		{"an array to GET", RESP, 1, "*1\r\n$-1\r\n", get, "broken"},
		{"a value to SET", RESP, 0, "$1\r\na\r\n", set, "broken"},
		{"a negative length", RESP, 1, "$-2\r\n", get, "broken"},
		{"a length beyond all values", RESP, 1, "$9999999999\r\n", get, "broken"},
		{"an error within an array", RESP, 2, "*2\r\n-ERR\r\n", get, "broken"},
		{"an empty line", RESP, 2, "\r\n", get, "broken"},
		{"a line end alone", RESP, 1, "\n", get, "broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireScanned(t, scanner{protocol: tt.protocol, keys: tt.keys}, tt.input, tt.command, tt.want)
		})
	}
}

func TestRequestsAreWrittenInTheFormOfTheirProtocol(t *testing.T) {
	for protocol, want := range map[Protocol][5]string{
		Classic: {
			"set k-7 0 0 6\r\nk-7:ab\r\n", "set k-7 0 60 6\r\nk-7:ab\r\n", "get k-7\r\n", "get k-7 k-12\r\n",
			"set mcmw-login 0 -1 8\r\nu secret\r\n",
		},
		Meta: {
			"ms k-7 6\r\nk-7:ab\r\n", "ms k-7 6 T60\r\nk-7:ab\r\n", "mg k-7 k v\r\n",
			"mg k-7 k v q\r\nmg k-12 k v q\r\nmn\r\n",
			"set mcmw-login 0 -1 8\r\nu secret\r\n",
		},
		RESP: {
			"*3\r\n$3\r\nSET\r\n$3\r\nk-7\r\n$6\r\nk-7:ab\r\n",
			"*5\r\n$3\r\nSET\r\n$3\r\nk-7\r\n$6\r\nk-7:ab\r\n$2\r\nEX\r\n$2\r\n60\r\n",
			"*2\r\n$3\r\nGET\r\n$3\r\nk-7\r\n", "*3\r\n$4\r\nMGET\r\n$3\r\nk-7\r\n$4\r\nk-12\r\n",
			"*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$6\r\nsecret\r\n",
		},
	} {
		o := Options{Protocol: protocol, KeyPrefix: "k-", ValueSize: 6}.withDefaults()
		expiring := o
		expiring.ExpiryMin, expiring.ExpiryMax = 60, 60
		e := newEncoder(&o)
		assert.Equal(t, want, [5]string{
			string(e.appendSet(nil, 7, 6, 0)), string(newEncoder(&expiring).appendSet(nil, 7, 6, 60)),
			string(e.appendGet(nil, []uint64{7})), string(e.appendGet(nil, []uint64{7, 12})),
			string(appendLogin(nil, protocol, "u", "secret")),
		})
		again, err := ParseProtocol(protocol.String())
		require.NoError(t, err)
		assert.Equal(t, protocol, again)
	}
	assert.Equal(t, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n", string(appendLogin(nil, RESP, "", "secret")))
}

func TestScanningAllocatesNothing(t *testing.T) {
	o := Options{ValueSize: 4096, KeysPerGet: 10}.withDefaults()
	enc := newEncoder(&o)
	keys := []uint64{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}
	var replies []byte
	for _, key := range keys {
		replies = fmt.Appendf(replies, "VALUE %s 0 4096\r\n%s\r\n", enc.appendKey(nil, key),
			enc.appendValue(nil, key, 4096))
	}
	replies = append(replies, "END\r\n"...)
	s := scanner{check: &checker{enc: enc}}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		s.check.beginReply(keys)
		for rest := replies; len(rest) > 0; {
			// Reads end in the middle of lines and values.
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

func TestAValueIsRecognizedWhateverItsSize(t *testing.T) {
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

func FuzzOtherProtocols(f *testing.F) {
	for _, seed := range []string{
		"VA 5 kmemtier-1\r\nhello\r\nEN\r\n", "VA 1 ka\r\nx\r\nSERVER_ERROR no\r\nMN\r\n", "HD\r\nNS\r\n",
		"*3\r\n$1\r\na\r\n$-1\r\n$2\r\nbc\r\n+OK\r\n-ERR\r\n", "*99999999999\r\n", "$-1\r\n$9\r\nmemtier-1\r\n",
	} {
		for _, keys := range []uint8{1, 3} {
			f.Add([]byte(seed), uint8(3), keys, true)
			f.Add([]byte(seed), uint8(1), keys, false)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, size, keys uint8, resp bool) {
		o := Options{}.withDefaults()
		requested := []uint64{1, 2, 3}[:keys%3+1]
		check := &checker{enc: newEncoder(&o)}
		check.beginReply(requested)
		s := scanner{protocol: Meta, keys: len(requested), check: check}
		if resp {
			s.protocol = RESP
		}
		// Only the first reply: the thread would set the requested keys before the next.
		first := func(s scanner, size int) string {
			for rest := input; len(rest) > 0; {
				n, done, err := s.next(rest[:min(max(size, 1), len(rest))], get)
				switch {
				case err != nil:
					return "broken"
				case done:
					return fmt.Sprintf("%d values, failed %q", s.reply.values, s.reply.failed)
				}
				rest = rest[n:]
			}
			return "incomplete"
		}
		atOnce := first(s, len(input))
		check.beginReply(requested)
		if inPieces := first(s, int(size)); inPieces != atOnce {
			t.Fatalf("in pieces of %d bytes: %s; at once: %s", size, inPieces, atOnce)
		}
	})
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
		atOnce := scanned(scanner{}, input, commands, whole)
		if inPieces := scanned(scanner{}, input, commands, func(int) int { return int(size) }); inPieces != atOnce {
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
		requested := []uint64{1, 2, 3}
		outcome := func(size int) (replies int, failed bool) {
			s := scanner{check: &checker{enc: enc}}
			for rest := input; len(rest) > 0; {
				part := rest[:min(max(size, 1), len(rest))]
				s.check.beginReply(requested)
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
			t.Fatalf("in pieces of %d bytes: %d replies, failed %v; at once: %d, %v", size, inPieces, failedInPieces,
				replies, failed)
		}
	})
}
