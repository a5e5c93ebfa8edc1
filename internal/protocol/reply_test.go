package protocol

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBytesThatAreNoReplyAreAnError(t *testing.T) {
	for _, in := range []string{
		"STORED\n", "\n", "VALUE k 0 3\r\nabcde", "VALUE k 0 x\r\n", "VALUE k 0\r\n", "VALUE k\r\n", "VALUE  0 1\r\n",
		"VALUE k 0 99999999999\r\n", "VALUE k 0 -1\r\n", "VA x\r\n", strings.Repeat("x", 70000),
	} {
		var r Reply
		n, _, err := DecodeReply([]byte(in), &r)
		assert.Equal(t, ErrReply, err, in)
		assert.Zero(t, n)
	}
}

func TestDecodingAReplyAllocatesNothing(t *testing.T) {
	var r Reply
	for _, in := range []string{"VALUE k 0 3\r\nabc\r\n", "END\r\n", "STORED\r\n", "123\r\n"} {
		buf := []byte(in)
		assert.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = DecodeReply(buf, &r) }), in)
	}
}

func FuzzDecodeReply(f *testing.F) {
	for _, s := range []string{
		"VALUE k 0 3\r\nabc\r\nEND\r\n", "VALUE k 0 3 5\r\nabc\r\n", "END\r\n", "STORED\r\n", "12\r\n",
		"SERVER_ERROR x\r\n", "STAT a b\r\n",
		"VA 2 k\r\nab\r\n", "VA 2 c2 c\r\nab\r\n", "MN\r\n", "ME exp=5 exp=4294967296\r\n", "VALUE k 0 1073741824\r\n",
		"VALUE k 0 3\r\nab",
		"\r\n", "x",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		it, _ := DecodeItem(in)
		assert.GreaterOrEqual(t, it.Life(), int64(0))
		var r, again Reply
		n, need, err := DecodeReply(in, &r)
		if err != nil || n == 0 {
			assert.Zero(t, n)
			assert.True(t, need == 0 || need > len(in), "need %d of %d bytes", need, len(in))
			return
		}
		require.LessOrEqual(t, n, len(in))
		if r.Kind.IsMeta() || r.Kind == ReplyValue {
			it, shown := DecodeItem(in[:n])
			assert.Equal(t, r.Kind, it.Kind)
			assert.True(t, r.Kind != ReplyValue || !shown || bytes.Equal(r.Key, it.Key) && r.Data == it.Size)
			// What is written is decoded as it was.
			if shown || r.Kind != ReplyValue {
				written, _ := DecodeItem(append(it.Append(nil), it.Data...))
				written.line, written.casAt, written.keyAt, written.sizeAt = it.line, it.casAt, it.keyAt, it.sizeAt
				assert.Equal(t, it, written, "%q", in[:n])
			}
		}
		m, _, err := DecodeReply(in[:n], &again)
		require.NoError(t, err)
		assert.Equal(t, n, m)
		assert.Equal(t, r, again)
		m, _, err = DecodeReply(in[:n-1], &again)
		require.NoError(t, err)
		assert.Zero(t, m)
	})
}

func BenchmarkDecodeReply(b *testing.B) {
	for name, in := range map[string]string{
		"value-64": "VALUE memtier-1234567 0 64\r\n" + strings.Repeat("x", 64) + "\r\n", "end": "END\r\n",
		"stored": "STORED\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			buf := []byte(in)
			var r Reply
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = DecodeReply(buf, &r)
			}
		})
	}
}
