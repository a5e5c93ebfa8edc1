package protocol

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func limits() *Limits {
	l := Limits{}.WithDefaults()
	return &l
}

func TestARequestIsDecodedIntoItsParts(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Request
	}{
		{"get a\r\n", Request{Command: Get, NumKeys: 1, Keys: []byte("a"), Head: []byte("get a")}},
		{"get a\n", Request{Command: Get, NumKeys: 1, Keys: []byte("a"), Head: []byte("get a")}},
		{"  gets  a  bc \r\n", Request{Command: Gets, NumKeys: 2, Keys: []byte("a  bc"), Head: []byte("  gets  a  bc ")}},
		{"bget a\r\n", Request{Command: Get, NumKeys: 1, Keys: []byte("a"), Head: []byte("bget a")}},
		{"gat 10 a b\r\n", Request{Command: Gat, NumKeys: 2, Keys: []byte("a b"), Arg: []byte("10"), Head: []byte("gat 10 a b")}},
		{"gat 10\r\n", Request{Command: Gat, Arg: []byte("10"), Head: []byte("gat 10"), Answer: TextEnd}},
		{"set k 1 2 3\r\nabc\r\n", Request{Command: Set, NumKeys: 1, Keys: []byte("k"), Head: []byte("set k 1 2 3"), Data: []byte("abc\r\n")}},
		{"set k 1 2 0 noreply\r\n\r\n", Request{Command: Set, NoReply: true, NumKeys: 1, Keys: []byte("k"), Head: []byte("set k 1 2 0 "), Data: []byte("\r\n")}},
		{"set k 1 2 1 nonsense\r\nx\r\n", Request{Command: Set, NumKeys: 1, Keys: []byte("k"), Head: []byte("set k 1 2 1 nonsense"), Data: []byte("x\r\n")}},
		{"cas k 0 0 1 77 noreply\r\nx\r\n", Request{Command: Cas, NoReply: true, NumKeys: 1, Keys: []byte("k"), Head: []byte("cas k 0 0 1 77 "), Data: []byte("x\r\n")}},
		{"set k 0 0 3\r\nabcde", Request{Command: Set, NumKeys: 1, Keys: []byte("k"), Head: []byte("set k 0 0 3"), Data: []byte("abcde")}},
		{"delete k 0 noreply\r\n", Request{Command: Delete, NoReply: true, NumKeys: 1, Keys: []byte("k"), Head: []byte("delete k 0 ")}},
		{"incr k 5\r\n", Request{Command: Incr, NumKeys: 1, Keys: []byte("k"), Head: []byte("incr k 5")}},
		{"touch k -1\r\n", Request{Command: Touch, NumKeys: 1, Keys: []byte("k"), Head: []byte("touch k -1")}},
		{"flush_all 10 noreply\r\n", Request{Command: FlushAll, NoReply: true, Head: []byte("flush_all 10 ")}},
		{"stats items\r\n", Request{Command: Stats, Arg: []byte("items"), Head: []byte("stats items")}},
		{"stats \r\n", Request{Command: Stats, Head: []byte("stats ")}},
		{"mg k v\r\n", Request{Command: Meta, NumKeys: 1, Keys: []byte("k"), Arg: []byte("mg"), Head: []byte("mg k v")}},
		{"mn\r\n", Request{Command: Meta, Arg: []byte("mn"), Head: []byte("mn"), Answer: TextMetaNoop}},
		{"ms k 2 c\r\nabXY", Request{Command: Meta, NumKeys: 1, Keys: []byte("k"), Arg: []byte("ms"), Head: []byte("ms k 2 c"), Data: []byte("abXY")}},
		{"get a\x00 b\r\n", Request{Command: Get, NumKeys: 1, Keys: []byte("a"), Head: []byte("get a")}},
	} {
		t.Run(strings.TrimSpace(tc.in), func(t *testing.T) {
			var r Request
			n, _, err := limits().Decode([]byte(tc.in), &r)
			require.NoError(t, err)
			require.Equal(t, len(tc.in), n)
			tc.want.Raw = []byte(tc.in)
			assert.Equal(t, tc.want, r)
		})
	}
}

