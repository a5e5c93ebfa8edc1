package protocol

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest/strict"
)

func limits() *Limits {
	l := Limits{}.WithDefaults()
	return &l
}

func TestARequestIsDecodedIntoItsParts(t *testing.T) {
	const key = "aGVsbG8="
	type parts struct {
		Command          Command
		NoReply, Exact   bool
		NumKeys          int32
		Keys, Head, Data []byte
		Answer           string
	}
	for _, tc := range []struct {
		in   string
		want parts
	}{
		{"gets  a  bc \r\n", parts{Command: Gets, NumKeys: 2, Keys: []byte("a bc"), Head: []byte("gets a bc")}},
		{
			"set k 1 -2 0 noreply\r\n\r\n",
			parts{
				Command: Set, NoReply: true, NumKeys: 1, Keys: []byte("k"), Head: []byte("set k 1 -2 0"),
				Data: []byte("\r\n"),
			},
		},
		{"me " + key + " b\r\n", parts{
			Command: Meta, NumKeys: 1, Keys: []byte(key),
			Head: []byte("me " + key + " b b"),
		}},
		{"me k x y\r\n", parts{Command: Meta, NumKeys: 1, Keys: []byte("k"), Head: []byte("me k")}},
		{"mn\r\n", parts{Command: Meta, Exact: true, Head: []byte("mn"), Answer: TextMetaNoop}},
	} {
		t.Run(strings.TrimSpace(tc.in), func(t *testing.T) {
			var r Request
			n, _, err := limits().Decode([]byte(tc.in), &r)
			require.NoError(t, err)
			require.Equal(t, len(tc.in), n)
			assert.Equal(t, tc.in, string(r.Raw))
			head := bytes.TrimSuffix(r.Append(nil), []byte(CRLF))
			assert.Equal(t, tc.want, parts{r.Command, r.NoReply, r.Exact, r.NumKeys, r.Keys, head, r.Data, r.Answer})
		})
	}
}

