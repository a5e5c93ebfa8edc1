package protocol

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLoginsAreDecodedAsMemcachedDoes(t *testing.T) {
	for in, want := range map[string]Login{
		"set k 0 0 6\r\nab cde\r\n":                  {User: []byte("ab"), Password: []byte("cde")},
		"set k 0 0 6\nab cde\r\n":                    {User: []byte("ab"), Password: []byte("cde")},
		"set k x y 6 noreply and more\r\nab cde\r\n": {User: []byte("ab"), Password: []byte("cde")},
		"set k 0 0 +6\r\n":                           {Answer: TextUnauthenticated},
		"set k 0 0 4294967302\r\n":                   {Answer: TextUnauthenticated},
		"set k 0 0 9\r\n ab cde f\r\n":               {User: []byte("ab"), Password: []byte("cde")},
		"set k 0 0 8\r\nab cde\x00f\r\n":             {User: []byte("ab"), Password: []byte("cde")},
		"set k 0 0 6\r\nabcdef\r\n":                  {Answer: textLoginFormat},
		"set k 0 0 0\r\n\r\n":                        {Answer: textLoginFormat},
		"set k 0 0 6\r\nab cdexx":                    {Answer: textLoginEnd},
		"set k 0 0 -1\r\n":                           {Answer: TextUnauthenticated},
		"set k 0 0 6x\r\n":                           {Answer: TextUnauthenticated},
		"set k 0 0 99999999999999999999\r\n":         {Answer: TextUnauthenticated},
		"set k 0 0\r\n":                              {Answer: TextUnauthenticated},
		"add k 0 0 6\r\n":                            {Answer: TextUnauthenticated},
		"set\x00 k 0 0 6\r\n":                        {Answer: TextUnauthenticated},
		"version\r\n":                                {Answer: TextUnauthenticated},
		"\r\n":                                       {Answer: TextUnauthenticated},
		"set k 0 0 16382\r\n" + strings.Repeat("x", 16382) + "\r\n": {Answer: textLoginFormat},
	} {
		var got Login
		n, need, err := DecodeLogin([]byte(in), &got)
		require.NoError(t, err)
		assert.Zero(t, need)
		assert.Equal(t, len(in), n, in)
		assert.Equal(t, want, got, in)
		for i := range len(in) {
			n, need, err := DecodeLogin([]byte(in[:i]), &got)
			require.NoError(t, err)
			require.Zero(t, n, "%q of %q", in[:i], in)
			if bytes.IndexByte([]byte(in[:i]), '\n') >= 0 && i > 1 {
				require.Equal(t, len(in), need)
			}
		}
	}
}

func TestALoginTooLargeForMemcachedClosesTheConnection(t *testing.T) {
	var l Login
	_, _, err := DecodeLogin([]byte(strings.Repeat("x", 2049)), &l)
	require.ErrorIs(t, err, ErrLineTooLong)
	for _, size := range []string{"16383", "4294967295"} {
		_, _, err = DecodeLogin([]byte("set k 0 0 "+size+"\r\n"), &l)
		require.ErrorIs(t, err, ErrLoginTooLarge)
	}
}

func TestAnEncodedLoginIsDecoded(t *testing.T) {
	var l Login
	b := AppendLogin(nil, "user", "pass:word")
	n, _, err := DecodeLogin(b, &l)
	require.NoError(t, err)
	assert.Equal(t, len(b), n)
	assert.Equal(t, Login{User: []byte("user"), Password: []byte("pass:word")}, l)
}

func FuzzDecodeLogin(f *testing.F) {
	f.Add([]byte("set k 0 0 6\r\nab cde\r\n"))
	f.Add([]byte("get k\r\n"))
	f.Add([]byte("set k 0 0 4294967302\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Login
		n, need, err := DecodeLogin(b, &l)
		switch {
		case n < 0 || n > len(b):
			t.Fatalf("%d of %d bytes taken", n, len(b))
		case n > 0 && (need != 0 || err != nil || (l.Answer == "") == (l.User == nil)):
			t.Fatalf("taken %d, need %d, %v, %+v", n, need, err, l)
		case n == 0 && need != 0 && need <= len(b):
			t.Fatalf("needs %d and has %d", need, len(b))
		}
	})
}
