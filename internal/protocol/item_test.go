package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAChangedReplyIsWrittenAsItCameExceptForTheChange(t *testing.T) {
	for _, tc := range []struct {
		reply, want string
		change      func(it *Item)
	}{
		{"VA 2 c5 t-1\r\n10\r\n", "VA 2 c77 t-1\r\n10\r\n", func(it *Item) { it.CAS = 77 }},
		{"VA 2 kcc Ocx c5\r\nc5\r\n", "VA 2 kcc Ocx c77\r\nc5\r\n", func(it *Item) { it.CAS = 77 }},
		{"VA 2 ka Ob c4 c5\r\nc5\r\n", "VA 2 ka Ob c4\r\nc5\r\n", func(it *Item) { it.HasCAS = false }},
		{"HD\r\n", "HD\r\n", func(it *Item) { it.CAS = 77 }},
		{"VALUE a 5 2\r\nxy\r\n", "VALUE a 5 2\r\nxy\r\n", func(it *Item) { it.CAS = 77 }},
		{"VALUE a 5 2 9\r\nxy\r\n", "VALUE a 5 2 77\r\nxy\r\n", func(it *Item) { it.CAS = 77 }},
		{"VALUE a 5 2 9\r\nxy\r\n", "VALUE a 5 2\r\nxy\r\n", func(it *Item) { it.HasCAS = false }},
		{
			"VALUE a 5 2 9\r\nxy\r\n", "VALUE p:a 5 2 9\r\nxy\r\n",
			func(it *Item) { it.Rename(nil, []byte("a"), []byte("p:a")) },
		},
		{
			"VA 2 s2 ka f0\r\nxy\r\n", "VA 2 s2 kp:a f0\r\nxy\r\n",
			func(it *Item) { it.Rename(nil, []byte("a"), []byte("p:a")) },
		},
		{
			"VA 2 kYQ== b\r\nxy\r\n", "VA 2 kcDph b\r\nxy\r\n",
			func(it *Item) { it.Rename(nil, []byte("a"), []byte("p:a")) },
		},
		{
			"ME a exp=-1 la=0\r\n", "ME p:a exp=-1 la=0\r\n",
			func(it *Item) { it.Rename(nil, []byte("a"), []byte("p:a")) },
		},
		{"NF kother O5\r\n", "NF kother O5\r\n", func(it *Item) { it.Rename(nil, []byte("a"), []byte("p:a")) }},
		{"VA 2 s2 O2\r\nxy\r\n", "VA 90 s90 O2\r\nxy\r\n", func(it *Item) { it.Size = 90 }},
		{"VALUE a 5 2 9\r\nxy\r\n", "VALUE a 5 90 9\r\nxy\r\n", func(it *Item) { it.Size = 90 }},
	} {
		it, _ := DecodeItem([]byte(tc.reply))
		tc.change(&it)
		assert.Equal(t, tc.want, string(append(it.Append(nil), it.Data...)), tc.reply)
	}
}