func TestARefusedRequestCarriesTheTextOfTheNewestMemcachedAndSkipsItsDataBlock(t *testing.T) {
	long := strings.Repeat("k", 251)
	const none = -1
	for _, tc := range []struct {
		in, want string
		skip     int // bytes of a data block; 0 if the bytes after the line are the next request
	}{
		{"\r\n", TextBadFormat, none},
		{"\n", TextBadFormat, none},
		{"x\r\n", TextBadFormat, none},
		{"xy\r\n", TextError, none},
		{"get\r\n", TextBadFormat, none},
		{"bget a\r\n", TextError, none},
		{" get a\r\n", TextError, none},
		{"GET a\r\n", TextError, none},
		{"get a\x00\r\n", TextBadFormat, none},
		{"get " + long + "\r\n", TextBadFormat, none},
		{"get a " + long + " b\r\n", TextBadFormat, none},
		{"gat x k\r\n", TextBadExptime, none},
		{"gat 0\r\n", TextBadFormat, none},
		{"set " + long + " 0 0 1\r\n", TextBadFormat, 3},
		{"set k 0 0 +9\r\n", TextBadFormat, none},
		{"set k 0 0 4294967305\r\n", TextBadFormat, none},
		{"set k 0 0 -1\r\n", TextBadFormat, none},
		{"set k 0 0 9\t\r\n", TextBadFormat, none},
		{"set k 0 0 2147483646\r\n", TextBadFormat, none},
		{"set k 0 0 000000000009\r\n", TextBadFormat, none},
		{"set k -1 0 1\r\n", TextBadFormat, 3},
		{"set k 4294967296 0 1\r\n", TextBadFormat, 3},
		{"set k 0 9223372036854775808 1\r\n", TextBadFormat, 3},
		{"set k 0 -9223372036854775809 1\r\n", TextBadFormat, 3},
		{"set k 0 +-1 1\r\n", TextBadFormat, 3},
		{"set k 0 - 1\r\n", TextBadFormat, 3},
		{"touch k 4294967295\r\n", TextBadExptime, none},
		{"gat 2147483648 k\r\n", TextBadExptime, none},
		{"set k\x00 0 0 1\r\n", TextBadFormat, 3},
		{"set k 0 0\r\n", TextBadFormat, none},
		{"cas k 0 0 1\r\n", TextBadFormat, 3},
		{"cas k 0 0 1 x\r\n", TextBadFormat, 3},
		{"incr k\r\n", TextBadFormat, none},
		{"incr k -1\r\n", TextBadDelta, none},
		{"incr " + long + " 1\r\n", TextBadFormat, none},
		{"touch k x\r\n", TextBadExptime, none},
		{"flush_all x\r\n", TextBadExptime, none},
		{"verbosity x\r\n", TextBadFormat, none},
		{"verbosity\r\n", TextBadFormat, none},
		{"shutdown\r\n", TextNoShutdown, none},
		{"watch\r\n", TextNoWatch, none},
		{"watch fetchers\r\n", TextNoWatch, none},
		{"lru_crawler metadump all\r\n", TextNoCrawlerDump, none},
		{"lru_crawler mgdump all\r\n", TextNoCrawlerDump, none},
		{"lru_crawler m all\r\n", TextError, none},
		{"lru_crawler crawl 1\x01\r\n", TextError, none},
		{"slabs r 1 2\r\n", TextError, none},
		{"extstore item_age 5\r\n", TextError, none},
		{"refresh_certs\r\n", TextError, none},
		{"debugtime p\r\n", TextError, none},
		{"misbehave\r\n", TextError, none},
		{"stats cachedump 1 1\r\n", TextNoCacheDump, none},
		{"stats s\r\n", TextError, none},
		{"ms\r\n", TextBadFormat, none},
		{"ms k\r\n", TextBadFormat, none},
		{"ms k S2\r\n", TextBadFormat, none},
		{"ms k +2\r\n", TextBadFormat, none},
		{"ms k 2 \xff\r\n", TextBadFormat, none},
		{"ms " + long + " 2\r\n", TextBadFormat, 4},
		{"ms k 2 Z\r\n", TextMetaUnknown, 4},
		{"ms k 2 c c\r\n", TextMetaDuplicate, 4},
		{"ms k 2 F-1\r\n", TextBadFormat, 4},
		{"ms k 2 T+1\r\n", TextMetaToken, 4},
		{"ms k 2 b\r\n", TextMetaKey, 4},
		{"ms k 2 Mx\r\n", TextMetaSetMode, 4},
		{"ms k 2 O" + strings.Repeat("o", 32) + "\r\n", TextMetaOpaque, 4},
		{"ms k 2 1" + strings.Repeat(" x", 16) + "\r\n", TextMetaTooLong, 4},
		{"mg\r\n", TextBadFormat, none},
		{"mg Y*Q== b v\r\n", TextMetaKey, none},
		{"mg YR== b v\r\n", TextMetaKey, none},
		{"mg k v v\r\n", TextMetaDuplicate, none},
		{"mg k Ox\x00\r\n", TextBadFormat, none},
		{"ma k N\r\n", TextMetaArithmetic, none},
		{"ma k Mx\r\n", TextMetaCountMode, none},
		{"me k* b\r\n", TextBadFormat, none},
		{"me Cg== b\r\n", TextNoBinaryKeyEcho, none},
		{"mg Cg== v k b\r\n", TextNoBinaryKeyEcho, none},
		{"get a HTTP/1.1\r\nx", "", none},
	} {
		t.Run(tc.in, func(t *testing.T) {
			var r Request
			n, _, err := limits().Decode([]byte(tc.in), &r)
			require.NoError(t, err)
			assert.Equal(t, strings.IndexByte(tc.in, '\n')+1, n)
			assert.Equal(t, tc.want, r.Answer)
			assert.EqualValues(t, max(tc.skip, 0), r.Skip)
			assert.False(t, r.NoReply)
		})
	}
}

func TestADataBlockMustEndWithCRLF(t *testing.T) {
	for _, in := range []string{"set k 0 0 3\r\nabcde", "ms k 3\r\nabc\n\r"} {
		var r Request
		n, _, err := limits().Decode([]byte(in), &r)
		require.NoError(t, err)
		assert.Equal(t, len(in), n)
		assert.Equal(t, Invalid, r.Command)
		assert.Equal(t, TextBadChunk, r.Answer)
	}
}

