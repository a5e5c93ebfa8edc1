package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAMetaReplyFitsOnlyItsRequest(t *testing.T) {
	for _, tc := range []struct {
		head, reply string
		fits        bool
	}{
		{"mg a v", "VA 1\r\nx\r\n", true},
		{"mg a v", "EN\r\n", true},
		{"mg a v C7", "HD\r\n", true},
		{"mg a v C7", "VA 1\r\nx\r\n", true},
		{"ma a v C7", "HD\r\n", false},
		{"mg aGVsbG8= b k v", "VA 1 khello\r\nx\r\n", true},
		{"mg aGVsbG8= b k v", "VA 1 kaGVsbG8= b\r\nx\r\n", true},
		{"mg aGVsbG8= b k v", "VA 1 khullo\r\nx\r\n", false},
		{"mg YSBPYg== b k v", "VA 1 ka Ob\r\nx\r\n", true},
		{"mg hello k v", "VA 1 kaGVsbG8= b\r\nx\r\n", true},
		{"mg hello k v", "VA 1 kaGVsbG9v b\r\nx\r\n", false},
		{"mg a v", "HD\r\n", false},
		{"mg a v", "NF\r\n", false},
		{"mg a", "HD\r\n", true},
		{"mg a", "VA 1\r\nx\r\n", false},
		{"mg a v k O7", "VA 1 ka O7\r\nx\r\n", true},
		{"mg a v k O7", "VA 1 kb O7\r\nx\r\n", false},
		{"mg a v k O7", "VA 1 ka O8\r\nx\r\n", false},
		{"mg a v k O7", "VA 1 ka\r\nx\r\n", false},
		{"mg a v k O7", "VA 1 O7\r\nx\r\n", false},
		{"mg a v k O7", "EN\r\n", true},
		{"mg a v k O7", "EN O7 ka\r\n", true},
		{"mg a v k O7", "EN O8 ka\r\n", false},
		{"mg a v", "VA 1 O8\r\nx\r\n", false},
		{"ms a 1 O7", "HD O7\r\n", true},
		{"ms a 1 O7", "HD\r\n", false},
		{"ms a 1 O7", "NS O7\r\n", true},
		{"ms a 1", "HD\r\n", true},
		{"ms a 1", "EN\r\n", false},
		{"ms a 1", "VA 1\r\nx\r\n", false},
		{"md a q", "NF\r\n", true},
		{"md a", "EX\r\n", true},
		{"ma a v", "VA 1\r\n7\r\n", true},
		{"ma a v", "HD\r\n", false},
		{"ma a", "HD\r\n", true},
		{"mg YSBPYg== b O7", "HD O7\r\n", true},
		{"mg YSBPYg== b O7", "HD O8\r\n", false},
		{"me a", "ME a exp=-1\r\n", true},
		{"me a", "EN\r\n", true},
		{"me a", "HD\r\n", false},
		{"me a", "ME b exp=-1\r\n", false},
		{"me aGVsbG8= b", "ME hello exp=-1\r\n", true},
		{"me aGVsbG8= b", "ME hullo exp=-1\r\n", false},
		{"me YSBPYg== b", "ME a Ob exp=-1\r\n", true},
		{"mg a", "ME a exp=-1\r\n", false},
	} {
		assert.Equal(t, tc.fits, opOf(t, tc.head).Fits([]byte(tc.reply)), "%s: %q", tc.head, tc.reply)
	}
}
