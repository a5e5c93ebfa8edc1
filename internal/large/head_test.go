package large_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/large"
)

func TestADecodedHeadEqualsTheEncodedOne(t *testing.T) {
	for _, size := range []int{1, 9, 10, 11, 100} {
		h := large.New(large.NewVersion(), make([]byte, size), 10)
		text := h.Append([]byte("before"))[len("before"):]
		assert.Len(t, text, large.HeadSize)
		assert.True(t, large.Begins(text))
		read, inline, ok := large.Decode(text)
		require.True(t, ok)
		assert.Equal(t, h, read)
		assert.Empty(t, inline)
		covered := 0
		for k := range read.Chunks() {
			start, end := read.Range(k)
			require.Equal(t, covered, start)
			require.LessOrEqual(t, end-start, 10)
			covered = end
		}
		assert.Equal(t, size, covered)
	}
}

func TestAnInlineValueMayBeginLikeAHead(t *testing.T) {
	other := large.New(large.NewVersion(), []byte("value"), 2)
	for _, value := range [][]byte{other.Append(nil), nil, []byte("x")} {
		h := large.NewInline(value)
		read, inline, ok := large.Decode(append(h.Append(nil), value...))
		require.True(t, ok)
		assert.Zero(t, read.Chunks())
		assert.Equal(t, string(value), string(inline))
	}
}

func TestADamagedHeadIsNotDecoded(t *testing.T) {
	chunked := large.New(large.NewVersion(), make([]byte, 100), 10)
	inline := large.NewInline([]byte("value"))
	for _, text := range [][]byte{chunked.Append(nil), append(inline.Append(nil), "value"...)} {
		for i := range text {
			for bit := range 8 {
				damaged := bytes.Clone(text)
				damaged[i] ^= 1 << bit
				_, _, ok := large.Decode(damaged)
				assert.False(t, ok, "byte %d, bit %d", i, bit)
			}
			_, _, ok := large.Decode(text[:i])
			assert.False(t, ok, "the first %d bytes", i)
		}
		_, _, ok := large.Decode(append(bytes.Clone(text), 0))
		assert.False(t, ok, "one byte more")
	}
	for _, h := range []large.Head{
		{Total: 0, Chunk: 1},
		{Total: large.MaxChunks + 1, Chunk: 1},
		{Total: 1 << 41, Chunk: 1 << 30},
	} {
		_, _, ok := large.Decode(h.Append(nil))
		assert.False(t, ok, "%+v", h)
	}
}

func TestChunksOfDifferentValuesHaveDifferentKeys(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		h := large.New(large.NewVersion(), make([]byte, 100), 10)
		for k := range h.Chunks() {
			key := string(h.AppendKey(nil, k))
			require.LessOrEqual(t, len(key), 250)
			require.False(t, seen[key])
			seen[key] = true
		}
	}
}

func TestChunksLiveLongerThanTheirHead(t *testing.T) {
	const now, month = 1_800_000_000, 30 * 24 * 3600
	for exptime, want := range map[int32]int32{
		0: 0, -1: -1, 1: 61, month - 60: month, month - 59: now + month + 1, month: now + month + 60, now + 5: now + 65,
		1<<31 - 1: 1<<31 - 1,
	} {
		got := large.Exptime(exptime, now)
		assert.Equal(t, want, got, "exptime %d", exptime)
	}
}

func FuzzDecode(f *testing.F) {
	chunked, inline := large.New(large.NewVersion(), make([]byte, 100), 10), large.NewInline([]byte("value"))
	f.Add(chunked.Append(nil))
	f.Add(append(inline.Append(nil), "value"...))
	f.Add([]byte("value"))
	f.Fuzz(func(t *testing.T, value []byte) {
		h, inline, ok := large.Decode(value)
		if !ok {
			return
		}
		if !bytes.Equal(append(h.Append(nil), inline...), value) {
			t.Fatalf("%x is decoded as %+v, which is encoded differently", value, h)
		}
		if h.Inline() != (h.Chunks() == 0) || h.Chunks() > large.MaxChunks {
			t.Fatalf("%+v has %d chunks", h, h.Chunks())
		}
	})
}
