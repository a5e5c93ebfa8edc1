package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheCASInAReplyIsReplaced(t *testing.T) {
	for reply, want := range map[string]string{
		"VA 2 c5 t-1\r\n10\r\n":   "VA 2 c77 t-1\r\n10\r\n",
		"VA 2 kcc Ocx c5\r\nc5\r": "VA 2 kcc Ocx c77\r\nc5\r",
		"HD\r\n":                  "HD\r\n",
		"HD  c5\r\n":              "HD  c77\r\n",
	} {
		assert.Equal(t, "before "+want, string(AppendWithCAS([]byte("before "), []byte(reply), 77)))
	}
}