func TestARequestThatMemcachedRefusesCarriesItsText(t *testing.T) {
	long := strings.Repeat("k", 251)
	for in, want := range map[string]string{
		"\r\n": TextError, "\n": TextError, "x\r\n": TextError, "get\r\n": TextError, "GET a\r\n": TextError,
		"get " + long + "\r\n": TextBadFormat, "get a " + long + " b\r\n": TextBadFormat,
		"set " + long + " 0 0 1\r\n": TextBadFormat, "set k 0 0 -1\r\n": TextBadFormat, "set k 0 0 x\r\n": TextBadFormat,
		"set k 0 0 2147483647\r\n": TextBadFormat, "set k -1 0 1\r\n": TextBadFormat, "set k 0 0\r\n": TextError,
		"set k 0 0 1 noreply x\r\n": TextError, "cas k 0 0 1\r\n": TextError, "cas k 0 0 1 x\r\n": TextBadFormat,
		"incr k\r\n": TextError, "incr k x\r\n": TextBadDelta, "incr " + long + " 1\r\n": TextBadFormat,
		"touch k x\r\n": TextBadExptime, "gat x k\r\n": TextBadExptime, "flush_all x\r\n": TextBadExptime,
		"delete k 5\r\n": TextBadDelete, "delete k 0 0\r\n": TextBadDelete, "delete\r\n": TextError,
		"verbosity x\r\n": TextBadFormat, "verbosity\r\n": TextError, "ms k\r\n": TextBadFormat, "ms\r\n": TextError,
		"shutdown\r\n": TextNoShutdown, "watch\r\n": TextNoWatch, "get a HTTP/1.1\r\nx": "",
	} {
		t.Run(in, func(t *testing.T) {
			var r Request
			n, _, err := limits().Decode([]byte(in), &r)
			require.NoError(t, err)
			assert.Equal(t, strings.IndexByte(in, '\n')+1, n)
			assert.Equal(t, want, r.Answer)
			assert.False(t, r.NoReply)
		})
	}
}

func TestNoReplySilencesARefusalOnlyWhereMemcachedHasReadIt(t *testing.T) {
	for in, silent := range map[string]bool{
		"set k 0 0 noreply\r\n": true, "set k 0 0 x noreply\r\n": true, "set k noreply\r\n": false,
		"delete k 5 noreply\r\n": true, "incr k x noreply\r\n": true, "nonsense noreply\r\n": false,
		"verbosity noreply\r\n": true, "flush_all x noreply\r\n": true,
	} {
		var r Request
		_, _, err := limits().Decode([]byte(in), &r)
		require.NoError(t, err)
		assert.Equal(t, silent, r.NoReply, in)
		assert.NotEmpty(t, r.Answer, in)
	}
}

func TestAValueBeyondTheLimitIsRefusedAtOnceAndSkipped(t *testing.T) {
	l := Limits{MaxValue: 10}.WithDefaults()
	var r Request
	n, _, err := l.Decode([]byte("set k 0 0 11\r\n"), &r)
	require.NoError(t, err)
	assert.Equal(t, 14, n)
	assert.Equal(t, TextTooLarge, r.Answer)
	assert.Equal(t, 13, r.Skip)
}

func TestARetrievalWithATooLongKeyStillFetchesTheKeysBeforeIt(t *testing.T) {
	for _, command := range []string{"get", "gets", "gat 5", "gats 5"} {
		var r Request
		_, _, err := limits().Decode([]byte(command+" a  b "+strings.Repeat("k", 251)+" c\r\n"), &r)
		require.NoError(t, err)
		assert.Equal(t, TextBadFormat, r.Answer)
		assert.True(t, r.HasEffect())
		assert.Equal(t, "a  b", string(r.Keys))
		assert.Equal(t, 2, r.NumKeys)
	}
}

func TestAnUnfinishedRequestSaysWhatItNeeds(t *testing.T) {
	for in, need := range map[string]int{
		"": 0, "get a": 0, "get a\r": 0, "set k 0 0 3\r\n": 18, "set k 0 0 3\r\nabc\r": 18, "ms k 3\r\nabc\r": 13,
	} {
		var r Request
		n, got, err := limits().Decode([]byte(in), &r)
		require.NoError(t, err)
		assert.Zero(t, n, in)
		assert.Equal(t, need, got, in)
	}
}

func TestALineWithoutEndClosesTheConnectionUnlessItIsAMultiGet(t *testing.T) {
	l := Limits{MaxMultiGetLine: 4096}.WithDefaults()
	for line, want := range map[string]error{
		"gat 1 " + strings.Repeat("k", 2048):                          ErrLineTooLong,
		"get " + strings.Repeat("key ", 1000):                         nil,
		"gets " + strings.Repeat("key ", 1000):                        nil,
		strings.Repeat(" ", 101) + "get " + strings.Repeat("k", 2048): ErrLineTooLong,
		"get " + strings.Repeat("key ", 1100):                         ErrLineTooLong,
		strings.Repeat("x", 2048):                                     nil,
		strings.Repeat("x", 2049):                                     ErrLineTooLong,
	} {
		var r Request
		n, _, err := l.Decode([]byte(line), &r)
		assert.Zero(t, n)
		assert.Equal(t, want, err)
	}
}

func TestAnHTTPRequestClosesTheConnection(t *testing.T) {
	var r Request
	_, _, err := limits().Decode([]byte("POST / HTTP/1.1\r\n"), &r)
	assert.Equal(t, ErrHTTP, err)
}