func TestNoReplySuppressesARefusalOnlyIfMemcachedHasReadIt(t *testing.T) {
	for in, silent := range map[string]bool{
		"set k 0 0 noreply\r\n": false, "set k 0 0 x noreply\r\n": false, "set k noreply\r\n": false,
		"set k x 0 1 noreply\r\n": true,
		"cas k 0 0 1 noreply\r\n": true, "incr k x noreply\r\n": true, "incr k\r\n": false,
		"nonsense noreply\r\n": true,
		"nonsense\r\n":         false, "verbosity noreply\r\n": true, "flush_all x noreply\r\n": true,
		"ms k 2 q Z noreply\r\n": false,
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
	assert.EqualValues(t, 13, r.Skip)
}

func TestARetrievalWithATooLongKeyStillFetchesTheKeysBeforeIt(t *testing.T) {
	for _, command := range []string{"get", "gets", "gat 5", "gats 5"} {
		var r Request
		_, _, err := limits().Decode([]byte(command+" a  b "+strings.Repeat("k", 251)+" c\r\n"), &r)
		require.NoError(t, err)
		assert.Equal(t, TextBadFormat, r.Answer)
		assert.True(t, r.HasEffect())
		assert.Equal(t, "a b", string(r.Keys))
		assert.EqualValues(t, 2, r.NumKeys)
	}
}

func TestAnUnfinishedRequestTellsHowManyBytesItNeeds(t *testing.T) {
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

func TestNumbersHaveOnlyDigitsAndDoNotOverflow(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "5": "5", "005": "5", "000": "0", "4294967295": "4294967295", "00000000007": "7",
		"": "", "+5": "", "-5": "", " 5": "", "5x": "", "\t5": "", "4294967296": "", "000000000007": "", "x": "",
	} {
		_, digits, ok := parseUint32([]byte(in))
		assert.Equal(t, want != "", ok, in)
		assert.Equal(t, want, string(digits), in)
	}
	for in, want := range map[string]string{
		"18446744073709551615": "18446744073709551615", "0000000000000000000001": "1",
		"18446744073709551616": "", "99999999999999999999": "", "00000000000000000000001": "", "-1": "",
	} {
		_, digits, ok := parseUint64([]byte(in))
		assert.Equal(t, want != "", ok, in)
		assert.Equal(t, want, string(digits), in)
	}
	for in, want := range map[string]string{
		"0": "0", "2147483647": "2147483647", "-1": "-1", "-2147483648": "-2147483648", "010": "10",
		"2147483648": "", "-2147483649": "", "-": "", "-0": "", "-01": "", "+1": "", "--1": "", "1-": "",
	} {
		_, digits, ok := parseExptime([]byte(in))
		assert.Equal(t, want != "", ok, in)
		if ok {
			assert.Equal(t, want, string(digits), in)
		}
	}
}

func TestAStorageCommandsExptimeIsCutTo32BitsAsEveryMemcachedDoes(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-1": "-1", "2147483647": "2147483647", "2147483648": "-2147483648", "3294967297": "-999999999",
		"4294967295": "-1", "4294967296": "0",
		"4294967396": "100", "9223372036854775807": "-1", "-2147483649": "2147483647", "-4294967196": "100",
		"-9223372036854775808": "0",
		"+5":                   "5", "-0": "0", "-007": "-7", "0000000000000000000000005": "5",
	} {
		for _, line := range []string{"set k 0 %s 1", "cas k 0 %s 1 7", "append k 7 %s 1"} {
			var r Request
			n, _, err := limits().Decode([]byte(fmt.Sprintf(line, in)+"\r\nx\r\n"), &r)
			assert.NoError(t, err)
			assert.NotZero(t, n)
			assert.Empty(t, r.Answer, line, in)
			assert.Equal(t, fmt.Sprintf(line, want)+CRLF, string(r.Append(nil)), in)
			assert.Equal(t, in == want, r.Exact, in)
		}
	}
}

