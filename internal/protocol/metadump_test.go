package protocol

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestALineOfAMetadumpIsDecodedInAllItsForms(t *testing.T) {
	for _, tc := range []struct {
		line string
		want Dumped
		ok   bool
	}{
		{
			"key=k exp=-1 la=1700000000 cas=7 fetch=no cls=1 size=63 flags=0",
			Dumped{[]byte("k"), 1700000000, 7, 63},
			true,
		},
		{"key=k exp=-1 la=1700000000 cas=7 fetch=no cls=1 size=63", Dumped{[]byte("k"), 1700000000, 7, 63}, true},
		{"key=k", Dumped{Key: []byte("k")}, true},
		{"key=k ", Dumped{Key: []byte("k")}, true},
		{"key=a%20key%0D%0A%25 la=1 cas=4611686018427387904", Dumped{[]byte("a key\r\n%"), 1, 1 << 62, 0}, true},
		{"key=%c3%bc la=1 cas=18446744073709551615", Dumped{[]byte("ü"), 1, 1<<64 - 1, 0}, true},
		{"key=k la=-1 cas=x", Dumped{Key: []byte("k")}, true},
		{"key=k la=9223372036854775808 cas=18446744073709551616", Dumped{Key: []byte("k")}, true},
		{"key=a=b cas=1", Dumped{[]byte("a=b"), 0, 1, 0}, true},
		{"key=" + strings.Repeat("%41", 250) + " cas=1", Dumped{[]byte(strings.Repeat("A", 250)), 0, 1, 0}, true},
		{"key=" + strings.Repeat("A", 251) + " cas=1", Dumped{}, false},
		{"key=% cas=1", Dumped{}, false},
		{"key=%4 cas=1", Dumped{}, false},
		{"key=%zz cas=1", Dumped{}, false},
		{"key= cas=1", Dumped{}, false},
		{"cas=1 key=k", Dumped{}, false},
		{"key=a key=b cas=1", Dumped{}, false},
		{"END", Dumped{}, false},
		{"BUSY currently processing crawler request", Dumped{}, false},
		{"", Dumped{}, false},
	} {
		d, ok := DecodeDumped([]byte(tc.line))
		assert.Equal(t, tc.ok, ok, tc.line)
		if tc.ok {
			assert.Equal(t, tc.want, d, tc.line)
		}
	}
}

func TestDecodingALineOfAMetadumpAllocatesNothing(t *testing.T) {
	line := []byte("key=a%20key exp=-1 la=1700000000 cas=4611686018427387904 fetch=no cls=1 size=63 flags=0")
	buffer := make([]byte, len(line))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		copy(buffer, line)
		_, _ = DecodeDumped(buffer)
	}))
}

func FuzzDecodeDumped(f *testing.F) {
	f.Add("key=a%20key exp=-1 la=1700000000 cas=7 fetch=no cls=1 size=63 flags=0")
	f.Add("key=%zz")
	f.Add("END")
	f.Fuzz(func(t *testing.T, line string) {
		d, ok := DecodeDumped([]byte(line))
		if !ok {
			return
		}
		first, _, _ := strings.Cut(line, " ")
		key, err := url.PathUnescape(strings.TrimPrefix(first, "key="))
		if err != nil || key != string(d.Key) || d.Accessed < 0 || len(key) > DefaultMaxKey {
			t.Errorf("%q was read as %+v; its key is %q (%v)", line, d, key, err)
		}
	})
}
