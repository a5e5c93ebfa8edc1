package middleware

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRepliesToAFetchAreTakenOneByOne(t *testing.T) {
	const text = "VALUE a 7 4 99\r\nx\r\ny\r\nEND\r\nME a exp=-1 la=0 cas=99 fetch=no cls=1 size=63\r\n" +
		"END\r\nEN\r\n" +
		"SERVER_ERROR server-1: timeout\r\nSERVER_ERROR server-1: timeout\r\n" +
		"VALUE d 0 1 2\r\nx\r\nSERVER_ERROR server-1: reset\r\nME d exp=2 size=60\r\n" +
		"VALUE e 0 1 2\r\nx\r\nEND\r\nME ZQ== exp=1 size=60\r\n"
	rest := []byte(text)
	for _, want := range []struct {
		key, value  string
		lasts, fits bool
	}{
		{"a", "VALUE a 7 4\r\nx\r\ny\r\nEND\r\n", true, true},
		{"b", "", false, false},
		{"c", "", false, false},
		{"d", "", true, true},
		{"e", "VALUE e 0 1\r\nx\r\nEND\r\n", false, true},
	} {
		var value []byte
		var it item
		value, rest = cutValue(rest, want.key)
		it, rest = cutItem(rest)
		assert.Equal(t, want.value, string(value), want.key)
		assert.Equal(t, want.lasts, it.lasts(), want.key)
		assert.Equal(t, want.fits, it.fits(), want.key)
	}
	assert.Empty(t, rest)
	assert.False(t, item{size: 1 << 20, left: -1}.fits())
}

func FuzzRepliesToAFetch(f *testing.F) {
	f.Add("VALUE k 7 4 99\r\nx\r\ny\r\nEND\r\nME k exp=-1 size=63\r\n")
	f.Add("VALUE k 0 -1 2\r\nEND\r\nEN\r\n")
	f.Add("VALUE k 0 99999999999999999999 2\r\nx\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		value, rest := cutValue([]byte(text), "k")
		require.True(t, strings.HasSuffix(text, string(rest)))
		if value != nil {
			var flags string
			var size int
			_, err := fmt.Sscanf(string(value), "VALUE k %s %d\r\n", &flags, &size)
			require.NoError(t, err)
			head, _, _ := strings.Cut(string(value), "\r\n")
			require.Len(t, string(value), len(head)+2+size+2+5)
		}
		_, after := cutItem(rest)
		require.True(t, strings.HasSuffix(string(rest), string(after)))
	})
}