func TestDecodingARequestAllocatesNothing(t *testing.T) {
	var r Request
	l := limits()
	for _, in := range []string{
		"get a\r\n", "get a b c\r\n", "set k 0 0 3\r\nabc\r\n", "delete k noreply\r\n", "incr k 5\r\n", "foo\r\n",
		"set k 0 0 3 noreply\r\nabc\r\n", "gat 0 a b\r\n", "mg k v T30 f\r\n", "ms aGVsbG8= 2 b T0 MS\r\nab\r\n",
	} {
		buf := []byte(in)
		assert.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = l.Decode(buf, &r) }), in)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		"get a b\r\n", "set k 0 0 3\r\nabc\r\n", "set k 0 0 3 noreply\r\nabc\r\n", "cas k 0 0 1 2\r\nx\r\n",
		"delete k 0 noreply\r\n",
		"gat 5 a b\r\n", "flush_all noreply\r\n", "ms k 2 I\r\nab\r\n", "mg k b v\r\n", "stats\r\n", "get \x00\r\n",
		" \r\n",
		"set k 0 0 99\r\n", "set k 0 0 -1\r\n", "GET / HTTP/1.1\r\n", "set a 0 0 +9\r\nflush_all\r\n",
		"set a 0 0 4294967305\r\nflush_all\r\n", "get noreply\r\n", "delete noreply\r\n",
		"ma k N0 J13 v q\r\n", "mg aGVsbG8= b k t v\r\n", "ms k 2 T0 F9 MSx Ozz\r\nab\r\n", "me aGVsbG8= b\r\n",
		"me aGVsbG8= b 0\n", "stats detail on\r\n", "slabs automove 1\r\n",
		"lru_crawler mgdump all\r\n", "get  a\tb \n", "cas k 007 -1 1 00 noreply\nx\r\n",
		"verbosity 1 noreply\r\nquit\r\n", strings.Repeat("x", 3000), "set k 0 6606666660 1\r\nx\r\n",
		"cas k 0 +5 1 7\r\nx\r\n", "mg k M\xeb\r\n",
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
		// The same bytes without the rest are the same request, and no shorter part of them is a request.
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
		if r.Command == Invalid || r.Command == Quit || r.HasEffect() || r.Answer != "" {
			return
		}
		// Its parts are written as what was decoded, and decoded again as they were.
		line := r.Append(nil)
		var read Request
		_, _, err = l.Decode(append(line, r.Data...), &read)
		require.NoError(t, err)
		require.Equal(t, fieldsOf(&r.Op), fieldsOf(&read.Op), "%q becomes %q", in[:n], line)
		// The bytes sent to a server are one unambiguous request, and the same request that was decoded.
		sent := append(line, r.Data...)
		if r.Exact {
			require.Equal(t, string(r.Raw), string(sent))
		}
		got, err := strict.Read(bufio.NewReader(bytes.NewReader(append(sent, "mn\r\n"...))))
		require.NoError(t, err, "%q becomes %q", in[:n], sent)
		assert.Equal(t, string(line), got.Line+CRLF)
		assert.Equal(t, strings.TrimSuffix(string(r.Data), CRLF), got.Data)
		if r.Command == Meta {
			assert.Equal(t, []string{string(r.Key(nil))}, got.Keys)
			assert.Equal(t, "m"+string(r.Verb), got.Name())
		} else if r.Command != Admin {
			assert.Equal(t, strings.Fields(r.Command.String())[0], got.Name())
			assert.Equal(t, string(r.Keys), strings.Join(got.Keys, " "))
		}
		// Its words are those of the client's line: numbers without leading zeros, flags without ignored text.
		sentWords := strings.FieldsFunc(string(in[:bytes.IndexByte(in, '\n')]), func(c rune) bool { return c == ' ' })
		words := strings.Split(got.Line, " ")
		if got.Name() == "me" {
			words = words[:min(len(words), 3)] // mcmw adds the word after b, without which memcached does not see the b
		}
		for i, word := range words[:min(len(sentWords), len(words))] {
			if r.Command.IsStorage() && i == 3 { // of an expiry the lower 32 bits count
				expiry, err := strconv.ParseInt(sentWords[i], 10, 64)
				require.NoError(t, err)
				assert.Equal(t, strconv.Itoa(int(int32(expiry))), word)
				continue
			}
			assert.True(t, strings.HasPrefix(strings.ReplaceAll(sentWords[i], "0", ""),
				strings.ReplaceAll(word, "0", "")), "%q becomes %q", sentWords[i], word)
		}
	})
}

// opOf decodes a line, with a data block of the letter x if it announces one.
func opOf(t *testing.T, line string) *Op {
	var r Request
	n, need, err := limits().Decode([]byte(line+CRLF), &r)
	if err == nil && n == 0 {
		value := strings.Repeat("x", need-len(line)-2*len(CRLF))
		n, _, err = limits().Decode([]byte(line+CRLF+value+CRLF), &r)
	}
	require.NoError(t, err, line)
	require.NotZero(t, n, line)
	require.Empty(t, r.Answer, line)
	return &r.Op
}

// fieldsOf returns op without what depends on where its bytes are.
func fieldsOf(op *Op) Op {
	o := *op
	o.Raw, o.textAt, o.textEnd = nil, 0, 0
	return o
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

func TestARequestCertainlyGetsAReplyUnlessItMayBeQuiet(t *testing.T) {
	for line, want := range map[string]bool{
		"get k\r\n": true, "set k 0 0 1\r\nx\r\n": true, "set k 0 0 1 noreply\r\nx\r\n": false,
		"delete k noreply\r\n": false,
		"mg k v\r\n":           true, "mg k v q\r\n": false, "mn\r\n": true, "slabs reassign 1 2\r\n": false,
		"nonsense\r\n": true,
	} {
		var r Request
		n, _, err := limits().Decode([]byte(line), &r)
		require.NoError(t, err)
		require.Equal(t, len(line), n)
		assert.Equal(t, want, r.Replies(), line)
	}
}