func TestNumbersAreReadAsStrtolReadsThem(t *testing.T) {
	for in, want := range map[string]struct {
		v  int32
		ok bool
	}{
		"5": {5, true}, "+5": {5, true}, "-5": {-5, true}, "\t5": {5, true}, "5\tx": {5, true}, "4294967301": {5, true},
		"9223372036854775807": {-1, true}, "-9223372036854775808": {0, true},
		"": {}, "-": {}, "x": {}, "5x": {}, "9223372036854775808": {}, "-9223372036854775809": {}, "99999999999999999999": {},
	} {
		v, ok := parseInt32([]byte(in))
		assert.Equal(t, want.ok, ok, in)
		assert.Equal(t, want.v, v, in)
	}
	for in, want := range map[string]struct {
		v  uint64
		ok bool
	}{
		"18446744073709551615": {1<<64 - 1, true}, "-18446744073709551615": {1, true}, "-1": {}, "18446744073709551616": {},
		"7\v": {7, true}, "": {},
	} {
		v, ok := parseUint64([]byte(in))
		assert.Equal(t, want.ok, ok, in)
		assert.Equal(t, want.v, v, in)
	}
}

func TestDecodingARequestAllocatesNothing(t *testing.T) {
	var r Request
	l := limits()
	for _, in := range []string{"get a\r\n", "get a b c\r\n", "set k 0 0 3\r\nabc\r\n", "delete k noreply\r\n", "incr k 5\r\n", "foo\r\n"} {
		buf := []byte(in)
		assert.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = l.Decode(buf, &r) }), in)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		"get a b\r\n", "set k 0 0 3\r\nabc\r\n", "set k 0 0 3 noreply\r\nabc\r\n", "cas k 0 0 1 2\r\nx\r\n", "delete k 0 noreply\r\n",
		"gat 5 a b\r\n", "flush_all noreply\r\n", "ms k 2 I\r\nab\r\n", "mg k b v\r\n", "stats\r\n", "get \x00\r\n", " \r\n",
		"set k 0 0 99\r\n", "set k 0 0 -1\r\n", "GET / HTTP/1.1\r\n", "verbosity 1 noreply\r\nquit\r\n", strings.Repeat("x", 3000),
	} {
		f.Add([]byte(s))
	}
	l := Limits{MaxValue: 64}.WithDefaults()
	f.Fuzz(func(t *testing.T, in []byte) {
		var r Request
		n, need, err := l.Decode(in, &r)
		if err != nil || n == 0 {
			assert.Zero(t, n)
			assert.True(t, need == 0 || need > len(in), "need %d of %d bytes", need, len(in))
			return
		}
		require.LessOrEqual(t, n, len(in))
		assert.Equal(t, in[:n], r.Raw)
		// The same bytes alone are the same request, and no part of them is one.
		var again Request
		m, _, err := l.Decode(in[:n], &again)
		require.NoError(t, err)
		assert.Equal(t, n, m)
		assert.Equal(t, r, again)
		if m, _, err = l.Decode(in[:n-1], &again); err == nil {
			assert.Zero(t, m)
		}
		if r.NumKeys > 0 {
			assert.NotEmpty(t, r.Keys)
		}
		// What goes to a server in place of a request that wants no reply is the same request, answered.
		if r.NoReply && r.Answer == "" {
			answered := append(append(append([]byte{}, r.Head...), CRLF...), r.Data...)
			m, _, err = l.Decode(answered, &again)
			require.NoError(t, err)
			assert.Equal(t, len(answered), m)
			assert.Equal(t, r.Command, again.Command)
			assert.Equal(t, r.Keys, again.Keys)
			assert.Empty(t, again.Answer)
		}
	})
}

func BenchmarkDecodeRequest(b *testing.B) {
	for name, in := range map[string]string{
		"get": "get memtier-1234567\r\n", "multi-get-10": "get" + strings.Repeat(" memtier-1234567", 10) + "\r\n",
		"set-64": "set memtier-1234567 0 0 64\r\n" + strings.Repeat("x", 64) + "\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			l, buf := limits(), []byte(in)
			var r Request
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = l.Decode(buf, &r)
			}
		})
	}
}

func TestARequestIsCertainOfAReplyUnlessItMayBeQuiet(t *testing.T) {
	for line, want := range map[string]bool{
		"get k\r\n": true, "set k 0 0 1\r\nx\r\n": true, "set k 0 0 1 noreply\r\nx\r\n": false, "delete k noreply\r\n": false,
		"mg k v\r\n": true, "mg k v q\r\n": false, "mn\r\n": true, "slabs reassign 1 2\r\n": false, "nonsense\r\n": true,
	} {
		var r Request
		n, _, err := limits().Decode([]byte(line), &r)
		require.NoError(t, err)
		require.Equal(t, len(line), n)
		assert.Equal(t, want, r.Replies(), line)
	}
}
